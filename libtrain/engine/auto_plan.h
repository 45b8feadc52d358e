// --plan auto: what the settings leave open of a layout, decided for the ranks that this start has and the memory of
// their machines.
#pragma once

#include "libtrain/engine/config.h"
#include "libtrain/engine/place.h"
#include "libtrain/engine/world.h"
#include "libtrain/plan/plan.h"

#include <cstdint>
#include <string>

namespace trainyard::engine {

// What a rank may have on a machine: its share of nine tenths; the rest is the system's. 0: not known.
std::int64_t memory_for_a_rank(std::int64_t machine_bytes, int ranks_on_node);

// The first that fits `bytes` of: the lowest ZeRO stage, the lowest with norms and activations recomputed, the lowest
// with layers recomputed; of these what is `open`. No other choice is made, since only these two change neither the run
// nor its bits. Where nothing fits: the one that needs least. bytes 0: the first.
struct Open {
  bool zero = true, recompute = true;
};
plan::Plan fitting_plan(const plan::Plan& plan, Open open, std::int64_t bytes);

// Where the settings say --plan auto, decides for all ranks (collective), and returns one sentence about it, else "".
// Everything that a start would refuse is refused first; EnvironmentError where nothing fits the machines, InputError
// (exit 3) where nothing fits --memory-limit. config.device is definite.
std::string decide_layout(RunConfig& config, World& world, tensor::Exec& exec, const Place& place, int ranks_on_node);

}  // namespace trainyard::engine
