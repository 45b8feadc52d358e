// The attention branch, forward and backward.
#include "libtrain/model/attention_branch.h"

#include "kernels/cached_attention/cached_attention.h"
#include "kernels/cast/cast.h"
#include "kernels/linear/linear.h"
#include "kernels/rotary/rotary.h"
#include "libtrain/model/kv_cache.h"

#include <cmath>

namespace trainyard::model {

namespace {

FusedLinear qkv_of(const plan::Unit& unit) {
  const auto index = [&](const char* name) { return plan::index_of(unit, name); };
  return FusedLinear({{index("attention.q.weight"), index("attention.q.bias")},
                      {index("attention.k.weight"), index("attention.k.bias")},
                      {index("attention.v.weight"), index("attention.v.bias")}});
}

}  // namespace

AttentionBranch::AttentionBranch(const BranchSpec& spec)
    : model_(spec.model), layer_(spec.layer), qkv_(qkv_of(spec.unit)),
      output_weight_(plan::index_of(spec.unit, "attention.output.weight")),
      output_bias_(plan::index_of(spec.unit, "attention.output.bias")),
      probabilities_(spec.unit.name + ".attention", spec.model.dropout_attention) {}

AttentionBranch::Heads AttentionBranch::split(base::View qkv) const {
  const auto q = model_.heads * model_.head_dim(), kv = model_.kv_heads * model_.head_dim();
  return {qkv.columns(0, q), qkv.columns(q, kv), qkv.columns(q + kv, kv)};
}

kernels::AttentionShape AttentionBranch::geometry(const Step& step) const {
  kernels::AttentionShape a;
  a.batch = step.micro.batch(), a.sequence = step.micro.sequence();
  a.heads = model_.heads, a.kv_heads = model_.kv_heads, a.head_dim = model_.head_dim();
  a.scale = 1.0 / std::sqrt(static_cast<double>(model_.head_dim()));
  a.dropout = probabilities_.probability(step);
  a.seed = step.seed, a.site = probabilities_.site(), a.samples = step.micro.sample_keys();
  return a;
}

void AttentionBranch::forward(Step& step, const params::Lease& lease, const SavedSet& t, base::View output) const {
  qkv_.forward(step.exec, lease, t["normed"], t["qkv"]);
  const auto heads = split(t["qkv"]);
  if (model_.positions == plan::Positions::rotary) {
    kernels::rotary_forward(step.exec, heads.q, step.micro.positions, model_.heads, model_.head_dim(),
                            model_.rotary_base);
    kernels::rotary_forward(step.exec, heads.k, step.micro.positions, model_.kv_heads, model_.head_dim(),
                            model_.rotary_base);
  }
  if (step.past == nullptr)
    kernels::attention_forward(step.exec, geometry(step), heads.q, heads.k, heads.v, step.micro.document_start,
                               t["attended"], t["logsumexp"]);
  else attend_to_cache(step, heads, t["attended"], t["logsumexp"]);
  kernels::linear_forward(step.exec, t["attended"], lease.weight(output_weight_),
                          output_bias_ < 0 ? base::View{} : lease.weight(output_bias_), output);
}

// Keeps the new rows; a first pass then is ordinary attention, a later one looks back.
void AttentionBranch::attend_to_cache(Step& step, const Heads& heads, base::View attended, base::View logsumexp) const {
  auto& past = *step.past;
  const auto n = heads.q.rows();
  TRAINYARD_ASSERT(step.pass == plan::Pass::evaluate && step.micro.batch() == 1, "{} sequences", step.micro.batch());
  TRAINYARD_ASSERT((past.length == 0 || n == 1) && past.length + n <= model_.context,
                   "{} tokens behind {} in a context of {}", n, past.length, model_.context);
  const auto& keys = past.keys[static_cast<std::size_t>(layer_)];
  const auto& values = past.values[static_cast<std::size_t>(layer_)];
  kernels::copy(step.exec, heads.k, keys.row_range(past.length, n));
  kernels::copy(step.exec, heads.v, values.row_range(past.length, n));
  const auto shape = geometry(step);
  if (past.length == 0)
    return kernels::attention_forward(step.exec, shape, heads.q, heads.k, heads.v, step.micro.document_start, attended,
                                      logsumexp);
  kernels::cached_attention(step.exec, shape.heads, shape.kv_heads, shape.scale, heads.q,
                            keys.row_range(0, past.length + 1), values.row_range(0, past.length + 1), attended);
}

// d_normed holds the gradient of the attended values before it gets its own.
void AttentionBranch::backward(Step& step, const params::Lease& lease, const params::Grads& grads,
                               const OutputGradient& gradient, const SavedSet& t, base::View d_normed) const {
  const auto d_qkv = step.exec.scratch().allocate(step.dtype, {d_normed.rows(), t["qkv"].cols()});
  const auto d_output = gradient.in(step, d_qkv.columns(0, model_.hidden));  // that place is not needed yet
  kernels::linear_backward_weight(step.exec, d_output, t["attended"], grads.gradient(output_weight_),
                                  output_bias_ < 0 ? base::View{} : grads.gradient(output_bias_));
  kernels::linear_backward_input(step.exec, d_output, lease.weight(output_weight_), d_normed);
  const auto heads = split(t["qkv"]), d_heads = split(d_qkv);
  kernels::attention_backward(step.exec, geometry(step), heads.q, heads.k, heads.v, step.micro.document_start,
                              t["attended"], t["logsumexp"], d_normed, d_heads.q, d_heads.k, d_heads.v);
  if (model_.positions == plan::Positions::rotary) {
    kernels::rotary_backward(step.exec, d_heads.q, step.micro.positions, model_.heads, model_.head_dim(),
                             model_.rotary_base);
    kernels::rotary_backward(step.exec, d_heads.k, step.micro.positions, model_.kv_heads, model_.head_dim(),
                             model_.rotary_base);
  }
  qkv_.backward_weight(step.exec, grads, d_qkv, t["normed"]);
  qkv_.backward_input(step.exec, lease, d_qkv, d_normed);
}

}  // namespace trainyard::model
