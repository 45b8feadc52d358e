// What the norms of whole parameters and of their updates cost, for an optimizer that needs them
// (OptimizerKind::has_parameter_norms): memory, and the sums over ranks.
#pragma once

#include "libtrain/plan/cost/sized_calls.h"
#include "libtrain/plan/cost/states.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// Digits of two exact sums of squares for each parameter (kernels/update/trust_ratio.h), i64. LAMB also has a factor,
// f32, of each.
inline constexpr std::int64_t digits_of_norms = 42;

// The ranks that hold parts of a flat group's parameters, or copies, beside those of other pipeline stages: they differ
// along `group`, and along tensor if `tensor`. Ranks with other experts are not among them. A stage that borrows a flat
// group adds up its own copy.
struct NormRanks {
  Axes group;
  bool tensor = true;
  bool operator==(const NormRanks&) const = default;
};
NormRanks norm_ranks(const FlatGroup& flat_group);

// Parameters of flat groups whose norms the same ranks add up. An expert's matrix is a parameter of its own.
struct NormSection {
  NormRanks ranks;
  std::int64_t parameters = 0;  // those that the optimizer updates (Update)
};
std::vector<NormSection> norm_sections(const FlatGroupTable& table);
std::int64_t normed_parameters(const FlatGroup& flat_group);

// None for an optimizer without such norms. Bytes in the arena of the optimizer: of each section the digits, then
// LAMB's factors. Calls of a step: of each section a sum over `group`, then one over tensor.
std::int64_t parameter_norm_bytes(const FlatGroupTable& table, const OptimizerKind& optimizer);
std::vector<SizedCalls> parameter_norm_calls(const FlatGroupTable& table, const StateShape& shape);

}  // namespace trainyard::plan
