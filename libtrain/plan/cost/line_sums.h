// What an optimizer costs whose states are numbers of rows and columns (OptimizerKind::Collective::line_sums): the
// states, and the exact sums over the rows and columns of each parameter. A line is a row or a column.
#pragma once

#include "libtrain/plan/cost/sized_calls.h"
#include "libtrain/plan/cost/states.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// Digits of an exact sum of squares (kernels/square_sum), i64.
inline constexpr std::int64_t digits_of_lines = 21;

// The rows and columns of all parameters of a flat group, logical ones and whole ones (dims_of_state). Every rank that
// holds a part of the flat group has all of these states, so no rank gathers them.
struct Lines {
  std::int64_t rows = 0, columns = 0;
  std::int64_t total() const { return rows + columns; }
};
Lines lines_of(const Parameter& parameter);
Lines lines_of(const FlatGroup& flat_group);

// None for an optimizer without states of rows and columns. States: f32 numbers of rows and of columns of each flat
// group.
std::int64_t line_state_bytes(const FlatGroupTable& table, const OptimizerKind& optimizer);
// Bytes in the arena of the optimizer: the states, as many factors of updates, and the digits of the flat group that
// has most lines.
std::int64_t line_sum_bytes(const FlatGroupTable& table, const OptimizerKind& optimizer);
// Of a step: for each flat group a sum of digits over its group of ranks, then one over tensor-parallel ranks, if they
// hold the same experts (norm_ranks).
std::vector<SizedCalls> line_sum_calls(const FlatGroupTable& table, const StateShape& shape);

}  // namespace trainyard::plan
