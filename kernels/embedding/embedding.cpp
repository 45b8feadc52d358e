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

}  // namespace

void embedding_forward(tensor::Exec& exec, base::ConstView tokens, base::ConstView positions, base::ConstView table,
                       base::ConstView position_table, base::View out) {
  require_shape(out, tokens.count(), table.cols(), "embedding");
  require_working_type("embedding_forward", {{"table", table}, {"position_table", position_table}, {"out", out}});
  require_type(tokens, base::DType::i32, "embedding_forward", "tokens");
  require_type(positions, base::DType::i32, "embedding_forward", "positions");
  const EmbeddingArgs a{.tokens = tokens.ptr<std::int32_t>(),
                        .positions = positions ? positions.ptr<std::int32_t>() : nullptr,
                        .table = mat(table),
                        .position_table = mat(position_table),
                        .rows = mat(out),
                        .threads = exec.threads()};
  if (out.count() == 0) return;
  exec.run([&exec, a, tokens, positions, table, position_table] {
    if (!exec.on_gpu()) require_indices(tokens, table.rows(), "token");
    if (!exec.on_gpu() && position_table) require_indices(positions, position_table.rows(), "position");
    TRAINYARD_CALL(exec, embedding_forward, a);
  });
}

void embedding_lookup(tensor::Exec& exec, base::ConstView tokens, base::ConstView table, std::int64_t first_row,
                      std::int64_t all_rows, base::View out) {
  require_shape(out, tokens.count(), table.cols(), "embedding");
  require_working_type("embedding_lookup", {{"table", table}, {"out", out}});
  require_type(tokens, base::DType::i32, "embedding_lookup", "tokens");
  TRAINYARD_ASSERT(first_row >= 0 && first_row + table.rows() <= all_rows, "rows {} to {} of a table of {}", first_row,
                   first_row + table.rows(), all_rows);
  const EmbeddingArgs a{.tokens = tokens.ptr<std::int32_t>(),
                        .table = mat(table),
                        .first_row = first_row,
                        .rows = mat(out),
                        .threads = exec.threads()};
  if (out.count() == 0) return;
  exec.run([&exec, a, tokens, all_rows] {
    if (!exec.on_gpu()) require_indices(tokens, all_rows, "token");
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
                        base::View dtable) {
  require_shape(dout, indices.count(), dtable.cols(), "embedding gradient");
  require_types(dout, working_types, "embedding_backward", "dout");
  require_type(dtable, accumulation_of(dout.dtype), "embedding_backward", "dtable");
  require_type(indices, base::DType::i32, "embedding_backward", "indices");
  if (indices.count() == 0) return fill(exec, dtable, 0);
  const EmbeddingBackwardArgs a{.tokens = indices.ptr<std::int32_t>(),
                                .first_row = first_row,
                                .rows = mat(dout),
                                .table = mat(dtable),
                                .threads = exec.threads()};
  exec.run([&exec, a] { TRAINYARD_CALL(exec, embedding_backward, a); });
}

}  // namespace trainyard::kernels
