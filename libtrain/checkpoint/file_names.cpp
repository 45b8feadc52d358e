// Names made of numbers.
#include "libtrain/checkpoint/file_names.h"

#include <fmt/format.h>

namespace trainyard::checkpoint {

std::string step_name(std::int64_t step) { return fmt::format("step-{:08}", step); }
std::string rank_name(int rank) { return fmt::format("rank-{:05}", rank); }
std::string index_name(int rank) { return rank_name(rank) + ".index"; }

}  // namespace trainyard::checkpoint
