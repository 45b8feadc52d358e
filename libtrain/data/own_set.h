// Which folders are shard sets of this program's making, so that they may be replaced.
#pragma once

#include "libtrain/base/owned.h"

#include <string>
#include <vector>

namespace trainyard::data {

// A set with an index.json of our format and no file but those it names, or an unfinished one (base::lock_name) that
// holds nothing but names of ours. A set that somebody else made, without an index, is never ours. `precious`: inputs.
base::Owned own_shard_sets(std::vector<std::string> precious);

// The folder of tasks' parts beside a set (parts.h), and one part of it.
inline constexpr const char *parts_suffix = ".parts", *settings_file = "settings.json", *part_file = "part.json",
                            *refused_file = "refused.jsonl", *joined_index_file = "index.json";
base::Owned own_parts(std::vector<std::string> precious);
base::Owned own_part(std::vector<std::string> precious);
std::string part_name(int task, int tasks);  // "part-00003-of-00008"

// A list of refused documents (SOURCE TAB LINE TAB REASON in each line), empty or not.
base::Owned own_reject_lists(std::vector<std::string> precious);

}  // namespace trainyard::data
