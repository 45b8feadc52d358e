// --plan auto with --machine: the layout whose steps take least time, of those that fit this start.
#pragma once

#include "libtrain/base/fields.h"
#include "libtrain/engine/config.h"
#include "libtrain/engine/world.h"

#include <string>
#include <vector>

namespace trainyard::engine {

// Searches (plan/search.h) on rank 0, and sets on every rank what no flag, variable or file gives of tensor-parallel
// ranks, sequence parallelism, pipeline stages with their schedule, expert-parallel ranks, ZeRO stage, zero groups and
// recomputation; with --offload auto also what lies elsewhere. Nothing else: these keep the run and its bits, so each
// start may choose anew. A run that goes on keeps its lanes.
//
// Collective; call it before the world is divided. Returns a sentence about it; "" where nothing is
// searched. UsageError: --machine without --plan auto, or no layout that the ranks can have. InputError: no layout
// fits.
std::string search_layout(std::vector<base::Field>& fields, RunConfig& config, World& world, int ranks_on_node);

}  // namespace trainyard::engine
