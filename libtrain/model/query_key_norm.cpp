// Norms of queries and keys, forward and backward.
#include "libtrain/model/query_key_norm.h"

#include "kernels/cast/cast.h"
#include "kernels/lane_sum/lane_sum.h"
#include "libtrain/plan/spec/conditions.h"

namespace trainyard::model {

QueryKeyNorm::QueryKeyNorm(const plan::ModelConfig& model, const plan::FlatGroup& flat_group)
    : model_(model), weights_{plan::find_index(flat_group, "attention.q_norm.weight"),
                              plan::find_index(flat_group, "attention.k_norm.weight")} {}

QueryKeyNorm::Pair QueryKeyNorm::columns(const plan::Widths& w, base::View qk) const {
  return {qk.columns(0, w.q), qk.columns(w.q, w.kv)};
}

QueryKeyNorm::Pair QueryKeyNorm::rows(const plan::Widths& w, base::View sums) const {
  if (!plan::norms_heads(model_)) return {sums.row_range(0, 1), sums.row_range(1, 1)};
  return {sums.row_range(0, w.heads), sums.row_range(w.heads, w.kv_heads)};
}

kernels::HeadNorm QueryKeyNorm::norm(int which, base::View weight, base::View squares) const {
  const auto width = which == 0 ? model_.query_width() : model_.key_value_width();
  return {.weight = weight,
          .squares = squares,
          .width = plan::norms_heads(model_) ? model_.head_dim() : width,
          .epsilon = model_.norm_epsilon,
          .offset = model_.norm_offset};
}

// The place of the lanes of all ranks: `mine` itself on one rank.
base::View QueryKeyNorm::of_all_lanes(Step& step, base::View mine) const {
  const auto ranks = std::int64_t{step.collectives->ranks()};
  return ranks == 1 ? mine : step.exec.scratch().allocate(mine.dtype, {ranks * mine.rows(), mine.cols()});
}

void QueryKeyNorm::gather_lanes(Step& step, base::View mine, base::View all) const {
  if (step.collectives->ranks() > 1) step.collectives->gather(mine, all);
}

// Sums over each head belong to one rank. Sums over the width are made lane by lane; the lanes of all ranks are added.
void QueryKeyNorm::sum_up(Step& step, std::array<kernels::HeadNormSums, 2> sums, base::View out) const {
  if (out.count() == 0) return;
  const auto w = widths(step);
  if (plan::norms_heads(model_)) {
    const auto places = rows(w, out);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i].out = places[i];
      kernels::head_norm_sums(step.exec, sums[i]);
    }
    return;
  }
  tensor::ArenaScope scope(step.exec.scratch());
  const auto n = out.cols();
  const auto mine = step.exec.scratch().allocate(out.dtype, {w.lanes, 2 * n}), all = of_all_lanes(step, mine);
  sums[0].out = mine.columns(0, n), sums[1].out = mine.columns(n, n);
  for (const auto& s : sums) kernels::head_norm_sums(step.exec, s);
  gather_lanes(step, mine, all);
  kernels::lane_sum(step.exec, all, {}, 0, out);
}

void QueryKeyNorm::sum_squares(Step& step, const SavedSet& t) const {
  const auto [q, k] = columns(widths(step), t["qkv"]);
  sum_up(step, {{{.x = q, .out = {}}, {.x = k, .out = {}}}}, t["qk_squares"]);
}

void QueryKeyNorm::forward(Step& step, const params::Lease& lease, const SavedSet& t) const {
  const auto w = widths(step);
  const auto from = columns(w, t["qkv"]), to = columns(w, t["qk"]), squares = rows(w, t["qk_squares"]);
  for (int i = 0; i < 2; ++i) {
    const auto at = static_cast<std::size_t>(i);
    kernels::head_norm_forward(step.exec, norm(i, lease.weight(weights_[at]), squares[at]), from[at], to[at]);
  }
}

QueryKeyNorm::Pair QueryKeyNorm::gradients(const params::Grads& grads) const {
  return {grads.gradient(weights_[0]), grads.gradient(weights_[1])};
}

QueryKeyNorm::Pair QueryKeyNorm::gradients(const SavedSet& t) const {
  const auto all = t["qk_norm_gradients"];
  const auto columns_of = [&](std::int64_t first, std::int64_t n) {
    const auto v = all.reshaped({1, all.count()}).columns(first, n);
    return base::View(v.data, v.dtype, {n}, v.device);
  };
  const auto q =
      plan::norms_heads(model_) ? model_.head_dim() : all.count() * model_.heads / (model_.heads + model_.kv_heads);
  return {columns_of(0, q), columns_of(q, all.count() - q)};
}

void QueryKeyNorm::hand_over(Step& step, const SavedSet& t, const params::Grads& grads) const {
  const auto made = gradients(t), there = gradients(grads);
  for (std::size_t i = 0; i < made.size(); ++i) tensor::copy(step.exec, made[i], there[i]);
}

void QueryKeyNorm::backward(Step& step, const params::Lease& lease, const SavedSet& t, const Pair& d,
                            const Pair& weight_gradients) const {
  const auto w = widths(step);
  const auto x = columns(w, t["qkv"]), squares = rows(w, t["qk_squares"]);
  const Pair weights{lease.weight(weights_[0]), lease.weight(weights_[1])};
  if (d[0].count() == 0) {  // an empty micro-batch, on all ranks
    for (const auto& g : weight_gradients)
      if (g) kernels::fill(step.exec, g, 0);
    return;
  }
  auto& workspace = step.exec.scratch();
  tensor::ArenaScope scope(workspace);
  const auto sums = t["qk_squares"], along = workspace.allocate(sums.dtype, {sums.rows(), sums.cols()});
  const auto of = [&](std::size_t i) {
    return kernels::HeadNormSums{.x = x[i], .dy = d[i], .weight = weights[i], .offset = model_.norm_offset, .out = {}};
  };
  sum_up(step, {of(0), of(1)}, along);
  const auto dots = rows(w, along);
  const auto through = [&](std::size_t i, base::View dweight) {
    kernels::head_norm_backward(step.exec, {.norm = norm(static_cast<int>(i), weights[i], squares[i]),
                                            .dy = d[i],
                                            .x = x[i],
                                            .dots = dots[i],
                                            .dx = d[i],
                                            .dweight = dweight});
  };
  const bool frozen = !weight_gradients[0];  // the kernel makes gradients of the weights, which nobody reads
  if (!plan::norms_heads(model_)) {
    const auto unread = frozen ? workspace.allocate(sums.dtype, {w.q + w.kv}) : base::View{};
    for (std::size_t i = 0; i < d.size(); ++i)
      through(i, frozen ? unread.elements(i == 0 ? 0 : w.q, i == 0 ? w.q : w.kv) : weight_gradients[i]);
    return;
  }
  const auto width = model_.head_dim();
  const auto mine = workspace.allocate(sums.dtype, {w.lanes, 2 * width}),
             all = frozen ? base::View{} : of_all_lanes(step, mine);
  for (std::size_t i = 0; i < d.size(); ++i) through(i, mine.columns(static_cast<std::int64_t>(i) * width, width));
  if (frozen) return;
  gather_lanes(step, mine, all);
  for (std::size_t i = 0; i < d.size(); ++i)
    kernels::lane_sum(step.exec, all.columns(static_cast<std::int64_t>(i) * width, width), {}, 0, weight_gradients[i]);
}

}  // namespace trainyard::model
