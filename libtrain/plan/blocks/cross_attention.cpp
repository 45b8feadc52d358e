// What cross-attention declares, saves and needs.
#include "libtrain/plan/blocks/cross_attention.h"

#include "libtrain/plan/blocks/attention.h"
#include "libtrain/plan/blocks/crossings.h"
#include "libtrain/plan/blocks/products.h"
#include "libtrain/plan/blocks/scratch.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/widths.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

FusedLayers of_queries(const ModelConfig& m, const MicroShape& s) {
  return {{Widths(m, s.tensor).q}, m.hidden, FusedLayers::Adjacent::yes, has_qkv_biases(m)};
}

FusedLayers of_memory(const ModelConfig& m, const MicroShape& s) {
  const Widths w(m, s.tensor);
  return {{w.kv, w.kv}, m.hidden, FusedLayers::Adjacent::yes, has_qkv_biases(m)};
}

std::int64_t scores_forward(const ModelConfig& m, const MicroShape& s) {
  if (s.device == base::DeviceKind::cuda) return gpu_attention_forward_scratch_bytes;
  return attention_forward_scratch_bytes(s.source, m.head_dim(), s.batch * Widths(m, s.tensor).kv_heads, s.threads);
}

std::int64_t scores_backward(const ModelConfig& m, const MicroShape& s) {
  const Widths w(m, s.tensor);
  if (s.device == base::DeviceKind::cpu)
    return attention_backward_scratch_bytes(s.sequence, m.head_dim(), m.heads / m.kv_heads, s.batch * w.kv_heads,
                                            s.threads);
  return gpu_attention_backward_scratch_bytes(s.batch, s.sequence, w.heads, base::size_of(s.accumulation()));
}

}  // namespace

void CrossAttentionKind::declare(Declaration& d) const {
  const auto& m = d.model();
  using Shared = Declaration::Shared;
  const auto q = m.query_width(), kv = m.key_value_width();
  d.query_weight("cross_attention.q.weight");
  d.weight("cross_attention.k.weight", kv, m.hidden, Shared::outputs);
  d.weight("cross_attention.v.weight", kv, m.hidden, Shared::outputs);
  const auto bias = [&](const char* name, std::int64_t n, std::optional<ShardedDim> sharded) {
    d.parameter(name, {n}, {Init::Kind::zeros, 0}, Decay::no, sharded);
  };
  if (has_qkv_biases(m)) {
    bias("cross_attention.q.bias", q, ShardedDim{0, Axis::tensor});
    bias("cross_attention.k.bias", kv, ShardedDim{0, Axis::tensor});
    bias("cross_attention.v.bias", kv, ShardedDim{0, Axis::tensor});
  }
  d.residual_weight("cross_attention.output.weight", m.hidden, q, Shared::inputs);
  if (has_output_bias(m)) bias("cross_attention.output.bias", m.hidden, {});
}

// As of attention; kernels apart also keep the softmax and what dropout made of it.
std::vector<SavedTensor> CrossAttentionKind::tensors(const ModelConfig& m, const MicroShape& s, Pass pass) const {
  const Widths w(m, s.tensor);
  std::vector<SavedTensor> out{{"q", s.dtype, s.rows(), w.q},
                               {"kv", s.dtype, s.source_rows(), 2 * w.kv},
                               {"logsumexp", s.accumulation(), s.batch * w.heads, s.sequence},
                               {"attended", s.dtype, s.rows(), w.q}};
  if (s.attention == AttentionKernels::fused) return out;
  const auto rows = s.batch * w.heads * s.sequence;
  out.push_back({"softmax", s.dtype, rows, s.source, Stays::unless_selective});
  if (pass == Pass::evaluate) return out;
  out.push_back({"dropped scores", s.dtype, rows, s.source, Stays::unless_selective});
  out.push_back({"dropout mask", base::DType::u8, rows, s.source, Stays::unless_selective});
  return out;
}

std::int64_t CrossAttentionKind::forward_workspace_bytes(const ModelConfig& m, const MicroShape& s, Pass) const {
  const auto source = s.of_source();
  const Products p(m, s), memory(m, source);
  return std::max({p.gathered(m.hidden) + p.fused_forward(of_queries(m, s)),
                   memory.gathered(m.hidden) + memory.fused_forward(of_memory(m, s)), scores_forward(m, s),
                   p.shared_sum(m.hidden, {Widths(m, s.tensor).q})});
}

// The gradients of queries, keys and values, and that of the output where it is not the hidden states' own. Beside them
// is what each product needs; the gradient of the encoder's output is made in scratch, and then added to the others.
std::int64_t CrossAttentionKind::backward_workspace_bytes(const ModelConfig& m, const MicroShape& s) const {
  const auto source = s.of_source();
  const Products p(m, s), memory(m, source);
  const Widths w(m, s.tensor);
  const bool apart = s.sequence_parallel || (m.dropout_attention_residual > 0 && !has_norm_behind(m));
  const auto widened =
      base::is_narrow(s.dtype) ? base::aligned(s.own_source_rows() * m.hidden * memory.accumulation_bytes()) : 0;
  const auto attended = attended_gradient_fits(m, s) ? 0 : p.rows(w.q);
  return p.rows(w.q) + memory.rows(2 * w.kv) + (apart ? p.rows(m.hidden) : 0) +
         std::max({p.weight_gradient(m.hidden, w.q, has_output_bias(m)),
                   attended + std::max(p.linear(w.q, m.hidden), scores_backward(m, s)),
                   p.gathered(m.hidden) + p.fused_backward(of_queries(m, s)),
                   memory.stream(m.hidden) + memory.gathered(m.hidden) +
                       std::max(memory.fused_backward(of_memory(m, s)), widened)});
}

// Keys and values are made of every token of the source, whatever the length of the target.
double CrossAttentionKind::forward_flops(const ModelConfig& m, const Lengths& l) const {
  const auto h = static_cast<double>(m.hidden), q = static_cast<double>(m.query_width()),
             kv = static_cast<double>(m.key_value_width()), source = static_cast<double>(l.source);
  return 4 * h * q + 4 * h * kv * source / static_cast<double>(l.sequence) + 4 * source * q;
}

std::vector<GroupCall> CrossAttentionKind::tensor_calls(const ModelConfig& m, const MicroShape& s, Pass pass,
                                                        Recompute recompute, Again again) const {
  auto all = BranchKind::tensor_calls(m, s, pass, recompute, again);
  const auto source = s.of_source();
  Crossings calls(m, source);
  calls.all_rows();
  if (pass == Pass::train) {
    if (recompute == Recompute::layers) calls.all_rows();
    calls.all_rows().add_up();
  }
  for (const auto& call : calls.take()) all.push_back(call);
  return all;
}

// As of attention, with the keys of the source.
BlockWork CrossAttentionKind::work(const ModelConfig& m, const MicroShape& s, AttentionKernels kernels) const {
  const Widths w(m, s.tensor);
  BlockWork out;
  out.linear(s.rows(), w.q, m.hidden);
  out.linear(s.source_rows(), 2 * w.kv, m.hidden);
  out.linear(s.rows(), m.hidden, w.q);
  const auto heads = s.batch * w.heads;
  const Product scores{s.sequence, s.source, m.head_dim(), heads}, values{s.sequence, m.head_dim(), s.source, heads};
  const auto e = static_cast<double>(s.element_bytes()), q = static_cast<double>(s.rows() * w.q),
             kv = static_cast<double>(s.source_rows() * 2 * w.kv);
  const double sums =
      static_cast<double>(base::size_of(s.accumulation())) * static_cast<double>(s.own_source_rows() * m.hidden);
  out.backward.bytes = 2 * sums + e * static_cast<double>(s.own_source_rows() * m.hidden);
  if (kernels == AttentionKernels::fused) {
    out.forward.attention = {scores, values};
    out.backward.attention = {scores, scores, values, scores, values};
    out.forward.bytes = e * (2 * q + kv);
    out.backward.bytes += e * (4 * q + 2 * kv);
    return out;
  }
  const double all_scores =
      static_cast<double>(heads) * static_cast<double>(s.sequence) * static_cast<double>(s.source);
  out.forward.products.insert(out.forward.products.end(), {scores, values});
  out.backward.products.insert(out.backward.products.end(), {scores, values, scores, values});
  out.again.products.insert(out.again.products.end(), {scores, values});
  out.forward.bytes = e * 2 * q + all_scores * (4 * e + 1);
  out.backward.bytes += e * (3 * q + kv) + all_scores * (5 * e + 1);
  out.again.bytes = out.forward.bytes;
  return out;
}

}  // namespace trainyard::plan
