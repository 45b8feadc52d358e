// The attention branch, forward and backward.
#include "libtrain/model/attention_part.h"

#include "kernels/cached_attention/cached_attention.h"
#include "kernels/cast/cast.h"
#include "kernels/linear/linear.h"
#include "kernels/rotary/rotary.h"
#include "libtrain/model/key_values.h"

#include <cmath>

namespace trainyard::model {

namespace {

Joined declare_qkv(const plan::ModelConfig& m, Declaration& d) {
  const auto kv = m.kv_heads * m.head_dim();
  const int q = d.weight("attention.q.weight", m.hidden, m.hidden), k = d.weight("attention.k.weight", kv, m.hidden);
  const int v = d.weight("attention.v.weight", kv, m.hidden);
  const int q_bias = d.bias("attention.q.bias", m.hidden), k_bias = d.bias("attention.k.bias", kv), v_bias = d.bias("attention.v.bias", kv);
  return Joined({{q, q_bias}, {k, k_bias}, {v, v_bias}});
}

}  // namespace

AttentionPart::AttentionPart(const plan::ModelConfig& model, Declaration& d, std::int64_t index, const std::string& layer)
    : model_(model), index_(index), norm_(model, d, "attention_norm"), qkv_(declare_qkv(model, d)),
      output_weight_(d.residual_weight("attention.output.weight", model.hidden, model.hidden)),
      output_bias_(d.bias("attention.output.bias", model.hidden)), probabilities_(layer + ".attention", model.dropout_attention),
      residual_(layer + ".attention_residual", model.dropout_attention_residual) {}

AttentionPart::Heads AttentionPart::split(base::View qkv) const {
  const auto q = model_.heads * model_.head_dim(), kv = model_.kv_heads * model_.head_dim();
  return {qkv.columns(0, q), qkv.columns(q, kv), qkv.columns(q + kv, kv)};
}

kernels::AttentionShape AttentionPart::geometry(const Step& step) const {
  kernels::AttentionShape a;
  a.batch = step.micro.batch(), a.sequence = step.micro.sequence();
  a.heads = model_.heads, a.kv_heads = model_.kv_heads, a.head_dim = model_.head_dim();
  a.scale = 1.0 / std::sqrt(static_cast<double>(model_.head_dim()));
  a.dropout = probabilities_.probability(step);
  a.seed = step.seed, a.site = probabilities_.site(), a.samples = step.micro.sample_keys();
  return a;
}

void AttentionPart::forward(Step& step, const params::Lease& lease, base::View stream, base::View branch, const SavedSet& t) const {
  norm_.forward(step, lease, stream, t);
  qkv_.forward(step.exec, lease, t["normed"], t["qkv"]);
  const auto heads = split(t["qkv"]);
  if (model_.positions == plan::Positions::rotary) {
    kernels::rotary_forward(step.exec, heads.q, step.micro.positions, model_.heads, model_.head_dim(), model_.rotary_base);
    kernels::rotary_forward(step.exec, heads.k, step.micro.positions, model_.kv_heads, model_.head_dim(), model_.rotary_base);
  }
  if (step.past == nullptr) kernels::attention_forward(step.exec, geometry(step), heads.q, heads.k, heads.v, step.micro.document_start, t["mixed"], t["logsumexp"]);
  else remember(step, heads, t["mixed"], t["logsumexp"]);
  kernels::linear_forward(step.exec, t["mixed"], lease.weight(output_weight_), output_bias_ < 0 ? base::View{} : lease.weight(output_bias_), branch);
}

// Keeps the new rows; a first pass then is ordinary attention, a later one looks back.
void AttentionPart::remember(Step& step, const Heads& heads, base::View mixed, base::View logsumexp) const {
  auto& past = *step.past;
  const auto n = heads.q.rows(), layer = index_;
  TRAINYARD_ASSERT(step.mode == Mode::evaluate && step.micro.batch() == 1, "{} sequences", step.micro.batch());
  TRAINYARD_ASSERT((past.length == 0 || n == 1) && past.length + n <= model_.context, "{} tokens behind {} in a context of {}", n, past.length, model_.context);
  const auto& keys = past.keys[static_cast<std::size_t>(layer)];
  const auto& values = past.values[static_cast<std::size_t>(layer)];
  kernels::copy(step.exec, heads.k, keys.row_range(past.length, n));
  kernels::copy(step.exec, heads.v, values.row_range(past.length, n));
  const auto shape = geometry(step);
  if (past.length == 0) return kernels::attention_forward(step.exec, shape, heads.q, heads.k, heads.v, step.micro.document_start, mixed, logsumexp);
  kernels::cached_attention(step.exec, shape.heads, shape.kv_heads, shape.scale, heads.q, keys.row_range(0, past.length + 1), values.row_range(0, past.length + 1), mixed);
}

void AttentionPart::backward(Step& step, const params::Lease& lease, const params::Grads& grads, base::View gradient, const SavedSet& t) const {
  auto& workspace = step.exec.scratch();
  const auto n = gradient.rows();
  tensor::ArenaScope scope(workspace);
  const auto d_normed = workspace.allocate(step.dtype, {n, model_.hidden});   // before that: the gradient of the mixed values
  {
    tensor::ArenaScope inner_scope(workspace);
    const auto d_qkv = workspace.allocate(step.dtype, {n, t["qkv"].cols()});
    auto d_branch = gradient;
    if (residual_.active(step)) {
      d_branch = d_qkv.columns(0, model_.hidden);   // its place is not needed yet
      kernels::dropout_backward(step.exec, residual_.of(step), gradient, d_branch);
    }
    kernels::linear_backward_weight(step.exec, d_branch, t["mixed"], grads.gradient(output_weight_), output_bias_ < 0 ? base::View{} : grads.gradient(output_bias_));
    kernels::linear_backward_input(step.exec, d_branch, lease.weight(output_weight_), d_normed);
    const auto heads = split(t["qkv"]), d_heads = split(d_qkv);
    kernels::attention_backward(step.exec, geometry(step), heads.q, heads.k, heads.v, step.micro.document_start, t["mixed"], t["logsumexp"], d_normed,
                                d_heads.q, d_heads.k, d_heads.v);
    if (model_.positions == plan::Positions::rotary) {
      kernels::rotary_backward(step.exec, d_heads.q, step.micro.positions, model_.heads, model_.head_dim(), model_.rotary_base);
      kernels::rotary_backward(step.exec, d_heads.k, step.micro.positions, model_.kv_heads, model_.head_dim(), model_.rotary_base);
    }
    qkv_.backward_weight(step.exec, grads, d_qkv, t["normed"]);
    qkv_.backward_input(step.exec, lease, d_qkv, d_normed);
  }
  norm_.backward(step, lease, grads, d_normed, t, gradient);
}

}  // namespace trainyard::model
