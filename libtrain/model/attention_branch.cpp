// The attention branch, forward and backward.
#include "libtrain/model/attention_branch.h"

#include "kernels/linear/linear.h"
#include "kernels/rotary/rotary.h"
#include "libtrain/model/attention_lists.h"
#include "libtrain/model/kv_cache.h"
#include "libtrain/model/shared_sum.h"
#include "libtrain/plan/blocks/adapter.h"
#include "libtrain/plan/blocks/attention.h"
#include "libtrain/plan/spec/block_layout.h"
#include "libtrain/plan/spec/conditions.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace trainyard::model {

namespace {

FusedLinear qkv_of(const plan::FlatGroup& flat_group) {
  const auto indices = [&](const std::string& layer) {
    return FusedLinear::Indices{plan::index_of(flat_group, layer + ".weight"),
                                plan::find_index(flat_group, layer + ".bias")};
  };
  return FusedLinear({indices("attention.q"), indices("attention.k"), indices("attention.v")});
}

}  // namespace

AttentionBranch::AttentionBranch(const BranchSpec& spec)
    : model_(spec.model), layer_(spec.layer), qkv_(qkv_of(spec.flat_group)), norm_(spec.model, spec.flat_group),
      output_weight_(plan::index_of(spec.flat_group, "attention.output.weight")),
      output_bias_(plan::find_index(spec.flat_group, "attention.output.bias")),
      probabilities_(spec.flat_group.name + ".attention", spec.model.dropout_attention), relative_(spec.model),
      adapters_(spec) {}

AttentionBranch::Heads AttentionBranch::split(base::View qkv, const plan::Widths& w) {
  return {qkv.columns(0, w.q), qkv.columns(w.q, w.kv), qkv.columns(w.q + w.kv, w.kv)};
}

AttentionBranch::Heads AttentionBranch::seen(const SavedSet& t, const plan::Widths& w) const {
  const auto qkv = split(t["qkv"], w);
  if (!norm_.exists()) return qkv;
  const auto qk = t["qk"];
  return {qk.columns(0, w.q), qk.columns(w.q, w.kv), qkv.v};
}

// Dropout sites are counted from the first head of all tensor-parallel ranks.
kernels::AttentionShape AttentionBranch::geometry(const Step& step, const RelativeBias::Expanded& bias) const {
  const plan::Widths w(model_, step.collectives->ranks());
  kernels::AttentionShape a;
  a.batch = step.micro.batch(), a.sequence = step.micro.sequence();
  a.heads = w.heads, a.kv_heads = w.kv_heads, a.head_dim = model_.head_dim();
  a.scale = model_.query_scale > 0 ? model_.query_scale : 1.0 / std::sqrt(static_cast<double>(model_.head_dim()));
  a.dropout = probabilities_.probability(step);
  a.seed = step.seed, a.samples = step.micro.sample_keys();
  const auto first_head = step.collectives->rank() * w.heads;
  a.site = probabilities_.site() + static_cast<std::uint64_t>(first_head);
  if (plan::is_sparse(model_)) {
    TRAINYARD_ASSERT(step.lists != nullptr, "layer {} has blocks, and the step no lists", layer_);
    a.visibility = step.lists->of(layer_, first_head);
  }
  a.visibility.causal = model_.attention.causal, a.visibility.window = model_.attention.window_tokens.at(0);
  a.softcap = model_.attention.softcap, a.bias = bias.bias.data;
  if (step.micro.key_end) a.key_end = step.micro.key_end.ptr<std::int32_t>();
  return a;
}

kernels::RotaryHeads AttentionBranch::rotary(std::int64_t heads) const {
  return {.heads = heads, .head_dim = model_.head_dim(), .base = model_.rotary_base, .config = model_.rotary};
}

// Without norms this is in "qkv" itself, else in "qk".
void AttentionBranch::norm_and_rotate(Step& step, const params::Lease& lease, const SavedSet& t) const {
  if (norm_.exists()) norm_.forward(step, lease, t);
  if (!plan::is_rotary(model_)) return;
  const plan::Widths w(model_, step.collectives->ranks());
  const auto heads = seen(t, w);
  kernels::rotary_forward(step.exec, heads.q, step.micro.positions, rotary(w.heads));
  kernels::rotary_forward(step.exec, heads.k, step.micro.positions, rotary(w.kv_heads));
}

void AttentionBranch::forward(Step& step, const params::Lease& lease, const SavedSet& t, base::View output) const {
  const plan::Widths w(model_, step.collectives->ranks());
  {
    tensor::ArenaScope scope(step.exec.scratch());
    const auto normed = all_rows(step, t["normed"]);
    qkv_.forward(step.exec, lease, normed, t["qkv"]);
    const auto [q, k, v] = split(t["qkv"], w);
    adapters_.add_outputs(step, normed, {{"q", q}, {"k", k}, {"v", v}}, t);
  }
  if (norm_.exists()) norm_.sum_squares(step, t);
  norm_and_rotate(step, lease, t);
  const auto heads = seen(t, w);
  if (step.past.empty()) attend(step, heads, t["attended"], t["logsumexp"]);
  else attend_to_cache(step, heads, t["attended"], t["logsumexp"]);
  adapters_.begin_inputs(step, "o", t["attended"], t);
  if (!output) return;
  shared_forward(step, t["attended"], lease.weight(output_weight_),
                 output_bias_ < 0 ? base::View{} : lease.weight(output_bias_), w, output);
  adapters_.add_inputs(step, "o", t, output);
}

void AttentionBranch::attend(Step& step, const Heads& heads, base::View attended, base::View logsumexp) const {
  tensor::ArenaScope scope(step.exec.scratch());
  kernels::attention_forward(step.exec, {.shape = geometry(step, relative_.expand(step)),
                                         .q = heads.q,
                                         .k = heads.k,
                                         .v = heads.v,
                                         .document_start = step.micro.document_start,
                                         .out = attended,
                                         .lse = logsumexp});
}

// Stores the new keys and values. A first pass is then ordinary attention; later ones attend to their caches.
void AttentionBranch::attend_to_cache(Step& step, const Heads& heads, base::View attended, base::View logsumexp) const {
  const auto sequences = step.micro.batch(), n = step.micro.sequence();
  TRAINYARD_ASSERT(step.pass == plan::Pass::evaluate && std::ssize(step.past) == sequences,
                   "{} caches for {} sequences", step.past.size(), sequences);
  for (std::int64_t s = 0; s < sequences; ++s) {
    auto& past = *step.past[base::size(s)];
    TRAINYARD_ASSERT((past.length == 0 ? sequences == 1 : n == 1) && past.length + n <= model_.context,
                     "{} tokens behind {} in a context of {}", n, past.length, model_.context);
    past.keep(step.exec, layer_, heads.k.row_range(s * n, n), heads.v.row_range(s * n, n));
  }
  if (step.past[0]->length == 0) return attend(step, heads, attended, logsumexp);
  for (std::int64_t s = 0; s < sequences; ++s) {
    tensor::ArenaScope scope(step.exec.scratch());
    const auto& past = *step.past[base::size(s)];
    auto shape = geometry(step, relative_.expand_last(step, past.length + 1));
    shape.batch = 1;
    past.attend(step.exec, layer_, shape, heads.q.row_range(s, 1), attended.row_range(s, 1));
  }
}

void AttentionBranch::output_weight_gradient(Step& step, const params::Grads& grads, base::View d_output,
                                             const SavedSet& t) const {
  if (!grads.wanted()) return;
  kernels::linear_backward_weight(step.exec, d_output, t["attended"], grads.gradient(output_weight_),
                                  output_bias_ < 0 ? base::View{} : grads.gradient(output_bias_));
}

// Writes the gradient of the attended values to `place`, if it has room there. d_output may lie where d_qkv does.
void AttentionBranch::backward_to_qkv(Step& step, const params::Lease& lease, const SavedSet& t,
                                      const Inward& g) const {
  const plan::Widths w(model_, step.collectives->ranks());
  const auto heads = seen(t, w), d_heads = split(g.d_qkv, w);
  {
    tensor::ArenaScope scope(step.exec.scratch());
    const auto d_attended = plan::attended_gradient_fits(model_, shape_of(step))
                                ? base::View(g.place.data, g.place.dtype, {g.d_qkv.rows(), w.q}, g.place.device)
                                : step.exec.scratch().allocate(step.dtype, {g.d_qkv.rows(), w.q});
    kernels::linear_backward_input(step.exec, g.d_output, lease.weight(output_weight_), d_attended);
    adapters_.backward_inputs(step, {.target = "o", .dy = g.d_output, .x = t["attended"], .dx = d_attended}, t);
    const auto bias = relative_.expand(step);
    const auto d_bias = relative_.gradient_place(step, bias);
    kernels::attention_backward(step.exec, {.shape = geometry(step, bias),
                                            .q = heads.q,
                                            .k = heads.k,
                                            .v = heads.v,
                                            .document_start = step.micro.document_start,
                                            .out = t["attended"],
                                            .lse = t["logsumexp"],
                                            .dout = d_attended,
                                            .dq = d_heads.q,
                                            .dk = d_heads.k,
                                            .dv = d_heads.v,
                                            .d_bias = d_bias});
    relative_.fold(step, bias, d_bias);
  }
  if (plan::is_rotary(model_)) {
    kernels::rotary_backward(step.exec, d_heads.q, step.micro.positions, rotary(w.heads));
    kernels::rotary_backward(step.exec, d_heads.k, step.micro.positions, rotary(w.kv_heads));
  }
  if (norm_.exists()) norm_.backward(step, lease, t, {d_heads.q, d_heads.k}, g.norm_gradients);
}

void AttentionBranch::input_gradients(Step& step, const params::Lease& lease, base::View d_output, const SavedSet& t,
                                      base::View d_normed) const {
  const auto qkv = t["qkv"];
  const auto d_qkv = step.exec.scratch().allocate(step.dtype, {qkv.rows(), qkv.cols()});
  backward_to_qkv(step, lease, t,
                  {.d_output = all_rows(step, d_output),
                   .place = d_normed,
                   .d_qkv = d_qkv,
                   .norm_gradients = norm_.exists() ? norm_.gradients(t) : QueryKeyNorm::Pair()});
  qkv_.input_gradient(step, lease, d_qkv, plan::Widths(model_, step.collectives->ranks()), d_normed);
  tensor::copy(step.exec, d_qkv, qkv);
}

void AttentionBranch::weight_gradients(Step& step, const params::Grads& grads, base::View d_output,
                                       const SavedSet& t) const {
  if (norm_.exists()) norm_.hand_over(step, t, grads);
  {
    tensor::ArenaScope scope(step.exec.scratch());
    output_weight_gradient(step, grads, all_rows(step, d_output), t);
  }
  tensor::ArenaScope scope(step.exec.scratch());
  qkv_.weight_gradients(step, grads, t["qkv"], all_rows(step, t["normed"]));
}

// d_normed first holds the gradient of the attended values, then its own. With Recompute::selective the norms and the
// rotation are made again here, where their weights are.
void AttentionBranch::backward(Step& step, const params::Lease& lease, const params::Grads& grads,
                               const OutputGradient& gradient, const SavedSet& t, base::View d_normed) const {
  const plan::Widths w(model_, step.collectives->ranks());
  auto& workspace = step.exec.scratch();
  if (norm_.exists() && step.recompute == plan::Recompute::selective) norm_and_rotate(step, lease, t);
  const auto n = t["attended"].rows();
  const auto d_qkv = workspace.allocate(step.dtype, {n, t["qkv"].cols()});
  const bool apart = (step.collectives->sequence_parallel() || gradient.dropped(step)) &&
                     !plan::output_gradient_fits(model_, shape_of(step));
  const auto rows = apart ? workspace.allocate(step.dtype, {n, model_.hidden}) : base::View{};
  // On one rank d_qkv serves as the place if it is wide enough, because nothing is in it yet.
  const auto d_output = gradient.all_rows(step, apart ? rows : d_qkv.columns(0, std::min(model_.hidden, d_qkv.cols())));
  std::optional<AllRows> normed;
  if (plan::reads_input_in_backward(model_, "attention")) normed.emplace(step, t["normed"]);
  output_weight_gradient(step, grads, d_output, t);
  backward_to_qkv(step, lease, t,
                  {.d_output = d_output,
                   .place = d_normed,
                   .d_qkv = d_qkv,
                   .norm_gradients = norm_.exists() ? norm_.gradients(grads) : QueryKeyNorm::Pair()});
  if (!plan::has_adapter(model_))
    return qkv_.backward(step, lease, grads, {.dy = d_qkv, .widths = w, .x = *normed, .dx = d_normed});
  qkv_.input_gradient(step, lease, d_qkv, w, d_normed);
  const auto [q, k, v] = split(d_qkv, w);
  if (normed) adapters_.backward_outputs(step, normed->get(), {{"q", q}, {"k", k}, {"v", v}}, t, d_normed);
}

}  // namespace trainyard::model
