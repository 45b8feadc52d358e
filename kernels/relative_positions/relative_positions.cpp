// Checks and dispatches the bias of relative positions.
#include "kernels/relative_positions/relative_positions.h"

#include "kernels/check.h"
#include "kernels/gpu_kernels.h"
#include "kernels/relative_positions/relative_positions_args.h"

namespace trainyard::kernels {

namespace {

// Sets what both directions have. table, bias: of the table's shape and of the bias', whichever is read.
template <class Args> void set_positions(Args& a, tensor::Exec& exec, const char* operation, const RelativePositions& p,
                                         const base::ConstView& table, const base::ConstView& bias) {
  require_type(p.borders, base::DType::i32, operation, "borders");
  const auto side = p.borders.count();
  TRAINYARD_ASSERT(side >= 1 && p.queries >= 1 && p.keys >= 1, "{} borders, {} queries, {} keys", side, p.queries,
                   p.keys);
  require_shape(table, p.bidirectional ? 2 * side : side, bias.rows(), "the table");
  require_shape(bias, table.cols(), p.queries + p.keys - 1, "the bias");
  a.borders = p.borders.ptr<std::int32_t>(), a.side = side, a.bidirectional = p.bidirectional;
  a.queries = p.queries, a.keys = p.keys, a.threads = exec.threads();
}

}  // namespace

void relative_positions_expand(tensor::Exec& exec, const RelativePositions& positions, base::ConstView table,
                               base::View bias) {
  constexpr auto operation = "relative_positions_expand";
  require_types(table, working_types, operation, "table");
  require_type(bias, accumulation_of(table.dtype), operation, "bias");
  ExpandPositionsArgs a;
  set_positions(a, exec, operation, positions, table, bias);
  a.table = mat(table), a.bias = mat(bias);
  if (bias.count() == 0) return;
  exec.run([&exec, a] { TRAINYARD_CALL(exec, relative_positions_expand, a); });
}

void relative_positions_fold(tensor::Exec& exec, const RelativePositions& positions, base::ConstView d_bias,
                             base::View d_table, FoldInto into) {
  constexpr auto operation = "relative_positions_fold";
  require_types(d_bias, accumulation_types, operation, "d_bias");
  require_type(d_table, d_bias.dtype, operation, "d_table");
  FoldPositionsArgs a;
  set_positions(a, exec, operation, positions, d_table, d_bias);
  a.d_bias = mat(d_bias), a.d_table = mat(d_table), a.add = into == FoldInto::add;
  if (d_bias.count() == 0) return;
  exec.run([&exec, a] { TRAINYARD_CALL(exec, relative_positions_fold, a); });
}

}  // namespace trainyard::kernels
