// Checks indices and dispatches the embedding.
#include "kernels/embedding/embedding.h"

#include "kernels/check.h"
#include "kernels/embedding/embedding_args.h"

namespace trainyard::kernels {

namespace {

void require_indices(base::View indices, std::int64_t rows, const char* what) {
  const auto* p = indices.ptr<std::int32_t>();
  for (std::int64_t i = 0; i < indices.count(); ++i)
    if (p[i] < 0 || p[i] >= rows)
      throw base::InputError(fmt::format("{} {} at element {} lies outside the table of {} rows", what, p[i], i, rows), "do the shards belong to this model's vocabulary?");
}

}  // namespace

void embedding_forward(tensor::Exec& exec, base::View tokens, base::View positions, base::View table, base::View position_table, base::View out) {
  require_cpu(exec);
  require_shape(out, tokens.count(), table.cols(), "embedding");
  EmbeddingArgs a{tokens.ptr<std::int32_t>(), positions ? positions.ptr<std::int32_t>() : nullptr, mat(table), mat(position_table), mat(out), exec.threads()};
  exec.run([a, tokens, positions, table, position_table] {
    require_indices(tokens, table.rows(), "token");
    if (position_table) require_indices(positions, position_table.rows(), "position");
    TRAINYARD_CPU_CALL(embedding_forward_cpu, (a));
  });
}

void embedding_backward(tensor::Exec& exec, base::View indices, base::View dout, base::View dtable) {
  require_cpu(exec);
  require_shape(dout, indices.count(), dtable.cols(), "embedding gradient");
  EmbeddingArgs a{indices.ptr<std::int32_t>(), nullptr, mat(dtable), {}, mat(dout), exec.threads()};
  exec.run([a] { TRAINYARD_CPU_CALL(embedding_backward_cpu, (a)); });
}

}  // namespace trainyard::kernels
