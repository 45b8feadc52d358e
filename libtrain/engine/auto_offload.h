// --offload auto: decides at each start what has to lie elsewhere, for the memory that a rank may use.
#pragma once

#include "libtrain/plan/plan.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace trainyard::engine {

// Returns the text of the offload that --offload takes (plan/offload_choice.h), and one sentence about it. `limit` is
// --memory-limit, `host` --host-memory, `memory` the bytes of memory_of_every_rank. EnvironmentError if nothing fits
// `memory`. An offload that does not fit `limit` or `host` is refused later, like any other plan.
std::pair<std::string, std::string> auto_offload(const plan::Plan& plan, const std::string& limit,
                                                 std::optional<std::int64_t> memory, const std::string& host = {});

// The ZeRO stage with which an offload fits, if the stage is open: the plan's, else 3, with which weights may lie
// elsewhere. The plan's, too, if neither fits.
int stage_for_offload(const plan::Plan& plan, const std::string& limit, std::optional<std::int64_t> memory,
                      const std::string& host = {});

}  // namespace trainyard::engine
