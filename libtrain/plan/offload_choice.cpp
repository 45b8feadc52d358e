// Compares the memory of offloads, from the least that moves to the most.
#include "libtrain/plan/offload_choice.h"

#include "libtrain/base/number_text.h"
#include "libtrain/plan/decision_problems.h"
#include "libtrain/plan/spec/conditions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace trainyard::plan {

namespace {

constexpr int parts = 20;  // shares are tried in steps of 1 / parts

bool is_refused(Plan p, const Offload& offload) {
  p.offload = offload;
  std::vector<Problem> problems;
  offload_problems(p, problems);
  activation_offload_problems(p, problems);
  return !problems.empty();
}

std::int64_t on_host_with(Plan p, const Offload& offload) {
  p.offload = offload;
  p.stages = stages_of(p);
  return most_on_host(p);
}

// Where the stages begin does not depend on what lies elsewhere.
Offload fitting(Plan plan, std::int64_t bytes, Place of_optimizer, Place of_others) {
  plan.stages = stages_of(plan);
  const auto need_of = [&](const Offload& offload) {
    plan.offload = offload;
    return largest_memory(plan).total();
  };
  Offload taken, least;
  auto needed = need_of(taken);
  if (bytes == 0 || needed <= bytes) return taken;
  constexpr std::array kinds = {&Offload::optimizer, &Offload::gradients, &Offload::parameters, &Offload::activations};
  for (const auto kind : kinds) {
    const auto place = kind == &Offload::optimizer ? of_optimizer : of_others;
    auto whole = taken;
    whole.*kind = {place, 1};
    if (is_refused(plan, whole)) continue;
    // What does not fit as a whole does not fit in part.
    for (int part = need_of(whole) <= bytes ? 1 : parts; part <= parts; ++part) {
      auto some = taken;
      some.*kind = {place, static_cast<double>(part) / parts};
      const auto need = need_of(some);
      if (need <= bytes) return some;
      if (need < needed) needed = need, least = some;
    }
    taken = whole;
  }
  return least;
}

}  // namespace

std::int64_t memory_with(Plan p, const Offload& offload) {
  p.offload = offload;
  p.stages = stages_of(p);
  return largest_memory(p).total();
}

Offload fitting_offload(const Plan& plan, std::int64_t bytes, std::int64_t host_bytes) {
  if (has_adapter(plan.model)) return {};  // adapter_layout_problems
  if (plan.device != base::DeviceKind::cuda) return fitting(plan, bytes, Place::disk, Place::disk);
  const auto chosen = fitting(plan, bytes, Place::host, Place::host);
  const auto fits_host = [&](const Offload& offload) { return on_host_with(plan, offload) <= host_bytes; };
  if (host_bytes == 0 || fits_host(chosen)) return chosen;
  const auto less = fitting(plan, bytes, Place::disk, Place::host);
  return fits_host(less) ? less : fitting(plan, bytes, Place::disk, Place::disk);
}

std::string offload_choice_text(const Plan& plan, const Offload& chosen, std::int64_t bytes) {
  auto text = fmt::format("{} on {}: {} a rank", offload_text(chosen), base::counted(plan.topology.world(), "rank"),
                          base::size_text(memory_with(plan, chosen)));
  text += bytes == 0 ? "; how much it may use is not known"
                     : fmt::format(" of the {} that it may use", base::size_text(bytes));
  if (chosen.any()) text += fmt::format(" (none would need {})", base::size_text(memory_with(plan, {})));
  return text;
}

}  // namespace trainyard::plan
