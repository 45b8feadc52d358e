// What attention declares, saves and needs.
#include "libtrain/plan/blocks/attention.h"

#include "libtrain/plan/blocks/products.h"
#include "libtrain/plan/blocks/scratch.h"
#include "libtrain/plan/spec/block_layout.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/widths.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

std::int64_t kv_width(const ModelConfig& m) { return m.kv_heads * m.head_dim(); }

FusedLayers qkv(const ModelConfig& m, const MicroShape& s) {
  const Widths w(m, s.tensor);
  return {{w.q, w.kv, w.kv}, m.hidden, FusedLayers::Adjacent::yes};
}

std::int64_t rotary(const ModelConfig& m, const MicroShape& s) {
  const bool table = is_rotary(m) && s.device == base::DeviceKind::cpu;
  return table ? rotary_scratch_bytes(s.rows(), m.head_dim()) : 0;
}

// The key-value heads of all sequences of a micro-batch, on this rank.
std::int64_t key_value_heads(const ModelConfig& m, const MicroShape& s) {
  return s.batch * Widths(m, s.tensor).kv_heads;
}

std::int64_t attention_backward(const ModelConfig& m, const MicroShape& s) {
  if (s.device == base::DeviceKind::cpu)
    return attention_backward_scratch_bytes(s.sequence, m.head_dim(), m.heads / m.kv_heads, key_value_heads(m, s),
                                            s.threads);
  return gpu_attention_backward_scratch_bytes(s.batch, s.sequence, Widths(m, s.tensor).heads,
                                              base::size_of(s.accumulation()));
}

}  // namespace

void AttentionKind::declare(Declaration& d) const {
  const auto& m = d.model();
  using Shared = Declaration::Shared;
  d.weight("attention.q.weight", m.hidden, m.hidden, Shared::outputs);
  d.weight("attention.k.weight", kv_width(m), m.hidden, Shared::outputs);
  d.weight("attention.v.weight", kv_width(m), m.hidden, Shared::outputs);
  d.bias("attention.q.bias", m.hidden, Shared::outputs);
  d.bias("attention.k.bias", kv_width(m), Shared::outputs);
  d.bias("attention.v.bias", kv_width(m), Shared::outputs);
  d.residual_weight("attention.output.weight", m.hidden, m.hidden, Shared::inputs);
  d.bias("attention.output.bias", m.hidden);
}

std::vector<SavedTensor> AttentionKind::tensors(const ModelConfig& m, const MicroShape& s, Pass) const {
  const Widths w(m, s.tensor);
  return {{"qkv", s.dtype, s.rows(), w.q + 2 * w.kv},
          {"logsumexp", s.accumulation(), s.batch * w.heads, s.sequence},
          {"attended", s.dtype, s.rows(), w.q}};
}

std::int64_t AttentionKind::forward_workspace_bytes(const ModelConfig& m, const MicroShape& s, Pass) const {
  const Products p(m, s);
  const auto attention =
      p.on_gpu() ? gpu_attention_forward_scratch_bytes
                 : attention_forward_scratch_bytes(s.sequence, m.head_dim(), key_value_heads(m, s), s.threads);
  return std::max({p.gathered(m.hidden) + p.fused_forward(qkv(m, s)), rotary(m, s), attention,
                   p.shared_sum(m.hidden, {Widths(m, s.tensor).q})});
}

std::int64_t AttentionKind::backward_workspace_bytes(const ModelConfig& m, const MicroShape& s) const {
  const Products p(m, s);
  const Widths w(m, s.tensor);
  const bool apart = s.tensor > 1 && (s.sequence_parallel || m.dropout_attention_residual > 0);
  const auto gradients = p.rows(w.q + 2 * w.kv) + (apart ? p.rows(m.hidden) : 0);  // of q, k, v; of the output
  return gradients + p.gathered(m.hidden) +
         std::max({p.weight_gradient(m.hidden, w.q), p.linear(w.q, m.hidden), attention_backward(m, s), rotary(m, s),
                   p.fused_backward(qkv(m, s))});
}

std::int64_t AttentionKind::input_gradients_workspace_bytes(const ModelConfig& m, const MicroShape& s) const {
  const Products p(m, s);
  const Widths w(m, s.tensor);
  return p.rows(w.q + 2 * w.kv) + p.gathered(m.hidden) +
         std::max({p.linear(w.q, m.hidden), attention_backward(m, s), rotary(m, s), p.fused_inputs(qkv(m, s))});
}

std::int64_t AttentionKind::weight_gradients_workspace_bytes(const ModelConfig& m, const MicroShape& s) const {
  const Products p(m, s);
  return p.gathered(m.hidden) +
         std::max(p.weight_gradient(m.hidden, Widths(m, s.tensor).q), p.fused_weights(qkv(m, s)));
}

// The scores and their product with the values are counted in full; causal masking would halve them. A sparse layout
// counts its share of what dense attention computes.
double AttentionKind::forward_flops(const ModelConfig& m, std::int64_t sequence) const {
  const double share = sequence > 0 ? density(m, sequence) : 1;
  return apart_flops(m) + 4 * share * static_cast<double>(sequence) * static_cast<double>(m.hidden);
}

// The products with weights.
double AttentionKind::apart_flops(const ModelConfig& m) const {
  const auto h = static_cast<double>(m.hidden), kv = static_cast<double>(kv_width(m));
  return 2 * (2 * h * h + 2 * kv * h);
}

// The product with the output's weight.
double AttentionKind::output_flops(const ModelConfig& m) const {
  return 2 * static_cast<double>(m.hidden) * static_cast<double>(m.hidden);
}

}  // namespace trainyard::plan
