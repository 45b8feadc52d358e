// Lines of flat groups, their bytes and their sums.
#include "libtrain/plan/cost/line_sums.h"

#include "libtrain/base/aligned.h"
#include "libtrain/plan/cost/parameter_norms.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

std::int64_t bytes_of_line_digits(const Lines& lines) { return lines.total() * digits_of_lines * 8; }

}  // namespace

Lines lines_of(const Parameter& p) {
  return {dims_of_state(OptimizerState::Shape::rows, p.shape).front(),
          dims_of_state(OptimizerState::Shape::columns, p.shape).front()};
}

Lines lines_of(const FlatGroup& flat_group) {
  Lines all;
  for (const auto& p : flat_group.parameters) {
    const auto lines = lines_of(p);
    all.rows += lines.rows, all.columns += lines.columns;
  }
  return all;
}

std::int64_t line_state_bytes(const FlatGroupTable& table, const OptimizerKind& optimizer) {
  if (!optimizer.has_line_states()) return 0;
  std::int64_t bytes = 0;
  for (const auto& e : table.entries()) {
    const auto lines = lines_of(e.flat_group);
    bytes += e.times * (base::aligned(lines.rows * 4) + base::aligned(lines.columns * 4));
  }
  return bytes;
}

std::int64_t line_sum_bytes(const FlatGroupTable& table, const OptimizerKind& optimizer) {
  if (!optimizer.has_line_states()) return 0;
  std::int64_t digits = 0;
  for (const auto& e : table.entries()) digits = std::max(digits, bytes_of_line_digits(lines_of(e.flat_group)));
  return 2 * line_state_bytes(table, optimizer) + base::aligned(digits);
}

std::vector<SizedCalls> line_sum_calls(const FlatGroupTable& table, const StateShape& shape) {
  std::vector<SizedCalls> out;
  if (!shape.optimizer->has_line_states()) return out;
  for (const auto& e : table.entries()) {
    const auto bytes = bytes_of_line_digits(lines_of(e.flat_group));
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
