// The loss of many micro-batches that data-parallel ranks evaluate in rotation. Sums are gathered and added in the
// order of micro-batch indices, so the bits do not depend on the number of ranks.
#pragma once

#include "libtrain/engine/world.h"

#include <cstdint>
#include <functional>
#include <span>

namespace trainyard::engine {

struct MicroLoss {
  double sum = 0, targets = 0;  // sum of the losses of the counted targets, in nats; number of these targets
  // Bytes of text behind these targets, and targets whose text is not known. Not every caller counts them.
  double bytes = 0, unmeasured = 0;
  double mean() const { return targets > 0 ? sum / targets : 0; }
};

// Computes losses[i], the loss of micro-batch micros[i]. Of pipeline stages only the last has losses.
using EvaluateMicros = std::function<void(std::span<const std::int64_t> micros, std::span<MicroLoss> losses)>;

// Adds the losses of micro-batches [first, end) to `total` in ascending order. Of d data-parallel ranks, the rank with
// reduction order r evaluates first + r, first + r + d, ... A rank without a micro-batch in the last accumulation step
// evaluates the last micro-batch again and counts nothing. So it takes part in the gathers of ZeRO 3. Tensor-parallel
// ranks of a replica evaluate the same micro-batches, and each pipeline stage its part of the layers. Collective.
void reduce_losses(World& world, tensor::Exec& communication, std::int64_t first, std::int64_t end,
                   const EvaluateMicros& evaluate, MicroLoss& total);
// The same, where `total_of` names what the loss of a micro-batch is added to.
using TotalOf = std::function<MicroLoss&(std::int64_t micro)>;
void reduce_losses(World& world, tensor::Exec& communication, std::int64_t first, std::int64_t end,
                   const EvaluateMicros& evaluate, const TotalOf& total_of);

}  // namespace trainyard::engine
