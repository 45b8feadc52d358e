// Dispatch rounds of a plan whose experts have no capacity: whether there are any, and what they send and cost.
#pragma once

#include "libtrain/base/number_text.h"
#include "libtrain/plan/plan.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trainyard::plan {

// Whether tokens go to experts in rounds: in training or in evaluation, in any layer (plan/blocks/expert_rounds.h).
bool crosses_in_rounds(const Plan& plan);

// The most rows of a dispatch round that a layer of the plan has. The plan's model has experts.
std::int64_t most_round_rows(const Plan& plan);

// The dispatch rounds of a layer beyond one for each pass. `forward` and `backward` count further rounds; a backward
// round sends gradients there and back. `again` counts how often backward sent rows again, which it skips if there is
// only one round. With several rounds, backward makes all of them for each rank among which the experts are divided.
struct FurtherRounds {
  std::int64_t forward = 0, backward = 0, again = 0;
};
// What a rank sent in these rounds; `of_layers` has one entry for each layer with experts.
std::vector<SizedCalls> further_round_calls(const Plan& plan, std::span<const FurtherRounds> of_layers);

// A sentence for people about the cost of rounds in a step; "" if training makes no rounds.
std::string rounds_text(const Plan& plan, base::Sizes sizes);

}  // namespace trainyard::plan
