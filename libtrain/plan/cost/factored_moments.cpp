// RowsAndColumns of flat groups, their bytes and their sums.
#include "libtrain/plan/cost/factored_moments.h"

#include "libtrain/base/aligned.h"
#include "libtrain/plan/cost/parameter_norms.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

std::int64_t bytes_of_row_and_column_digits(const RowsAndColumns& count) {
  return count.total() * digits_of_rows_and_columns * 8;
}

}  // namespace

RowsAndColumns rows_and_columns_of(const Parameter& p) {
  return {dims_of_state(OptimizerState::Shape::rows, p.shape).front(),
          dims_of_state(OptimizerState::Shape::columns, p.shape).front()};
}

RowsAndColumns rows_and_columns_of(const FlatGroup& flat_group) {
  RowsAndColumns all;
  for (const auto& p : flat_group.parameters) {
    const auto count = rows_and_columns_of(p);
    all.rows += count.rows, all.columns += count.columns;
  }
  return all;
}

std::int64_t factored_state_bytes(const FlatGroupTable& table, const OptimizerKind& optimizer) {
  if (!optimizer.has_factored_states()) return 0;
  std::int64_t bytes = 0;
  for (const auto& e : table.entries()) {
    const auto count = rows_and_columns_of(e.flat_group);
    bytes += e.times * (base::aligned(count.rows * 4) + base::aligned(count.columns * 4));
  }
  return bytes;
}

std::int64_t factored_moment_bytes(const FlatGroupTable& table, const OptimizerKind& optimizer) {
  if (!optimizer.has_factored_states()) return 0;
  std::int64_t digits = 0;
  for (const auto& e : table.entries())
    digits = std::max(digits, bytes_of_row_and_column_digits(rows_and_columns_of(e.flat_group)));
  return 2 * factored_state_bytes(table, optimizer) + base::aligned(digits);
}

std::vector<SizedCalls> factored_moment_calls(const FlatGroupTable& table, const StateShape& shape) {
  std::vector<SizedCalls> out;
  if (!shape.optimizer->has_factored_states()) return out;
  for (const auto& e : table.entries()) {
    const auto bytes = bytes_of_row_and_column_digits(rows_and_columns_of(e.flat_group));
    const auto add = [&](Axes axes) {
      if (const int ranks = shape.topology.size(axes); ranks > 1)
        out.push_back({axes, ranks, "all_reduce", base::DType::i64, bytes, e.times, e.times});
    };
    const auto ranks = norm_ranks(e.flat_group);
    add(ranks.group);
    if (ranks.tensor) add({Axis::tensor});
  }
  return out;
}

}  // namespace trainyard::plan
