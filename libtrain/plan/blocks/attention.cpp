// What attention declares, saves and needs.
#include "libtrain/plan/blocks/attention.h"

#include "libtrain/plan/blocks/adapter.h"
#include "libtrain/plan/blocks/products.h"
#include "libtrain/plan/blocks/query_key_norm.h"
#include "libtrain/plan/blocks/scratch.h"
#include "libtrain/plan/spec/block_layout.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/widths.h"

#include <algorithm>
#include <initializer_list>
#include <optional>

namespace trainyard::plan {

namespace {

FusedLayers qkv(const ModelConfig& m, const MicroShape& s) {
  const Widths w(m, s.tensor);
  return {{w.q, w.kv, w.kv}, m.hidden, FusedLayers::Adjacent::yes, has_qkv_biases(m)};
}

std::int64_t rotary(const ModelConfig& m, const MicroShape& s) {
  const bool table = is_rotary(m) && s.device == base::DeviceKind::cpu;
  return table ? rotary_scratch_bytes(s.rows(), rotated_width(m.rotary, m.head_dim())) : 0;
}

// The key-value heads of all sequences of a micro-batch, on this rank.
std::int64_t key_value_heads(const ModelConfig& m, const MicroShape& s) {
  return s.batch * Widths(m, s.tensor).kv_heads;
}

// Of each key from each query, if the model has relative positions.
std::int64_t distances(const ModelConfig& m, const MicroShape& s) {
  return has_relative_positions(m) && s.sequence > 0 ? 2 * s.sequence - 1 : 0;
}

// Borders of buckets, and so many arrays of the rank's heads by distance: the bias, and in backward its gradient.
std::int64_t relative_bytes(const ModelConfig& m, const MicroShape& s, std::int64_t arrays) {
  if (!has_relative_positions(m)) return 0;
  return base::aligned(relative_bucket_rule(m).side() * 4) +
         arrays * base::aligned(Widths(m, s.tensor).heads * distances(m, s) * base::size_of(s.accumulation()));
}

std::int64_t attention_backward(const ModelConfig& m, const MicroShape& s) {
  const auto relative = relative_bytes(m, s, 2);
  if (s.device == base::DeviceKind::cpu)
    return relative + attention_backward_scratch_bytes(s.sequence, m.head_dim(), m.heads / m.kv_heads,
                                                       key_value_heads(m, s), s.threads, distances(m, s));
  return relative + gpu_attention_backward_scratch_bytes(s.batch, s.sequence, Widths(m, s.tensor).heads,
                                                         base::size_of(s.accumulation()), distances(m, s));
}

// From the output's gradient to those of q, k and v: the attended values' gradient lies between.
std::int64_t attended_backward(const ModelConfig& m, const MicroShape& s) {
  const Products p(m, s);
  const auto width = Widths(m, s.tensor).q;
  return (attended_gradient_fits(m, s) ? 0 : p.rows(width)) +
         std::max(
             {p.linear(width, m.hidden), attention_backward(m, s), adapter_backward_bytes(m, s, "attention", false)});
}

// Fused kernels compute tiles of this many keys. Of a causal row they skip the tiles behind its end, and tiles that no
// window reaches. Kernels apart compute all that a window hides.
constexpr double keys_of_tile = 128;

std::int64_t computed_keys(const ModelConfig& m, const MicroShape& s, AttentionKernels kernels) {
  const bool fused = kernels == AttentionKernels::fused;
  double keys = static_cast<double>(s.sequence) * (fused            ? computed_share(m, s.sequence)
                                                   : s.sequence > 0 ? density(m, s.sequence)
                                                                    : 1);
  if (fused && m.attention.causal) keys = (keys + std::min(keys, keys_of_tile)) / 2;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(keys));
}

}  // namespace

// A rank has all rows of its heads' values, and its own rows of the branch's input.
bool attended_gradient_fits(const ModelConfig& m, const MicroShape& s) {
  return s.rows() * Widths(m, s.tensor).q <= s.own_rows() * m.hidden;
}

bool output_gradient_fits(const ModelConfig& m, const MicroShape& s) {
  const Widths w(m, s.tensor);
  return s.tensor == 1 && m.hidden <= w.q + 2 * w.kv;
}

void AttentionKind::declare(Declaration& d) const {
  const auto& m = d.model();
  using Shared = Declaration::Shared;
  const auto q = m.query_width(), kv = m.key_value_width();
  d.query_weight("attention.q.weight");
  d.weight("attention.k.weight", kv, m.hidden, Shared::outputs);
  d.weight("attention.v.weight", kv, m.hidden, Shared::outputs);
  const auto bias = [&](const char* name, std::int64_t n, std::optional<ShardedDim> sharded) {
    d.parameter(name, {n}, {Init::Kind::zeros, 0}, Decay::no, sharded);
  };
  if (has_qkv_biases(m)) {
    bias("attention.q.bias", q, ShardedDim{0, Axis::tensor});
    bias("attention.k.bias", kv, ShardedDim{0, Axis::tensor});
    bias("attention.v.bias", kv, ShardedDim{0, Axis::tensor});
  }
  declare_query_key_norms(d);
  d.residual_weight("attention.output.weight", m.hidden, q, Shared::inputs);
  if (has_output_bias(m)) bias("attention.output.bias", m.hidden, {});
}

// Kernels apart keep the softmax, what dropout leaves of it, and a byte for each score that says what was dropped
// (Korthikanti et al. 2022, section 4.1). Selective recomputation makes them again.
std::vector<SavedTensor> AttentionKind::tensors(const ModelConfig& m, const MicroShape& s, Pass pass) const {
  const Widths w(m, s.tensor);
  std::vector<SavedTensor> out{{"qkv", s.dtype, s.rows(), w.q + 2 * w.kv},
                               {"logsumexp", s.accumulation(), s.batch * w.heads, s.sequence},
                               {"attended", s.dtype, s.rows(), w.q}};
  add_adapter_tensors(m, s, "attention", out);
  add_query_key_tensors(m, s, pass, out);
  if (s.attention == AttentionKernels::fused) return out;
  const auto rows = s.batch * w.heads * s.sequence, keys = computed_keys(m, s, s.attention);
  out.push_back({"softmax", s.dtype, rows, keys, Stays::unless_selective});
  if (pass == Pass::evaluate) return out;
  out.push_back({"dropped scores", s.dtype, rows, keys, Stays::unless_selective});
  out.push_back({"dropout mask", base::DType::u8, rows, keys, Stays::unless_selective});
  return out;
}

std::int64_t AttentionKind::forward_workspace_bytes(const ModelConfig& m, const MicroShape& s, Pass) const {
  const Products p(m, s);
  const auto attention =
      relative_bytes(m, s, 1) +
      (p.on_gpu() ? gpu_attention_forward_scratch_bytes
                  : attention_forward_scratch_bytes(s.sequence, m.head_dim(), key_value_heads(m, s), s.threads));
  return std::max(
      {p.gathered(m.hidden) + std::max(p.fused_forward(qkv(m, s)), adapter_forward_bytes(m, s, "attention", true)),
       adapter_forward_bytes(m, s, "attention", false), query_key_forward_bytes(m, s), rotary(m, s), attention,
       p.shared_sum(m.hidden, {Widths(m, s.tensor).q})});
}

std::int64_t AttentionKind::backward_workspace_bytes(const ModelConfig& m, const MicroShape& s) const {
  const Products p(m, s);
  const Widths w(m, s.tensor);
  const bool apart = !output_gradient_fits(m, s) && (s.sequence_parallel || m.dropout_attention_residual > 0);
  const auto gradients = p.rows(w.q + 2 * w.kv) + (apart ? p.rows(m.hidden) : 0);  // of q, k, v; of the output
  const auto others = std::max({attended_backward(m, s), rotary(m, s), query_key_backward_bytes(m, s)});
  if (has_adapter(m))
    return gradients + (reads_input_in_backward(m, "attention") ? p.gathered(m.hidden) : 0) +
           std::max({others, p.fused_inputs(qkv(m, s)), adapter_backward_bytes(m, s, "attention", true)});
  return gradients + p.gathered(m.hidden) +
         std::max({p.weight_gradient(m.hidden, w.q, has_output_bias(m)), others, p.fused_backward(qkv(m, s))});
}

std::int64_t AttentionKind::input_gradients_workspace_bytes(const ModelConfig& m, const MicroShape& s) const {
  const Products p(m, s);
  const Widths w(m, s.tensor);
  return p.rows(w.q + 2 * w.kv) + p.gathered(m.hidden) +
         std::max({attended_backward(m, s), rotary(m, s), query_key_backward_bytes(m, s), p.fused_inputs(qkv(m, s))});
}

std::int64_t AttentionKind::weight_gradients_workspace_bytes(const ModelConfig& m, const MicroShape& s) const {
  const Products p(m, s);
  return p.gathered(m.hidden) +
         std::max(p.weight_gradient(m.hidden, Widths(m, s.tensor).q, has_output_bias(m)), p.fused_weights(qkv(m, s)));
}

std::vector<GroupCall> AttentionKind::tensor_calls(const ModelConfig& m, const MicroShape& s, Pass pass,
                                                   Recompute recompute, Again again) const {
  auto calls = BranchKind::tensor_calls(m, s, pass, recompute, again);
  for (const auto& call : query_key_calls(m, s, pass, recompute)) calls.push_back(call);
  return calls;
}

// The scores and their product with the values are counted in full; causal masking would halve them. A sparse layout
// and a window count their share of what dense attention computes.
double AttentionKind::forward_flops(const ModelConfig& m, const Lengths& lengths) const {
  return apart_flops(m) + adapter_flops(m, "attention") +
         4 * computed_share(m, lengths.sequence) * static_cast<double>(lengths.sequence) *
             static_cast<double>(m.query_width());
}

// The products with weights.
double AttentionKind::apart_flops(const ModelConfig& m) const {
  const auto h = static_cast<double>(m.hidden), q = static_cast<double>(m.query_width()),
             kv = static_cast<double>(m.key_value_width());
  return 2 * (2 * h * q + 2 * kv * h);
}

// The product with the output's weight.
double AttentionKind::output_flops(const ModelConfig& m) const {
  return 2 * static_cast<double>(m.hidden) * static_cast<double>(m.query_width());
}

// Products with weights, then scores and their product with the values, of each head of the rank. Fused kernels read
// queries, keys and values and write the result. Kernels apart also copy the result, read and write scores for the
// softmax, and again for dropout, with a byte for each score that says what was dropped. Selective recomputation
// repeats the scores of kernels apart (Korthikanti et al. 2022, section 5).
BlockWork AttentionKind::work(const ModelConfig& m, const MicroShape& s, AttentionKernels kernels) const {
  const Widths w(m, s.tensor);
  BlockWork out;
  out.linear(s.rows(), w.q + 2 * w.kv, m.hidden);
  out.linear(s.rows(), m.hidden, w.q);
  const auto keys = computed_keys(m, s, kernels), heads = s.batch * w.heads;
  const Product scores{s.sequence, keys, m.head_dim(), heads}, values{s.sequence, m.head_dim(), keys, heads};
  const auto e = static_cast<double>(s.element_bytes()), rows = static_cast<double>(s.rows());
  const double qkv = static_cast<double>(w.q + 2 * w.kv), q = static_cast<double>(w.q);
  if (kernels == AttentionKernels::fused) {
    out.forward.attention = {scores, values};
    out.backward.attention = {scores, scores, values, scores, values};
    out.forward.bytes = e * rows * (qkv + q);
    out.backward.bytes = e * rows * (2 * qkv + 2 * q);
  } else {
    const double all_scores = static_cast<double>(heads) * static_cast<double>(s.sequence) * static_cast<double>(keys);
    const auto add = [&](PassWork& to, std::initializer_list<Product> products) {
      to.products.insert(to.products.end(), products);
    };
    add(out.forward, {scores, values});
    add(out.backward, {scores, values, scores, values});
    add(out.again, {scores, values});
    out.forward.bytes = e * rows * 2 * q + all_scores * (2 * e + 2 * e + 1);
    out.backward.bytes = e * rows * (2 * q + qkv) + all_scores * (3 * e + 2 * e + 1);
    out.again.bytes = out.forward.bytes;
  }
  add_query_key_work(m, s, out);
  add_adapter_work(m, s, "attention", out);
  return out;
}

}  // namespace trainyard::plan
