// Checks of the place where a new checkpoint or model is to be written: outside everything that is read, and with
// enough free space.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

bool is_in(const std::string& path, const std::string& folder);  // or `path` is the folder itself; links are followed

void require_name_of_something_whole(const std::string& path);  // UsageError for a path that ends in ".partial"

// UsageError when `path` is one of `sources` or lies in one.
void require_outside(const std::string& path, const std::vector<std::string>& sources);

// UsageError when `path` is the folder `checkpoints` of a run or lies in it. That folder belongs to the run alone: its
// next start may remove, count or resume from what is there. A run is recognised by the files beside that folder: its
// lock, its metrics, or the name of its newest checkpoint.
void require_outside_of_runs(const std::string& path);

// EnvironmentError, naming `path`, unless `folder` has room for `bytes` more bytes. `free_bytes`, when given, replaces
// what the system reports.
void require_room(const std::string& folder, const std::string& path, std::int64_t bytes,
                  const std::function<std::int64_t(const std::string& folder)>& free_bytes);

}  // namespace trainyard::checkpoint
