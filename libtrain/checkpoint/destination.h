// Where something new is to be written: beside what is read, and where there is room.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

bool is_in(const std::string& path, const std::string& folder);  // or is the folder itself; links are followed

void require_name_of_something_whole(const std::string& path);  // UsageError for one that ends in ".partial"

// UsageError when `path` is one of `sources` or lies in one.
void require_outside(const std::string& path, const std::vector<std::string>& sources);

// UsageError when `path` is the folder `checkpoints` of a run or lies in it: what is there is the run's alone, whose
// next start may remove it, count it or go on from it. A run is known by what it keeps beside that folder: its lock,
// its metrics or the name of its newest checkpoint.
void require_outside_of_runs(const std::string& path);

// EnvironmentError, naming `path`, unless there is room for so many bytes in `folder`. `free_bytes` in place of what
// the system says, when given.
void require_room(const std::string& folder, const std::string& path, std::int64_t bytes,
                  const std::function<std::int64_t(const std::string& folder)>& free_bytes);

}  // namespace trainyard::checkpoint
