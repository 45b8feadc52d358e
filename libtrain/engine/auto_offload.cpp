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

std::pair<std::string, std::string> auto_offload(const plan::Plan& plan, const std::string& memory_limit,
                                                 std::optional<std::int64_t> of_ranks, const std::string& host) {
  constexpr auto not_known = std::numeric_limits<std::int64_t>::max();
  const auto memory = of_ranks.value_or(not_known),
             limit =
                 memory_limit.empty() ? not_known : base::parse_bytes(memory_limit, base::setting_name("memory-limit")),
             bytes = std::min(memory, limit) == not_known ? 0 : std::min(memory, limit);
  const auto chosen =
      plan::fitting_offload(plan, bytes, host.empty() ? 0 : base::parse_bytes(host, base::setting_name("host-memory")));
  if (const auto need = plan::memory_with(plan, chosen); need > memory && limit >= memory)
    throw base::EnvironmentError(
        base::text("$offload auto: {} needs the least memory, {} a rank, but a rank of this job may use only {}",
                   plan::offload_text(chosen), base::size_text(need), base::size_text(memory)),
        base::text("$zero 3 and $recompute full (or $plan auto), a smaller $micro-batch, or more memory"));
  return {plan::offload_text(chosen), base::text("$offload auto: {}", plan::offload_choice_text(plan, chosen, bytes))};
}

}  // namespace trainyard::engine
