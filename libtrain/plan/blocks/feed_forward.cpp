// What the feed-forward branch declares, saves and needs.
#include "libtrain/plan/blocks/feed_forward.h"

#include "libtrain/plan/blocks/products.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

bool gated(const ModelConfig& m) { return m.activation == Activation::swiglu; }

FusedLayers inner(const ModelConfig& m) {
  return {gated(m) ? std::vector{m.ffn, m.ffn} : std::vector{m.ffn}, m.hidden,
          FusedLayers::Adjacent::yes_without_biases};
}

}  // namespace

void FeedForwardKind::declare(Declaration& d) const {
  const auto& m = d.model();
  using Shared = Declaration::Shared;
  if (gated(m)) {
    d.weight("ffn.gate.weight", m.ffn, m.hidden, Shared::outputs);
    d.bias("ffn.gate.bias", m.ffn, Shared::outputs);
  }
  d.weight("ffn.up.weight", m.ffn, m.hidden, Shared::outputs);
  d.bias("ffn.up.bias", m.ffn, Shared::outputs);
  d.residual_weight("ffn.down.weight", m.hidden, m.ffn, Shared::inputs);
  d.bias("ffn.down.bias", m.hidden);
}

std::vector<SavedTensor> FeedForwardKind::tensors(const ModelConfig& m, const MicroShape& s, Pass) const {
  return {{"inner", s.dtype, s.rows(), gated(m) ? 2 * m.ffn : m.ffn}, {"activated", s.dtype, s.rows(), m.ffn}};
}

std::int64_t FeedForwardKind::forward_workspace_bytes(const ModelConfig& m, const MicroShape& s, Pass) const {
  const Products p(m, s);
  return std::max(p.fused_forward(inner(m)), p.linear(m.hidden, m.ffn));
}

std::int64_t FeedForwardKind::backward_workspace_bytes(const ModelConfig& m, const MicroShape& s) const {
  const Products p(m, s);
  const auto gradients =
      gated(m) ? p.rows(2 * m.ffn) + p.rows(m.ffn) : p.rows(m.ffn);  // GELU's slope is taken in place
  return gradients +
         std::max({p.weight_gradient(m.hidden, m.ffn), p.linear(m.ffn, m.hidden), p.fused_backward(inner(m))});
}

double FeedForwardKind::forward_flops(const ModelConfig& m, std::int64_t) const {
  return 2 * (gated(m) ? 3.0 : 2.0) * static_cast<double>(m.hidden) * static_cast<double>(m.ffn);
}

}  // namespace trainyard::plan
