// Checks indices and dispatches the embedding.
#include "kernels/embedding/embedding.h"

#include "kernels/cast/cast.h"
#include "kernels/check.h"
#include "kernels/embedding/embedding_args.h"
#include "kernels/gpu_kernels.h"

namespace trainyard::kernels {

namespace {

void require_indices(base::ConstView indices, std::int64_t rows, const char* what) {
  const auto* p = indices.ptr<std::int32_t>();
  for (std::int64_t i = 0; i < indices.count(); ++i)
    if (p[i] < 0 || p[i] >= rows)
      throw base::InputError(fmt::format("{} {} at element {} lies outside the table of {} rows", what, p[i], i, rows),
                             "do the shards belong to this model's vocabulary?");
}

// The nearest value of the dtype.
double rounded(double value, base::DType dtype) {
  return base::with_value_type(dtype, [&]<class T>(T*) {
    if constexpr (sizeof(T) == sizeof(double)) return value;
    else return static_cast<double>(static_cast<float>(T(static_cast<float>(value))));
  });
}

}  // namespace

void embedding_forward(tensor::Exec& exec, const EmbeddingForward& e) {
  require_shape(e.out, e.tokens.count(), e.table.cols(), "embedding");
  require_working_type("embedding_forward", {{"table", e.table}, {"position_table", e.position_table}, {"out", e.out}});
  require_type(e.tokens, base::DType::i32, "embedding_forward", "tokens");
  require_type(e.positions, base::DType::i32, "embedding_forward", "positions");
  const EmbeddingArgs a{.tokens = e.tokens.ptr<std::int32_t>(),
                        .positions = e.positions ? e.positions.ptr<std::int32_t>() : nullptr,
                        .table = mat(e.table),
                        .position_table = mat(e.position_table),
                        .rows = mat(e.out),
                        .threads = exec.threads(),
                        .scale = rounded(e.scale, e.table.dtype)};
  if (e.out.count() == 0) return;
  exec.run([&exec, a, e] {
    if (!exec.on_gpu()) require_indices(e.tokens, e.table.rows(), "token");
    if (!exec.on_gpu() && e.position_table) require_indices(e.positions, e.position_table.rows(), "position");
    TRAINYARD_CALL(exec, embedding_forward, a);
  });
}

void embedding_lookup(tensor::Exec& exec, const EmbeddingLookup& l) {
  require_shape(l.out, l.tokens.count(), l.table.cols(), "embedding");
  require_working_type("embedding_lookup", {{"table", l.table}, {"out", l.out}});
  require_type(l.tokens, base::DType::i32, "embedding_lookup", "tokens");
  TRAINYARD_ASSERT(l.first_row >= 0 && l.first_row + l.table.rows() <= l.all_rows, "rows {} to {} of a table of {}",
                   l.first_row, l.first_row + l.table.rows(), l.all_rows);
  const EmbeddingArgs a{.tokens = l.tokens.ptr<std::int32_t>(),
                        .table = mat(l.table),
                        .first_row = l.first_row,
                        .rows = mat(l.out),
                        .threads = exec.threads(),
                        .scale = rounded(l.scale, l.table.dtype)};
  if (l.out.count() == 0) return;
  exec.run([&exec, a, l] {
    if (!exec.on_gpu()) require_indices(l.tokens, l.all_rows, "token");
    TRAINYARD_CALL(exec, embedding_forward, a);
  });
}

void embedding_add(tensor::Exec& exec, base::ConstView positions, base::ConstView position_table, base::View out) {
  require_shape(out, positions.count(), position_table.cols(), "embedding");
  require_working_type("embedding_add", {{"position_table", position_table}, {"out", out}});
  require_type(positions, base::DType::i32, "embedding_add", "positions");
  const EmbeddingArgs a{.positions = positions.ptr<std::int32_t>(),
                        .position_table = mat(position_table),
                        .rows = mat(out),
                        .threads = exec.threads()};
  if (out.count() == 0) return;
  exec.run([&exec, a, positions, position_table] {
    if (!exec.on_gpu()) require_indices(positions, position_table.rows(), "position");
    TRAINYARD_CALL(exec, embedding_forward, a);
  });
}

void embedding_backward(tensor::Exec& exec, base::ConstView indices, std::int64_t first_row, base::ConstView dout,
                        base::View dtable, double scale) {
  require_shape(dout, indices.count(), dtable.cols(), "embedding gradient");
  require_types(dout, working_types, "embedding_backward", "dout");
  require_type(dtable, accumulation_of(dout.dtype), "embedding_backward", "dtable");
  require_type(indices, base::DType::i32, "embedding_backward", "indices");
  if (indices.count() == 0) return fill(exec, dtable, 0);
  const EmbeddingBackwardArgs a{.tokens = indices.ptr<std::int32_t>(),
                                .first_row = first_row,
                                .rows = mat(dout),
                                .table = mat(dtable),
                                .threads = exec.threads(),
                                .scale = rounded(scale, dout.dtype)};
  exec.run([&exec, a] { TRAINYARD_CALL(exec, embedding_backward, a); });
}

}  // namespace trainyard::kernels
