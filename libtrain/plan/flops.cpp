// FLOPs of matrix products and attention.
#include "libtrain/plan/flops.h"

namespace trainyard::plan {

double step_flops(const ModelConfig& m, std::int64_t sequences, std::int64_t sequence, Recompute recompute) {
  const auto h = static_cast<double>(m.hidden), kv = static_cast<double>(m.kv_heads * m.head_dim()), s = static_cast<double>(sequence);
  const double ffn_matrices = m.activation == Activation::swiglu ? 3 : 2;
  const double layer_weights = 2 * h * h + 2 * kv * h + ffn_matrices * h * static_cast<double>(m.ffn);
  const double layer = 2 * layer_weights + 4 * s * h, head = 2 * h * static_cast<double>(m.vocabulary);  // forward, for each token
  const double passes = recompute == Recompute::layers ? 4 : 3;
  return static_cast<double>(sequences) * s * (passes * static_cast<double>(m.layers) * layer + 3 * head);
}

}  // namespace trainyard::plan
