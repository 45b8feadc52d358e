// Checks indices and dispatches the embedding.
#include "kernels/embedding/embedding.h"

#include "kernels/check.h"
#include "kernels/gpu_kernels.h"
#include "kernels/embedding/embedding_args.h"

namespace trainyard::kernels {

namespace {

void require_indices(base::View indices, std::int64_t rows, const char* what) {
  const auto* p = indices.ptr<std::int32_t>();
  for (std::int64_t i = 0; i < indices.count(); ++i)
    if (p[i] < 0 || p[i] >= rows)
      throw base::InputError(fmt::format("{} {} at element {} lies outside the table of {} rows", what, p[i], i, rows),
                             "do the shards belong to this model's vocabulary?");
}

}  // namespace

void embedding_forward(tensor::Exec& exec, base::View tokens, base::View positions, base::View table,
                       base::View position_table, base::View out) {
  require_shape(out, tokens.count(), table.cols(), "embedding");
  EmbeddingArgs a{tokens.ptr<std::int32_t>(),
                  positions ? positions.ptr<std::int32_t>() : nullptr,
                  mat(table),
                  mat(position_table),
                  mat(out),
                  exec.threads()};
  exec.run([&exec, a, tokens, positions, table, position_table] {
    if (!exec.on_gpu()) require_indices(tokens, table.rows(), "token");
    if (!exec.on_gpu() && position_table) require_indices(positions, position_table.rows(), "position");
    TRAINYARD_CALL(exec, embedding_forward, a);
  });
}

void embedding_backward(tensor::Exec& exec, base::View indices, base::View dout, base::View dtable) {
  require_shape(dout, indices.count(), dtable.cols(), "embedding gradient");
  EmbeddingArgs a{indices.ptr<std::int32_t>(), nullptr, mat(dtable), {}, mat(dout), exec.threads()};
  exec.run([&exec, a] { TRAINYARD_CALL(exec, embedding_backward, a); });
}

}  // namespace trainyard::kernels
