// Which folders are shard sets that this program made, and so may be replaced.
#pragma once

#include "libtrain/base/owned.h"

#include <string>
#include <vector>

namespace trainyard::data {

// Recognizes two kinds of folder: a set with an index.json of our format and only the files that it names, and an
// unfinished set (with base::lock_name) with only names of ours. A set without an index, which another program made, is
// never ours. `precious`: inputs.
base::Owned own_shard_sets(std::vector<std::string> precious);

// The folder with the parts that tasks make, beside a set (parts.h), and one part in it.
inline constexpr const char *parts_suffix = ".parts", *settings_file = "settings.json", *part_file = "part.json",
                            *refused_file = "refused.jsonl", *joined_index_file = "index.json";
base::Owned own_parts(std::vector<std::string> precious);
base::Owned own_part(std::vector<std::string> precious);
std::string part_name(int task, int tasks);  // "part-00003-of-00008"

// A list of refused documents (SOURCE TAB LINE TAB REASON in each line), empty or not.
base::Owned own_reject_lists(std::vector<std::string> precious);

}  // namespace trainyard::data
