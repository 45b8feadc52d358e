// --plan auto: decides what the settings leave open of a parallel layout, for the ranks of this start and the memory of
// their machines.
#pragma once

#include "libtrain/engine/config.h"
#include "libtrain/engine/place.h"
#include "libtrain/engine/world.h"
#include "libtrain/plan/plan.h"

#include <cstdint>
#include <string>

namespace trainyard::engine {

// Bytes that a rank may use on a machine: its share of nine tenths of the memory. The rest is for the system. 0: not
// known.
std::int64_t memory_for_a_rank(std::int64_t machine_bytes, int ranks_on_node);

// Returns the first plan that needs at most `bytes`, and changes only what is `open`. The order is: the lowest ZeRO
// stage without recomputation, the lowest with norms and activations recomputed, the lowest with whole layers
// recomputed. Nothing else is decided, because only these two choices change neither the run nor its bits. If nothing
// fits, returns the plan that needs least. With `bytes` 0 it returns the first.
struct Open {
  bool zero = true, recompute = true;
};
plan::Plan fitting_plan(const plan::Plan& plan, Open open, std::int64_t bytes);

// With --plan auto, decides for all ranks (collective) and returns one sentence about the decision. Otherwise returns
// "". Everything that a start would refuse is refused first. EnvironmentError if nothing fits the machines, InputError
// (exit 3) if nothing fits --memory-limit. config.device must be cpu or cuda already.
std::string decide_layout(RunConfig& config, World& world, tensor::Exec& exec, const Place& place, int ranks_on_node);

}  // namespace trainyard::engine
