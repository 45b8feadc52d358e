// The names of a checkpoint's folder and of the files in it.
#pragma once

#include <cstdint>
#include <string>

namespace trainyard::checkpoint {

std::string step_name(std::int64_t step);  // "step-00001000"
std::string rank_name(int rank);           // "rank-00003"
std::string index_name(int rank);          // "rank-00003.index"

inline constexpr const char* joined_index_name = "ranks.index";  // the indices of all ranks (joined_index.h)
inline constexpr const char* view_name = "checkpoint.h5";        // the virtual view (view.h)

// The lines of metrics that led to a checkpoint, kept in a checkpoint that a run has set aside.
inline constexpr const char* history_name = "history.jsonl";

}  // namespace trainyard::checkpoint
