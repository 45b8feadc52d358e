// What an optimizer costs whose second moments are factored into rows and columns
// (OptimizerKind::Collective::factored_moments): the states, and an exact sum over each row and column of a parameter.
#pragma once

#include "libtrain/plan/cost/sized_calls.h"
#include "libtrain/plan/cost/states.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// Digits of an exact sum of squares (kernels/square_sum), i64.
inline constexpr std::int64_t digits_of_rows_and_columns = 21;

// How many rows and columns the logical parameters have (dims_of_state), whatever part of them a rank holds. Every rank
// that holds a part of a flat group has the states of all its rows and columns, so no rank gathers them.
struct RowsAndColumns {
  std::int64_t rows = 0, columns = 0;
  std::int64_t total() const { return rows + columns; }
};
RowsAndColumns rows_and_columns_of(const Parameter& parameter);
RowsAndColumns rows_and_columns_of(const FlatGroup& flat_group);

// None for an optimizer without states of rows and columns. The states are f32, and
// those of a flat group's rows lie together, as do those of its columns.
std::int64_t factored_state_bytes(const FlatGroupTable& table, const OptimizerKind& optimizer);
// Bytes in the arena of the optimizer: the states, as many factors of updates, and the digits of the flat group with
// most rows and columns.
std::int64_t factored_moment_bytes(const FlatGroupTable& table, const OptimizerKind& optimizer);
// Of a step: for each flat group a sum of digits over its group of ranks, then one over tensor-parallel ranks, if they
// hold the same experts (norm_ranks).
std::vector<SizedCalls> factored_moment_calls(const FlatGroupTable& table, const StateShape& shape);

}  // namespace trainyard::plan
