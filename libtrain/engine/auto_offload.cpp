// The limit of a rank, and what fits it.
#include "libtrain/engine/auto_offload.h"

#include "libtrain/base/byte_size.h"
#include "libtrain/base/error.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/plan/offload_choice.h"

#include <algorithm>
#include <limits>

namespace trainyard::engine {

namespace {

constexpr auto not_known = std::numeric_limits<std::int64_t>::max();

// What a rank may use; 0: that is not known.
std::int64_t usable(const std::string& limit, std::optional<std::int64_t> of_ranks) {
  const auto asked = limit.empty() ? not_known : base::parse_bytes(limit, base::setting_name("memory-limit"));
  const auto bytes = std::min(of_ranks.value_or(not_known), asked);
  return bytes == not_known ? 0 : bytes;
}

std::int64_t bytes_of_host(const std::string& host) {
  return host.empty() ? 0 : base::parse_bytes(host, base::setting_name("host-memory"));
}

}  // namespace

int stage_for_offload(const plan::Plan& plan, const std::string& limit, std::optional<std::int64_t> of_ranks,
                      const std::string& host) {
  const auto bytes = usable(limit, of_ranks);
  const auto fits = [&](int zero) {
    auto other = plan;
    other.zero = zero;
    return plan::memory_with(other, plan::fitting_offload(other, bytes, bytes_of_host(host))) <= bytes;
  };
  return bytes > 0 && plan.zero < 3 && !fits(plan.zero) && fits(3) ? 3 : plan.zero;
}

std::pair<std::string, std::string> auto_offload(const plan::Plan& plan, const std::string& memory_limit,
                                                 std::optional<std::int64_t> of_ranks, const std::string& host) {
  const auto bytes = usable(memory_limit, of_ranks), memory = of_ranks.value_or(not_known);
  const auto chosen = plan::fitting_offload(plan, bytes, bytes_of_host(host));
  // What does not fit --memory-limit is refused later.
  if (const auto need = plan::memory_with(plan, chosen); need > memory && bytes == memory)
    throw base::EnvironmentError(
        base::text("$offload auto: {} needs the least memory, {} a rank, but a rank of this job may use only {}",
                   plan::offload_text(chosen), base::size_text(need), base::size_text(memory)),
        base::text("$zero 3 and $recompute full (or $plan auto), a smaller $micro-batch, or more memory"));
  return {plan::offload_text(chosen), base::text("$offload auto: {}", plan::offload_choice_text(plan, chosen, bytes))};
}

}  // namespace trainyard::engine
