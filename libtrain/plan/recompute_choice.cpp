// Compares the memory of recomputations, from the fewest layers to the most.
#include "libtrain/plan/recompute_choice.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace trainyard::plan {

namespace {

// The layers of the stage that has most. Shares are tried in steps of one of its layers.
std::int64_t most_layers(const Plan& p) {
  const auto stages = stages_of(p);
  std::int64_t most = 1;
  for (int stage = 0; stage < p.pipeline; ++stage) most = std::max(most, layer_count(part_of(p.model, stages, stage)));
  return most;
}

// A share with few digits, of which `layers` have just this many layers.
double share_with(std::int64_t some, std::int64_t layers) {
  double scale = 1000;
  while (scale < 10 * static_cast<double>(layers)) scale *= 10;
  return some == layers ? 1 : std::floor(scale * static_cast<double>(some) / static_cast<double>(layers)) / scale;
}

// So many layers in the form. What the others do in the form `layers`:
enum class Others { selective, none };
Recomputation with_layers(Recompute form, std::int64_t some, std::int64_t layers, Others others) {
  const double share = share_with(some, layers);
  if (form != Recompute::layers) return {0, share};
  return {share, others == Others::selective ? 1 - share : 0};
}

}  // namespace

std::int64_t memory_with(const Plan& p, const Recomputation& recompute) {
  return PlanMemory(p).largest(recompute).total();
}

Recomputation undecided_recomputation(const ParallelLayout& layout) {
  return layout.offload.activations.place == Place::device ? Recompute::none : Recompute::layers;
}

bool may_recompute(const Plan& plan, Recompute form) {
  if (form != Recompute::layers && plan.offload.activations.place != Place::device) return false;
  return form == Recompute::none || plan.pipeline_schedule != PipelineSchedule::zero_bubble;
}

Recomputation all_but_the_last(const Plan& plan) {
  const auto layers = most_layers(plan);
  return with_layers(Recompute::layers, layers - 1, layers,
                     may_recompute(plan, Recompute::selective) ? Others::selective : Others::none);
}

// Where stages begin at the same layers, each further layer needs less memory, except for the last one in the form
// `layers`: while it is computed again, all that it has stays, and its input does so, too. So halving the interval
// finds the fewest, and the last is tried apart. With --partition flops, a share may move a stage, and another share
// might fit.
namespace {

Recomputation fewest(const Plan& plan, PlanMemory& memory, Recompute form, std::int64_t bytes) {
  if (form == Recompute::none) return {};
  const auto others = may_recompute(plan, Recompute::selective) ? Others::selective : Others::none;
  const auto layers = most_layers(plan);
  const auto need = [&](std::int64_t some) { return memory.largest(with_layers(form, some, layers, others)).total(); };
  auto most = layers;
  if (form == Recompute::layers && layers > 1 && need(layers - 1) <= need(layers)) most = layers - 1;
  if (need(most) > bytes) return with_layers(form, most, layers, others);
  std::int64_t too_few = 0, enough = most;
  while (enough - too_few > 1) {
    const auto middle = (too_few + enough) / 2;
    (need(middle) <= bytes ? enough : too_few) = middle;
  }
  return with_layers(form, enough, layers, others);
}

}  // namespace

Recomputation fewest_recomputed(const Plan& plan, Recompute form, std::int64_t bytes) {
  PlanMemory memory(plan);
  return fewest(plan, memory, form, bytes);
}

Recomputation fitting_recomputation(const Plan& plan, std::int64_t bytes) {
  PlanMemory memory(plan);
  return fitting_recomputation(plan, memory, bytes);
}

Recomputation fitting_recomputation(const Plan& plan, PlanMemory& memory, std::int64_t bytes) {
  if (bytes == 0) return undecided_recomputation(plan);
  const auto need_of = [&](const Recomputation& recompute) { return memory.largest(recompute).total(); };
  std::optional<Recomputation> least;
  for (const auto form : recomputations) {
    if (!may_recompute(plan, form)) continue;
    const auto some = fewest(plan, memory, form, bytes);
    const auto need = need_of(some);
    if (need <= bytes) return some;
    if (!least || need < need_of(*least)) least = some;
  }
  return least.value_or(undecided_recomputation(plan));
}

}  // namespace trainyard::plan
