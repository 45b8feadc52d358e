// Capacities of experts, and the rows that follow.
#include "libtrain/plan/spec/expert_config.h"

#include "libtrain/base/decimal.h"
#include "libtrain/base/error.h"

#include <algorithm>

namespace trainyard::plan {

std::int64_t expert_capacity(const ExpertConfig& e, std::int64_t count, std::int64_t tokens, Pass pass) {
  const bool same = pass == Pass::train || e.evaluation_capacity_factor == "same";
  const auto& text = same ? e.capacity_factor : e.evaluation_capacity_factor;
  if (text == "none") return 0;
  const auto factor = base::decimal_of(text);
  TRAINYARD_ASSERT(factor, "the capacity factor is '{}'", text);
  // The intermediate products need more than 64 bits.
  const auto wanted = static_cast<__int128>(e.top_k) * tokens * factor->numerator,
             share = static_cast<__int128>(count) * factor->denominator;
  const auto places = std::min<__int128>((wanted + share - 1) / share, tokens);
  return std::min(tokens, std::max(static_cast<std::int64_t>(places), e.min_capacity));
}

std::int64_t expert_rows(const ExpertConfig& e, std::int64_t count, std::int64_t tokens, Pass pass) {
  const auto wanted = e.top_k * tokens, capacity = expert_capacity(e, count, tokens, pass);
  return capacity == 0 ? wanted : std::min(wanted, count * capacity);
}

}  // namespace trainyard::plan
