// Gathers the losses of sequences, and adds those of a set.
#include "libtrain/engine/set_metrics.h"

#include "libtrain/base/index.h"
#include "libtrain/engine/agreement.h"

#include <algorithm>

namespace trainyard::engine {

std::vector<SetMetrics> metrics_of_sets(const StepOfSets& step, const std::vector<RunSet>& sets,
                                        const data::Mixture& mixture, World& world, tensor::Exec& communication) {
  if (sets.size() == 1) return {};
  const auto width = std::ssize(step.own);
  std::vector<double> mine(step.own.begin(), step.own.end()), all(base::size(width * world.size));
  world.control->all_gather(communication, base::View::of(mine.data(), {width}),
                            base::View::of(all.data(), {width * world.size}));
  host_call_over(communication).wait();
  std::vector<SetMetrics> out;
  for (const auto& set : sets) out.push_back({set.name});
  std::vector<double> sums(sets.size());
  const auto rows = world.topology.rows_with_losses(world.size);
  const auto b = step.batch.micro_batch;
  for (std::int64_t m = 0; m < step.batch.micros(); ++m) {
    const auto at = base::place_of_micro_batch(m, step.batch.local_accumulation, rows.ranks);
    const auto* pairs = all.data() + rows.row(at.rank) * width + 2 * at.place * b;
    for (std::int64_t s = 0; s < b; ++s) {
      const auto k = base::size(mixture.of(base::size(step.first_sample + m * b + s)).set);
      sums[k] += pairs[2 * s];
      out[k].tokens += static_cast<std::int64_t>(pairs[2 * s + 1]);
      ++out[k].sequences;
    }
  }
  const auto seen = mixture.counts(base::size(step.first_sample + step.batch.global_batch));
  for (std::size_t k = 0; k < sets.size(); ++k) {
    if (out[k].tokens > 0) out[k].loss = sums[k] / static_cast<double>(out[k].tokens);
    out[k].sequences_seen = static_cast<std::int64_t>(seen[k]);
    out[k].epochs = static_cast<double>(seen[k]) / static_cast<double>(std::max<std::int64_t>(1, sets[k].use.windows));
  }
  return out;
}

void add_validation(const std::vector<MicroLoss>& losses, const std::vector<RunSet>& sets,
                    std::vector<SetMetrics>& out) {
  if (out.empty()) return;
  std::size_t next = 0;
  for (std::size_t k = 0; k < sets.size(); ++k)
    if (sets[k].validation_sequences > 0) out[k].validation_loss = losses[next++].mean();
}

}  // namespace trainyard::engine
