// The head: norm, then logits, loss and their gradients chunk by chunk.
#include "libtrain/model/head_block.h"

#include "kernels/cast/cast.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/gemm/gemm.h"
#include "kernels/linear/linear.h"
#include "libtrain/model/shared_sum.h"
#include "libtrain/plan/blocks/head.h"
#include "libtrain/plan/widths.h"

#include <algorithm>

namespace trainyard::model {

namespace {

base::View slice(const base::View& v, std::int64_t first, std::int64_t n) {
  return base::View(static_cast<char*>(v.data) + first * base::size_of(v.dtype), v.dtype, {n}, v.device);
}

}  // namespace

// The buffers of the loss, and what a chunk does with them. Ranks that share the table have the logits of their own
// columns; what they tell one another is the statistics of each token.
struct HeadBlock::Loss {
  Loss(Step& step, const plan::ModelConfig& model, std::int64_t n)
      : step_(step), widths_(model, step.edges->ranks()), vocabulary_(model.vocabulary), n_(n),
        chunk_(plan::head_chunk_tokens(step.exec.device().kind)),
        losses_(step.exec.scratch().allocate(base::DType::f64, {n})),
        logits_(step.exec.scratch().allocate(accumulation(), {std::min(n, chunk_), widths_.vocabulary})),
        narrow_(step.pass == plan::Pass::train && step.dtype == base::DType::bf16
                    ? step.exec.scratch().allocate(step.dtype, {logits_.rows(), logits_.cols()})
                    : base::View{}),
        statistics_(step.edges->ranks() == 1
                        ? base::View{}
                        : step.exec.scratch().allocate(accumulation(), {widths_.partials * 3 * logits_.rows()})),
        of_all_(step.edges->ranks() == 1
                    ? base::View{}
                    : step.exec.scratch().allocate(accumulation(), {step.edges->ranks() * statistics_.count()})) {}

  std::int64_t rows(std::int64_t first) const { return std::min(chunk_, n_ - first); }
  std::int64_t step() const { return chunk_; }
  const plan::Widths& widths() const { return widths_; }
  // The gradient of the chunk's logits, in the working dtype; empty in evaluation.
  base::View chunk(std::int64_t first, base::View table, base::View normed) const {
    const auto c = rows(first);
    const auto logits = logits_.row_range(0, c);
    const auto gradient = step_.pass == plan::Pass::evaluate ? base::View{}
                          : narrow_                          ? narrow_.row_range(0, c)
                                                             : logits;
    const auto targets = slice(step_.micro.targets, first, c), weights = slice(step_.micro.weights, first, c),
               losses = slice(losses_, first, c);
    kernels::gemm(step_.exec, normed.row_range(first, c), kernels::Transpose::no, table, kernels::Transpose::yes,
                  logits);
    if (step_.edges->ranks() == 1) {
      kernels::cross_entropy_chunk(step_.exec, logits, gradient, vocabulary_, targets, weights, losses, widths_.lanes);
      return gradient;
    }
    const auto column = step_.edges->rank() * widths_.vocabulary;
    const auto mine = slice(statistics_, 0, widths_.partials * 3 * c),
               all = slice(of_all_, 0, step_.edges->ranks() * mine.count());
    kernels::cross_entropy_statistics(step_.exec, logits, column, vocabulary_, widths_.lanes, targets, weights, mine);
    step_.edges->gather(mine, all);
    kernels::cross_entropy_finish(step_.exec, logits, column, vocabulary_, all, targets, weights, losses, gradient);
    return gradient;
  }
  void close() const {
    if (step_.loss_place) kernels::sum_losses_into(step_.exec, losses_, step_.loss_place);
    else step_.loss_sum += kernels::sum_losses(step_.exec, losses_);
    step_.target_count += step_.micro.counted_targets();
  }

 private:
  base::DType accumulation() const { return shape_of(step_).accumulation(); }
  Step& step_;
  plan::Widths widths_;
  std::int64_t vocabulary_, n_, chunk_;
  base::View losses_, logits_, narrow_, statistics_, of_all_;
};

// The leases of the head, and the table among them.
struct HeadBlock::Leases {
  std::optional<params::Lease> own, tokens;
  base::View table;
};

HeadBlock::HeadBlock(const plan::ModelConfig& model, const std::vector<plan::Unit>& units,
                     const std::vector<plan::Use>& uses)
    : model_(model) {
  if (!units.empty()) own_ = uses.front();
  if (model.tied) tied_ = uses.back();
  else table_ = plan::index_of(units.front(), "weight");
  if (model.norm_position == plan::NormPosition::pre) norm_.emplace(model, units.front(), "norm");
}

HeadBlock::Leases HeadBlock::lease(Step& step) const {
  Leases l;
  if (own_) l.own.emplace(step.store->lease(*own_));
  if (tied_) l.tokens.emplace(step.store->lease(*tied_));
  l.table = tied_ ? l.tokens->weight(0) : l.own->weight(table_);
  return l;
}

std::vector<plan::SavedTensor> HeadBlock::tensors(const Step& step, plan::Pass pass) const {
  return plan::head_tensors(model_, shape_of(step), pass);
}

void HeadBlock::forward(Step& step, Flow& flow, Saved& saved) {
  if (step.pass == plan::Pass::evaluate) return evaluate(step, flow, saved);
  std::optional<params::Lease> own;
  if (norm_) own.emplace(step.store->lease(*own_));
  const PassTensors t(tensors(step, step.pass), step, saved);
  if (norm_) norm_->forward(step, *own, flow.main, *t);
  else kernels::copy(step.exec, flow.main, (*t)["normed"]);
}

void HeadBlock::evaluate(Step& step, const Flow& flow, Saved& saved) const {
  const auto leases = lease(step);
  const PassTensors t(tensors(step, step.pass), step, saved);
  if (norm_) norm_->forward(step, *leases.own, flow.main, *t);
  tensor::ArenaScope scope(step.exec.scratch());
  const auto normed = all_rows(step, norm_ ? (*t)["normed"] : flow.main);
  const Loss loss(step, model_, normed.rows());
  for (std::int64_t first = 0; first < normed.rows(); first += loss.step()) loss.chunk(first, leases.table, normed);
  loss.close();
}

void HeadBlock::backward(Step& step, Flow& flow, Saved& saved) {
  const auto leases = lease(step);
  const auto t = SavedSet::pop(saved, tensors(step, plan::Pass::train));
  auto table_grads = step.store->grads(tied_ ? *tied_ : *own_);
  backward_loss(step, flow.main, t["normed"], leases.table, table_grads.gradient(tied_ ? 0 : table_));
  if (!tied_ && norm_)  // the norm lies in the same unit
    norm_->backward(step, *leases.own, norm_->gradients(table_grads), flow.main, t, flow.main);
  table_grads.commit();
  if (!tied_ || !norm_) return;
  auto grads = step.store->grads(*own_);
  norm_->backward(step, *leases.own, norm_->gradients(grads), flow.main, t, flow.main);
  grads.commit();
}

// d_normed = dlogits W, d_table = sum over chunks of dlogits^T normed.
void HeadBlock::backward_loss(Step& step, base::View d_normed, base::View mine, base::View table, base::View d_table) {
  tensor::ArenaScope scope(step.exec.scratch());
  const auto normed = all_rows(step, mine);
  const auto sums = partial_place(step, plan::Widths(model_, step.edges->ranks()), normed.rows(), d_normed);
  const Loss loss(step, model_, normed.rows());
  for (std::int64_t first = 0; first < normed.rows(); first += loss.step()) {
    const auto c = loss.rows(first);
    const auto gradient = loss.chunk(first, table, normed);
    const kernels::LinearPart part{gradient, table};
    partial_products(step, {&part, 1}, loss.widths(), sums, normed.rows(), first);
    kernels::gemm(step.exec, gradient, kernels::Transpose::yes, normed.row_range(first, c), kernels::Transpose::no,
                  d_table, first == 0 ? kernels::Accumulate::no : kernels::Accumulate::yes);
  }
  if (step.edges->ranks() > 1) step.edges->add_up(sums, {}, d_normed);
  loss.close();
}

void HeadBlock::logits(Step& step, const Flow& flow, Saved& saved, std::int64_t at, base::View out) {
  TRAINYARD_ASSERT(step.edges->ranks() == 1, "whole logits on {} ranks that share the table", step.edges->ranks());
  const auto leases = lease(step);
  const PassTensors t(tensors(step, step.pass), step, saved);
  if (norm_) norm_->forward(step, *leases.own, flow.main, *t);
  const auto normed = norm_ ? (*t)["normed"] : flow.main;
  for (std::int64_t s = 0; s < step.micro.batch(); ++s)
    kernels::gemm(step.exec, normed.row_range(s * step.micro.sequence() + at, 1), kernels::Transpose::no, leases.table,
                  kernels::Transpose::yes, out.row_range(s, 1));
}

}  // namespace trainyard::model
