// The cross-attention branch, forward and backward.
#include "libtrain/model/cross_attention_branch.h"

#include "kernels/attention/attention.h"
#include "kernels/cached_attention/cached_attention.h"
#include "kernels/cast/cast.h"
#include "kernels/linear/linear.h"
#include "libtrain/base/index.h"
#include "libtrain/model/kv_cache.h"
#include "libtrain/model/shared_sum.h"
#include "libtrain/plan/blocks/attention.h"
#include "libtrain/plan/spec/conditions.h"

#include <cmath>
#include <initializer_list>

namespace trainyard::model {

namespace {

FusedLinear layers_of(const plan::FlatGroup& flat_group, std::initializer_list<const char*> names) {
  std::vector<FusedLinear::Indices> all;
  for (const std::string name : names)
    all.push_back({plan::index_of(flat_group, "cross_attention." + name + ".weight"),
                   plan::find_index(flat_group, "cross_attention." + name + ".bias")});
  return FusedLinear(std::move(all));
}

std::int64_t rows_of_source(const Step& step) { return step.micro.source->batch() * step.micro.source->sequence(); }

}  // namespace

CrossAttentionBranch::CrossAttentionBranch(const BranchSpec& spec)
    : model_(spec.model), layer_(spec.layer), queries_(layers_of(spec.flat_group, {"q"})),
      memory_(layers_of(spec.flat_group, {"k", "v"})),
      output_weight_(plan::index_of(spec.flat_group, "cross_attention.output.weight")),
      output_bias_(plan::find_index(spec.flat_group, "cross_attention.output.bias")),
      probabilities_(spec.flat_group.name + ".cross_attention", spec.model.dropout_attention) {}

CrossAttentionBranch::Heads CrossAttentionBranch::split(base::View kv) {
  return {kv.columns(0, kv.cols() / 2), kv.columns(kv.cols() / 2, kv.cols() / 2)};
}

double CrossAttentionBranch::scale() const {
  return model_.query_scale > 0 ? model_.query_scale : 1.0 / std::sqrt(static_cast<double>(model_.head_dim()));
}

// Dropout sites are counted from the first head of all tensor-parallel ranks.
kernels::AttentionShape CrossAttentionBranch::geometry(const Step& step) const {
  const plan::Widths w(model_, step.collectives->ranks());
  kernels::AttentionShape a;
  a.batch = step.micro.batch(), a.sequence = step.micro.sequence(), a.key_sequence = step.micro.source->sequence();
  a.heads = w.heads, a.kv_heads = w.kv_heads, a.head_dim = model_.head_dim();
  a.scale = scale();
  a.dropout = probabilities_.probability(step);
  a.seed = step.seed, a.samples = step.micro.sample_keys();
  a.site = probabilities_.site() + static_cast<std::uint64_t>(step.collectives->rank() * w.heads);
  a.visibility.causal = false;
  a.key_end = step.micro.source_end.ptr<std::int32_t>();
  a.softcap = model_.attention.softcap;
  return a;
}

void CrossAttentionBranch::forward(Step& step, const params::Lease& lease, const SavedSet& t, base::View output) const {
  const plan::Widths w(model_, step.collectives->ranks());
  {
    tensor::ArenaScope scope(step.exec.scratch());
    queries_.forward(step.exec, lease, all_rows(step, t["normed"]), t["q"]);
  }
  if (goes_on(step)) {
    attend_to_cache(step, t);
  } else {
    {
      tensor::ArenaScope scope(step.exec.scratch());
      memory_.forward(step.exec, lease, AllRows(step, step.memory, rows_of_source(step)).get(), t["kv"]);
    }
    const auto [k, v] = split(t["kv"]);
    kernels::attention_forward(step.exec, {.shape = geometry(step),
                                           .q = t["q"],
                                           .k = k,
                                           .v = v,
                                           .document_start = step.micro.source_start,
                                           .out = t["attended"],
                                           .lse = t["logsumexp"]});
    if (!step.past.empty()) keep(step, t["kv"]);
  }
  if (!output) return;
  shared_forward(step, t["attended"], lease.weight(output_weight_),
                 output_bias_ < 0 ? base::View{} : lease.weight(output_bias_), w, output);
}

// The first pass reads one text.
void CrossAttentionBranch::keep(Step& step, base::View kv) const {
  TRAINYARD_ASSERT(std::ssize(step.past) == 1 && step.past[0]->source != nullptr, "{} texts and their sources",
                   step.past.size());
  auto& source = *step.past[0]->source;
  kernels::copy(step.exec, kv, base::at(source.kv, layer_).row_range(0, kv.rows()));
  source.length = kv.rows();
}

void CrossAttentionBranch::attend_to_cache(Step& step, const SavedSet& t) const {
  const auto q = t["q"], attended = t["attended"];
  for (std::int64_t s = 0; s < q.rows(); ++s) {
    const auto& source = *step.past[base::size(s)]->source;
    const auto [k, v] = split(base::at(source.kv, layer_).row_range(0, source.length));
    kernels::cached_attention(step.exec, {.q = q.row_range(s, 1),
                                          .k = k,
                                          .v = v,
                                          .heads = model_.heads,
                                          .kv_heads = model_.kv_heads,
                                          .scale = scale(),
                                          .out = attended.row_range(s, 1),
                                          .softcap = model_.attention.softcap});
  }
}

// d_normed first holds the gradient of the attended values if it has room for it, then its own.
void CrossAttentionBranch::backward(Step& step, const params::Lease& lease, const params::Grads& grads,
                                    const OutputGradient& gradient, const SavedSet& t, base::View d_normed) const {
  const plan::Widths w(model_, step.collectives->ranks());
  auto& workspace = step.exec.scratch();
  const auto q = t["q"], kv = t["kv"];
  const auto d_q = workspace.allocate(step.dtype, {q.rows(), q.cols()}),
             d_kv = workspace.allocate(step.dtype, {kv.rows(), kv.cols()});
  const bool apart = step.collectives->sequence_parallel() || gradient.dropped(step);
  const auto d_output =
      gradient.all_rows(step, apart ? workspace.allocate(step.dtype, {q.rows(), model_.hidden}) : base::View{});
  if (grads.wanted())
    kernels::linear_backward_weight(step.exec, d_output, t["attended"], grads.gradient(output_weight_),
                                    output_bias_ < 0 ? base::View{} : grads.gradient(output_bias_));
  {
    tensor::ArenaScope scope(workspace);
    const auto d_attended = plan::attended_gradient_fits(model_, shape_of(step))
                                ? base::View(d_normed.data, d_normed.dtype, {q.rows(), w.q}, d_normed.device)
                                : workspace.allocate(step.dtype, {q.rows(), w.q});
    kernels::linear_backward_input(step.exec, d_output, lease.weight(output_weight_), d_attended);
    const auto [k, v] = split(kv);
    const auto [d_k, d_v] = split(d_kv);
    kernels::attention_backward(step.exec, {.shape = geometry(step),
                                            .q = q,
                                            .k = k,
                                            .v = v,
                                            .document_start = step.micro.source_start,
                                            .out = t["attended"],
                                            .lse = t["logsumexp"],
                                            .dout = d_attended,
                                            .dq = d_q,
                                            .dk = d_k,
                                            .dv = d_v});
  }
  {
    tensor::ArenaScope scope(workspace);
    const AllRows normed(step, t["normed"]);
    queries_.backward(step, lease, grads, {.dy = d_q, .widths = w, .x = normed, .dx = d_normed});
  }
  tensor::ArenaScope scope(workspace);
  const auto d_memory = workspace.allocate(step.dtype, {step.memory.rows(), step.memory.cols()});
  const AllRows memory(step, step.memory, rows_of_source(step));
  memory_.backward(step, lease, grads, {.dy = d_kv, .widths = w, .x = memory, .dx = d_memory});
  auto widened = d_memory;
  if (d_memory.dtype != step.memory_gradient.dtype) {
    widened = workspace.allocate(step.memory_gradient.dtype, {d_memory.rows(), d_memory.cols()});
    kernels::cast(step.exec, d_memory, widened);
  }
  kernels::add(step.exec, step.memory_gradient, widened);
}

}  // namespace trainyard::model
