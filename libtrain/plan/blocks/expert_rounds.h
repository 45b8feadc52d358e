// Expert parallelism without a capacity: rows are exchanged in dispatch rounds over a buffer of a fixed size.
#pragma once

#include "libtrain/plan/blocks/expert_kind.h"
#include "libtrain/plan/blocks/group_call.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// Whether experts have a capacity in a pass.
bool has_capacity(const ExpertConfig& experts, Pass pass);

// Whether rows go to other data-parallel ranks without a capacity. False if tensor-parallel ranks distribute the
// experts: these use slots for all tokens instead.
bool crosses_in_rounds(const ModelConfig& of_layer, const ExpertShare& share, Pass pass);

// Rows that a rank can send each other rank in a dispatch round: the --expert-capacity-buffer. Without one it is a
// quarter more than the rank sends when all experts get equally many rows. It is never below the tokens of a
// micro-batch. These are the most rows that one expert gets, and its group of rows is never split.
std::int64_t round_rows(const ModelConfig& of_layer, const MicroShape& shape);

// Bytes of the rows that a rank sends in a dispatch round, and of the groups of rows that it announces.
std::int64_t round_row_bytes(const ModelConfig& of_layer, const MicroShape& shape);
std::int64_t round_group_bytes(const ModelConfig& of_layer);

// What a rank's experts compute in a dispatch round: the rows that it gets from each rank.
ExpertRows rows_of_round(const ModelConfig& of_layer, const MicroShape& shape);

// Scratch with the experts' own scratch `of_experts`. It holds where groups and rows go, and `buffers` buffers of rows
// that experts read or make. Rows on their way share memory with the experts' scratch, since both never exist at one
// time.
std::int64_t round_workspace_bytes(const ModelConfig& of_layer, const MicroShape& shape, std::int64_t buffers,
                                   std::int64_t of_experts);

// Collectives of a micro-batch that takes one dispatch round in each layer, as in BranchKind::expert_calls. The ranks
// agree on the number of rounds of a forward pass. Rows and groups are sent, and results come back.
std::vector<GroupCall> first_round_calls(const ModelConfig& of_layer, const MicroShape& shape, Pass pass,
                                         Recompute recompute);

// The rounds of a layer if all experts get equally many rows (even), and if all tokens choose the same experts, which
// one rank holds (most_alike).
std::int64_t even_rounds(const ModelConfig& of_layer, const MicroShape& shape);
std::int64_t most_alike_rounds(const ModelConfig& of_layer, const MicroShape& shape);
}  // namespace trainyard::plan
