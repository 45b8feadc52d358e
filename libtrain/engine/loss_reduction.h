// The loss of many micro-batches that ranks evaluate in turn: sums are gathered and folded by micro-batch index, so the
// bits do not depend on the number of ranks.
#pragma once

#include "libtrain/engine/world.h"

#include <cstdint>
#include <functional>
#include <span>

namespace trainyard::engine {

struct MicroLoss {
  double sum = 0, targets = 0;       // of the losses of the counted targets, in nats
  double bytes = 0, unmeasured = 0;  // of text that these targets stand for; targets of which that is not known. Not
                                     // every caller counts them.
  double mean() const { return targets > 0 ? sum / targets : 0; }
};

// losses[i] of micros[i]; of pipeline stages only the last has them.
using EvaluateMicros = std::function<void(std::span<const std::int64_t> micros, std::span<MicroLoss> losses)>;

// Adds the micro-batches [first, end) to `total` in ascending order. The data rank whose turn is r, of d, evaluates
// first + r, first + r + d, ...; one without a micro-batch in the last round evaluates the last one again and counts
// nothing, so that it takes part in the gathers of stage 3. Ranks that share the layers of a replica evaluate the same,
// stages of it their parts. Collective.
void reduce_losses(World& world, tensor::Exec& communication, std::int64_t first, std::int64_t end,
                   const EvaluateMicros& evaluate, MicroLoss& total);

}  // namespace trainyard::engine
