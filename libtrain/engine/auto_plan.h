// --plan auto and --recompute auto: decide what the settings leave open of a parallel layout, for the ranks of this
// start and the memory of their machines.
#pragma once

#include "libtrain/engine/config.h"
#include "libtrain/engine/place.h"
#include "libtrain/engine/setup.h"
#include "libtrain/engine/world.h"
#include "libtrain/plan/plan.h"

#include <cstdint>
#include <optional>
#include <string>

namespace trainyard::engine {

// Bytes that a rank may use on a machine: its share of nine tenths of the memory. The rest is for the system. 0: not
// known.
std::int64_t memory_for_a_rank(std::int64_t machine_bytes, int ranks_on_node);

// What the settings leave open.
Open open_in(const RunConfig& config);

// Returns the first plan that needs at most `bytes`, and changes only what is `open`. The order is: the lowest ZeRO
// stage without recomputation, the lowest with norms and activations recomputed, the lowest with whole layers
// recomputed; of the layers as few as fit (plan/recompute_choice.h). Nothing else is decided, because only these two
// choices change neither the run nor its bits. If nothing fits, returns the plan that needs least. With `bytes` 0 it
// returns the first.
plan::Plan fitting_plan(const plan::Plan& plan, Open open, std::int64_t bytes);

// The bytes that every rank may use, which is what the rank with least may use. nullopt if no rank knows. Collective.
std::optional<std::int64_t> memory_of_every_rank(World& world, tensor::Exec& exec, const Place& place,
                                                 int ranks_on_node);

// What --plan auto or --recompute auto decides of what is `open`, with one sentence about it. `setup` has no memory
// limit, so that everything else that a start refuses was refused before. `limit` is --memory-limit, `memory` the bytes
// of memory_of_every_rank. EnvironmentError if nothing fits `memory`, unless --offload auto goes on from here. A layout
// that does not fit `limit` is refused later, like any other plan.
struct AutoLayout {
  int zero = 0;
  plan::Recomputation recompute = {};
  std::string text;
};
AutoLayout auto_layout(const RunSetup& setup, Open open, const std::string& limit, std::optional<std::int64_t> memory);

}  // namespace trainyard::engine
