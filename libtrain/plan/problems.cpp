// Checks a plan against the memory and the world.
#include "libtrain/plan/problems.h"

#include "libtrain/base/byte_size.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/plan/remedies.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trainyard::plan {

std::vector<Problem> memory_problems(const Plan& p, std::string_view limit, Kernels kernels) {
  if (p.device_memory <= 0 || p.memory.total() <= p.device_memory) return {};
  const auto& m = p.memory;
  return {{fmt::format("a rank needs {} ({} in arenas{}, {} reserve) but {} is {}: {} too much",
                       base::size_text(m.total()), base::size_text(m.arenas()),
                       m.on_host > 0 ? fmt::format(", {} of them on the host", base::size_text(m.on_host)) : "",
                       base::size_text(m.reserve), base::setting_name(limit), base::size_text(p.device_memory),
                       base::size_text(m.total() - p.device_memory)),
           remedies(p, Pass::train, limit, kernels)}};
}

std::vector<Problem> host_memory_problems(const Plan& p, std::int64_t host_memory) {
  auto most = p.memory.on_host;
  for (const auto& stage : p.stage_memory) most = std::max(most, stage.on_host);
  if (host_memory <= 0 || most <= host_memory) return {};
  return {{base::text("a rank needs {} of its GPU's host but $host-memory is {}: {} too much", base::size_text(most),
                      base::size_text(host_memory), base::size_text(most - host_memory)),
           p.offload.uses(Place::host) ? base::text("a smaller share in $offload, disk in place of host, or more ranks")
                                       : base::text("more ranks")}};
}

std::vector<Problem> problems(const Plan& p, int world) {
  auto out = decision_problems(p);
  if (p.topology.world() != world)
    out.push_back({fmt::format("the plan is for {} ranks, the world has {}", p.topology.world(), world),
                   base::text("start {} ranks, or make a plan with $ranks {}", p.topology.world(), world)});
  if (!decision_problems(p).empty()) return out;
  auto fresh = p;
  predict(fresh);
  for (auto& problem : memory_problems(fresh)) out.push_back(std::move(problem));
  return out;
}

}  // namespace trainyard::plan
