// Experts that ranks share where nothing bounds what one of them gets: rows cross in rounds over a buffer of a fixed
// size.
#pragma once

#include "libtrain/base/number_text.h"
#include "libtrain/plan/expert_kind.h"
#include "libtrain/plan/plan.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trainyard::plan {

// Do rows go to other data ranks without a capacity? Not where tensor ranks deal experts out: these have slots for all
// tokens then.
bool crosses_in_rounds(const ModelConfig& of_layer, Pass pass);

// The same of a plan: in training or in evaluation, in any layer.
bool crosses_in_rounds(const Plan& plan);

// Rows that a rank can send each other one in a round: those of the buffer, or, where none is given, a quarter more
// than it sends when all experts get as many. A group of rows, those of one expert, is never split and has at most all
// tokens, so there is always room for these.
std::int64_t round_rows(const ModelConfig& of_layer, const MicroShape& shape);

// What a rank's experts work on in a round: its rows of each rank.
ExpertRows rows_of_round(const ModelConfig& of_layer, const MicroShape& shape);

// With the experts' own scratch: where groups and rows go; `buffers` of rows that experts work on or make, and those on
// their way, which are there while the experts' scratch is not.
std::int64_t round_workspace_bytes(const ModelConfig& of_layer, const MicroShape& shape, std::int64_t buffers,
                                   std::int64_t of_experts);

// Of a micro-batch that makes one round in each layer, as BranchKind::expert_calls: the ranks agree on the number of
// rounds of a forward pass; rows and groups go, results come.
std::vector<GroupCall> first_round_calls(const ModelConfig& of_layer, const MicroShape& shape, Pass pass,
                                         Recompute recompute);

// What was made beyond one round of each pass of a layer: further rounds of forward, and of gradients there and back in
// backward; and how often backward sent rows again, which it need not where there is one round. Of several it makes all
// for each rank that shares the experts.
struct FurtherRounds {
  std::int64_t forward = 0, backward = 0, again = 0;
};
// What a rank sent in them; by layers that have experts.
std::vector<SizedCalls> further_round_calls(const Plan& plan, std::span<const FurtherRounds> of_layers);

// How many rounds a layer makes where all experts get as many rows, and where all tokens choose the same ones, which
// one rank has.
std::int64_t even_rounds(const ModelConfig& of_layer, const MicroShape& shape);
std::int64_t most_alike_rounds(const ModelConfig& of_layer, const MicroShape& shape);
// A sentence on what that costs in a step, for people; "" where training makes no rounds.
std::string rounds_text(const Plan& plan, base::Sizes sizes);

// Why the plan cannot have its buffer, with what would work; "": it can.
struct BufferProblem {
  std::string message, hint;
};
BufferProblem expert_buffer_problem(const Plan& plan);

}  // namespace trainyard::plan
