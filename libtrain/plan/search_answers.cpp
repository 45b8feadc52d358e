// Searches with something changed.
#include "libtrain/plan/search_answers.h"

#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/plan/grid/ranges.h"
#include "libtrain/plan/layout_text.h"
#include "libtrain/plan/problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace trainyard::plan {

SearchResult search(const SearchOf& of) {
  StepTimer timer(of.plan.model, of.machine, of.execution);
  return search(of.plan, of.space, timer, of.limits, of.kernels);
}

void NoLayout::refuse(const std::string& more_memory) const {
  if (of_settings) throw base::UsageError(why, hint);
  throw base::InputError(why, hint.empty() ? more_memory : hint);
}

NoLayout why_none(const SearchOf& of, const SearchResult& result) {
  const auto& c = result.counts;
  const int world = of.plan.topology.world();
  const auto ranks = base::counted(world, "rank"), layouts = base::count_text(c.layouts),
             batch = base::count_text(of.plan.global_batch),
             other_batch =
                 base::text("degrees that divide the ranks, and a $global-batch that they divide: {} now", batch);
  if (c.layouts == 0)
    return {fmt::format("no layout divides a global batch of {} among {}", batch, ranks), other_batch, true};
  if (!result.missing_rate.empty()) {
    const auto why =
        c.too_large == 0
            ? result.missing_rate
            : fmt::format("none of {} layouts fits {} a rank on {}, and of some of them no time is known: {}", layouts,
                          base::size_text(of.limits.device_bytes), ranks, result.missing_rate);
    return {why, result.missing_rate_hint, false};
  }
  if (c.too_large > 0)
    return {
        fmt::format("none of {} layouts fits {} a rank on {}", layouts, base::size_text(of.limits.device_bytes), ranks),
        {},
        false};
  // Without shared layers and stages each rank is a replica. That a batch does not divide among them says more than
  // what is wrong with shared ones.
  if (of.space.tensor && of.space.pipeline && of.plan.global_batch % world != 0)
    return {fmt::format("none of {} layouts is possible on {}: a global batch of {} does not divide among {}, and {}",
                        layouts, ranks, batch, base::counted(world, "replica"), result.refusal),
            base::text("a $global-batch that {} divides, or other ranks", world), true};
  return {fmt::format("none of {} layouts is possible on {}: {}", layouts, ranks, result.refusal), result.refusal_hint,
          true};
}

Plan on_ranks(Plan plan, int ranks) {
  plan.topology = topology_of(plan, ranks);
  return plan;
}

namespace {

// No rank has less, whatever the layout: weights, gradients and the optimizer's states over all ranks.
double least_bytes(const SearchOf& of) {
  if (!needs_textbook_states(of.plan, of.space)) return 0;
  return model_state_bytes(parameter_count(of.plan.model), of.plan.topology.world(), 3, of.plan.dtype,
                           of.plan.gradient_dtype, *of.plan.states().optimizer);
}

std::optional<FoundPlan> best_on(SearchOf of, int ranks) {
  of.plan = on_ranks(of.plan, ranks);
  return best_of(std::move(of)).found;
}

// The plan with one setting of the other one.
Plan with_setting_of(const Plan& plan, const Plan& other, const char* name) {
  auto changed = plan;
  ParallelLayout from = other;
  auto fields = fields_of(static_cast<ParallelLayout&>(changed)), theirs = fields_of(from);
  const auto value = base::field_named(theirs, name, "a layout").get();
  base::field_named(fields, name, "a layout").set(value, name);
  if (std::string_view(name) == "tensor-parallel") changed.sequence_parallel = other.sequence_parallel;
  return on_ranks(std::move(changed), plan.topology.world());
}

constexpr std::int64_t deepest_model = 8192, fewest_layers = 64;

// The part of a step whose difference is largest.
const StepTimePart& largest_difference(const StepTime& slow, const StepTime& fast) {
  return *std::max_element(step_time_parts.begin(), step_time_parts.end(), [&](const auto& a, const auto& b) {
    return slow.*a.seconds - fast.*a.seconds < slow.*b.seconds - fast.*b.seconds;
  });
}

}  // namespace

BestPlan best_of(SearchOf of) {
  StepTimer timer(of.plan.model, of.machine, of.execution);
  return best_of(std::move(of), timer);
}

BestPlan best_of(SearchOf of, StepTimer& timer) {
  of.limits.top = 1;
  const double least = least_bytes(of);
  if (of.limits.device_bytes > 0 && least > static_cast<double>(of.limits.device_bytes))
    return {{},
            fmt::format("weights, gradients and states of the optimizer need {} a rank on {}",
                        base::size_text(static_cast<std::int64_t>(least)),
                        base::counted(of.plan.topology.world(), "rank"))};
  auto result = search(of.plan, of.space, timer, of.limits, of.kernels);
  if (result.best.empty()) return {{}, why_none(of, result).why};
  return {std::move(result.best.front()), {}};
}

std::string why_not(const SearchOf& of, const std::string& settings, const std::string& spelled,
                    const FoundPlan& best) {
  auto within = of;
  within.plan = with_layout(of.plan, settings, spelled);
  within.space = space_beside(of.space, settings, spelled);
  within.limits.top = 1;
  const auto found = search(within);
  const auto& asked = found.best.empty() ? within.plan : found.best.front().plan;
  auto name = layout_text(within.plan);
  if (name.empty()) name = settings;  // values that the plan has anyway
  if (const auto rest = layout_text(asked, within.plan); !rest.empty()) name += fmt::format(", at best with {},", rest);
  if (const auto wrong = decision_problems(asked, {}, of.kernels); !wrong.empty()) {
    const auto all = as_one(wrong);
    return fmt::format("{} is refused: {}{}", name, all.message, all.hint.empty() ? "" : " (try: " + all.hint + ")");
  }
  auto plan = asked;
  plan.device_memory = of.limits.device_bytes;
  predict(plan);
  auto problems = memory_problems(plan, "device-memory", of.kernels);
  for (auto& problem : host_memory_problems(plan, of.limits.host_bytes)) problems.push_back(std::move(problem));
  if (!problems.empty()) {
    const auto all = as_one(problems);
    return fmt::format("{} does not fit: {}{}", name, all.message, all.hint.empty() ? "" : " (try: " + all.hint + ")");
  }
  StepTimer timer(of.plan.model, of.machine, of.execution);
  const auto time = timer.time(plan);
  if (time.seconds <= best.time.seconds)
    return fmt::format("{} takes no longer than the best that was found: {} a step", name,
                       step_seconds_text(time.seconds));
  const auto& part = largest_difference(time, best.time);
  auto out = fmt::format(
      "{} takes {} a step, {:.2f} times the best ({}): the largest part of the difference is {}, {} of "
      "it and {} of the best",
      name, step_seconds_text(time.seconds), time.seconds / best.time.seconds, layout_text(best.plan), part.name,
      step_seconds_text(time.*part.seconds), step_seconds_text(best.time.*part.seconds));
  // Less than a fifth of the difference is no help.
  std::string change;
  double least = time.seconds - (time.seconds - best.time.seconds) / 5;
  for (const auto& setting : search_settings()) {
    auto changed = with_setting_of(plan, best.plan, setting.name);
    if (!decision_problems(changed, {}, of.kernels).empty()) continue;
    changed.stages = stages_of(changed);
    if (of.limits.device_bytes > 0 && largest_memory(changed).total() > of.limits.device_bytes) continue;
    if (of.limits.host_bytes > 0 && most_on_host(changed) > of.limits.host_bytes) continue;
    const auto seconds = timer.time(changed).seconds;
    if (seconds >= least) continue;
    ParallelLayout from = best.plan;
    auto fields = fields_of(from);
    least = seconds;
    change = fmt::format("{} {}", base::setting_name(setting.name),
                         base::field_named(fields, setting.name, "a layout").get());
  }
  if (change.empty()) return out + "; no single setting of the best helps";
  return out + fmt::format("; {} alone takes {}", change, step_seconds_text(least));
}

std::optional<OnNodes> fewest_nodes(const SearchOf& of, int most) {
  for (int nodes = 1; nodes <= most; ++nodes) {
    const auto ranks = std::int64_t{nodes} * of.machine.devices_per_node;
    if (!ranges::ranks.holds(static_cast<int>(ranks))) return {};
    auto any = of;
    any.limits.first = true;
    if (!best_on(any, static_cast<int>(ranks))) continue;
    if (auto found = best_on(of, static_cast<int>(ranks))) return OnNodes{nodes, std::move(*found)};
  }
  return {};
}

std::optional<FoundPlan> largest_model(const SearchOf& of) {
  const auto with = [&](std::int64_t layers, bool first) {
    auto other = of;
    other.plan.model.layers = layers, other.limits.first = first;
    return best_on(std::move(other), of.plan.topology.world());
  };
  // Stages and experts may need several layers at least.
  std::int64_t fits = 1;
  while (fits <= fewest_layers && !with(fits, true)) ++fits;
  if (fits > fewest_layers) return {};
  auto too_many = 2 * fits;
  for (; too_many <= deepest_model && with(too_many, true); too_many *= 2) fits = too_many;
  while (too_many - fits > 1) {
    const auto middle = (fits + too_many) / 2;
    (with(middle, true) ? fits : too_many) = middle;
  }
  return with(fits, false);
}

std::string change_text(const ShadowPrice& price, double seconds) {
  auto text = fmt::format("{:+.1f} %", 100 * (price.seconds / seconds - 1));
  return text.substr(1) == "0.0 %" ? text.substr(1) : text;
}

std::vector<ShadowPrice> shadow_prices(const SearchOf& of) {
  constexpr double tenth = 1.1;
  const std::vector<std::pair<const char*, std::function<void(SearchOf&)>>> changes{
      {"memory of a device",
       [](SearchOf& s) {
         s.limits.device_bytes = static_cast<std::int64_t>(tenth * static_cast<double>(s.limits.device_bytes));
       }},
      {"rate of products", [](SearchOf& s) { s.machine.flops_16bit *= tenth, s.machine.flops_32bit *= tenth; }},
      {"memory bandwidth", [](SearchOf& s) { s.machine.memory_bandwidth *= tenth; }},
      {"links in a node", [](SearchOf& s) { s.machine.link_bandwidth *= tenth; }},
      {"network", [](SearchOf& s) { s.machine.network_bandwidth *= tenth; }}};
  std::vector<ShadowPrice> out;
  for (const auto& [what, change] : changes) {
    auto other = of;
    change(other);
    if (const auto found = best_on(std::move(other), of.plan.topology.world()))
      out.push_back({what, found->time.seconds});
  }
  return out;
}

}  // namespace trainyard::plan
