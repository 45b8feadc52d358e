// What a step reports of each set that a run mixes.
#pragma once

#include "libtrain/data/mixture.h"
#include "libtrain/engine/loss_reduction.h"
#include "libtrain/engine/metrics.h"
#include "libtrain/engine/run_sets.h"
#include "libtrain/engine/world.h"
#include "libtrain/plan/grid/batch.h"

#include <cstdint>
#include <span>
#include <vector>

namespace trainyard::engine {

// A step whose first sequence is `first_sample`. `own`: the pairs of SequenceLosses of this rank.
struct StepOfSets {
  plan::BatchPlan batch;
  std::int64_t first_sample = 0;
  std::span<const double> own;
};

// Adds the losses of all ranks for each set, in the order of the samples, so that the bits depend on no layout.
// Collective. Empty if there is one set.
std::vector<SetMetrics> metrics_of_sets(const StepOfSets& step, const std::vector<RunSet>& sets,
                                        const data::Mixture& mixture, World& world, tensor::Exec& communication);
// Writes the losses of a validation, one for each set that has one, beside those of the step.
void add_validation(const std::vector<MicroLoss>& losses, const std::vector<RunSet>& sets,
                    std::vector<SetMetrics>& out);

}  // namespace trainyard::engine
