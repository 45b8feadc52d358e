// The head: norm and transform, then logits, loss and their gradients chunk by chunk.
#include "libtrain/model/head_block.h"

#include "kernels/activation/activation.h"
#include "kernels/cast/cast.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/gemm/gemm.h"
#include "kernels/linear/linear.h"
#include "libtrain/model/activation_form.h"
#include "libtrain/model/shared_sum.h"
#include "libtrain/plan/blocks/head.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/widths.h"

#include <algorithm>

namespace trainyard::model {

namespace {

// The bias in the dtype of the logits: a copy in scratch of the caller's scope if its dtype is another one.
base::View wide_bias(Step& step, base::View bias) {
  if (!bias || !base::is_narrow(step.dtype)) return bias;
  const auto wide = step.exec.scratch().allocate(base::DType::f32, {bias.count()});
  kernels::cast(step.exec, bias, wide);
  return wide;
}

}  // namespace

// The leases of the head, and the views that make logits of rows.
struct HeadBlock::Leases {
  std::optional<params::Lease> own, tokens;
  base::View table, bias;
};

// The tensors of norm and transform in a forward pass. An evaluation pops them when it ends.
struct HeadBlock::Pushed {
  Pushed(const HeadBlock& head, const Step& step, Saved& saved)
      : saved_(saved), kept_(saved.size()), norm(SavedSet::push(saved, head.tensors(step, step.pass))),
        transform(SavedSet::push(saved, head.transform_tensors(step))) {
    if (step.pass == plan::Pass::train) kept_ = saved.size();
  }
  ~Pushed() {
    while (saved_.size() > kept_) saved_.pop();
  }
  Pushed(const Pushed&) = delete;
  Pushed& operator=(const Pushed&) = delete;

 private:
  Saved& saved_;
  std::size_t kept_;

 public:
  const SavedSet norm, transform;
};

// The buffers of the loss, and the work on a chunk. Tensor-parallel ranks have the logits of their own columns, and
// exchange the statistics of each token.
struct HeadBlock::Loss {
  Loss(Step& step, const plan::ModelConfig& model, const Leases& leases, std::int64_t n)
      : step_(step), table_(leases.table), widths_(model, step.collectives->ranks()), vocabulary_(model.vocabulary),
        softcap_(model.logit_softcap), smoothing_(step.pass == plan::Pass::train ? step.label_smoothing : 0),
        numbers_(widths_.partials * plan::loss_statistics(shape_of(step), step.pass)), n_(n),
        chunk_(plan::head_chunk_tokens(step.exec.device().kind)),
        losses_(step.exec.scratch().allocate(base::DType::f64, {n})),
        logits_(step.exec.scratch().allocate(accumulation(), {std::min(n, chunk_), widths_.vocabulary})),
        narrow_(step.pass == plan::Pass::train && base::is_narrow(step.dtype)
                    ? step.exec.scratch().allocate(step.dtype, {logits_.rows(), logits_.cols()})
                    : base::View{}),
        statistics_(step.collectives->ranks() == 1
                        ? base::View{}
                        : step.exec.scratch().allocate(accumulation(), {numbers_ * logits_.rows()})),
        of_all_(step.collectives->ranks() == 1
                    ? base::View{}
                    : step.exec.scratch().allocate(accumulation(), {step.collectives->ranks() * statistics_.count()})),
        bias_(wide_bias(step, leases.bias)), ones_(bias_ && step.pass == plan::Pass::train && !plan::has_adapter(model)
                                                       ? step.exec.scratch().allocate(step.dtype, {std::min(n, chunk_)})
                                                       : base::View{}) {
    if (ones_) kernels::fill(step.exec, ones_, 1);
  }

  std::int64_t rows(std::int64_t first) const { return std::min(chunk_, n_ - first); }
  std::int64_t step() const { return chunk_; }
  const plan::Widths& widths() const { return widths_; }
  // Adds the losses of a chunk, and returns the gradient of its logits in the working dtype; empty in evaluation.
  base::View chunk(std::int64_t first, base::View normed) const {
    const auto c = rows(first);
    const auto logits = logits_.row_range(0, c);
    const auto gradient = step_.pass == plan::Pass::evaluate ? base::View{}
                          : narrow_                          ? narrow_.row_range(0, c)
                                                             : logits;
    const auto targets = step_.micro.targets.elements(first, c), weights = step_.micro.weights.elements(first, c);
    const auto losses = losses_.elements(first, c);
    kernels::linear_forward(step_.exec, normed.row_range(first, c), table_, bias_, logits);
    if (step_.collectives->ranks() == 1) {
      kernels::cross_entropy_chunk(step_.exec, {.logits = logits,
                                                .targets = targets,
                                                .weights = weights,
                                                .vocabulary = vocabulary_,
                                                .lanes = widths_.lanes,
                                                .losses = losses,
                                                .dlogits = gradient,
                                                .loss_scale = step_.loss_scale,
                                                .softcap = softcap_,
                                                .label_smoothing = smoothing_});
      return gradient;
    }
    const auto column = step_.collectives->rank() * widths_.vocabulary;
    const auto mine = statistics_.elements(0, numbers_ * c),
               all = of_all_.elements(0, step_.collectives->ranks() * mine.count());
    kernels::cross_entropy_statistics(step_.exec, {.logits = logits,
                                                   .targets = targets,
                                                   .weights = weights,
                                                   .first_column = column,
                                                   .vocabulary = vocabulary_,
                                                   .lanes = widths_.lanes,
                                                   .statistics = mine,
                                                   .softcap = softcap_,
                                                   .label_smoothing = smoothing_});
    step_.collectives->gather(mine, all);
    kernels::cross_entropy_finish(step_.exec, {.logits = logits,
                                               .targets = targets,
                                               .weights = weights,
                                               .statistics = all,
                                               .first_column = column,
                                               .vocabulary = vocabulary_,
                                               .losses = losses,
                                               .dlogits = gradient,
                                               .loss_scale = step_.loss_scale,
                                               .softcap = softcap_,
                                               .label_smoothing = smoothing_});
    return gradient;
  }
  // Writes the sum over the rows of a chunk's gradient to d_bias; from the second chunk on it is added.
  void bias_gradient(std::int64_t first, base::View gradient, base::View d_bias) const {
    if (d_bias)
      kernels::gemm(step_.exec, {.a = ones_.elements(0, gradient.rows()),
                                 .b = gradient,
                                 .trans_a = kernels::Transpose::no,
                                 .trans_b = kernels::Transpose::no,
                                 .c = d_bias,
                                 .accumulate = first == 0 ? kernels::Accumulate::no : kernels::Accumulate::yes});
  }
  void close() const {
    if (n_ == 0) return;
    if (step_.loss_place) kernels::sum_losses_into(step_.exec, losses_, step_.loss_place);
    else step_.loss_sum += kernels::sum_losses(step_.exec, losses_);
    const auto each = step_.micro.sequence();
    if (step_.sequence_losses)
      for (std::int64_t s = 0; s < step_.micro.batch(); ++s)
        kernels::sum_losses_into(step_.exec, losses_.elements(s * each, each), step_.sequence_losses.elements(s, 1));
    step_.target_count += step_.micro.counted_targets();
  }

 private:
  base::DType accumulation() const { return shape_of(step_).accumulation(); }
  Step& step_;
  base::View table_;
  plan::Widths widths_;
  std::int64_t vocabulary_;
  double softcap_, smoothing_;
  std::int64_t numbers_;  // statistics of a token on this rank
  std::int64_t n_, chunk_;
  base::View losses_, logits_, narrow_, statistics_, of_all_, bias_, ones_;
};

HeadBlock::HeadBlock(const plan::ModelConfig& model, const std::vector<plan::FlatGroup>& flat_groups,
                     const std::vector<plan::Occurrence>& occurrences)
    : model_(model), dropout_("head.norm", model.dropout_final_norm) {
  if (!flat_groups.empty()) own_ = occurrences.front();
  if (model.tied) tied_ = occurrences.back();
  else table_ = plan::index_of(flat_groups.front(), "weight");
  if (plan::has_final_norm(model)) norm_.emplace(model, flat_groups.front(), "norm");
  if (!plan::has_masked_head(model)) return;
  transform_norm_.emplace(model, flat_groups.front(), "transform_norm");
  transform_ = plan::index_of(flat_groups.front(), "transform.weight");
  transform_bias_ = plan::find_index(flat_groups.front(), "transform.bias");
  bias_ = plan::find_index(flat_groups.front(), "bias");
}

HeadBlock::Leases HeadBlock::lease(Step& step) const {
  Leases l;
  if (own_) l.own.emplace(step.store->lease(*own_));
  if (tied_) l.tokens.emplace(step.store->lease(*tied_));
  l.table = tied_ ? l.tokens->weight(0) : l.own->weight(table_);
  if (bias_ >= 0) l.bias = l.own->weight(bias_);
  return l;
}

std::vector<plan::SavedTensor> HeadBlock::transform_tensors(const Step& step) const {
  return plan::transform_tensors(model_, shape_of(step));
}

std::vector<plan::SavedTensor> HeadBlock::tensors(const Step& step, plan::Pass pass) const {
  return plan::head_tensors(model_, shape_of(step), pass);
}

// The input of the table: the hidden states, normed and transformed where the model says so.
base::View HeadBlock::rows(Step& step, const std::optional<params::Lease>& own, base::View stream,
                           const Pushed& t) const {
  const auto normed = t.norm.find("normed");
  if (norm_) norm_->forward(step, *own, stream, t.norm);
  else if (normed) kernels::copy(step.exec, stream, normed);
  const auto x = normed ? normed : stream;
  finish(step, x);
  if (!transform_norm_) return x;
  kernels::linear_activation_forward(step.exec,
                                     {.form = activation_form(model_),
                                      .x = x,
                                      .weight = own->weight(transform_),
                                      .bias = transform_bias_ < 0 ? base::View{} : own->weight(transform_bias_),
                                      .pre = t.transform["inner"],
                                      .y = t.transform["input"]});
  transform_norm_->make_again(step, *own, t.transform);
  return t.transform["normed"];
}

void HeadBlock::finish(Step& step, base::View rows) const {
  if (dropout_.active(step)) kernels::dropout_forward(step.exec, dropout_.of(step), rows, rows);
  if (plan::scales_head(model_)) kernels::scale(step.exec, rows, model_.head_scale);
}

void HeadBlock::finish_backward(Step& step, base::View gradient) const {
  if (plan::scales_head(model_)) kernels::scale(step.exec, gradient, model_.head_scale);
  if (dropout_.active(step)) kernels::dropout_backward(step.exec, dropout_.of(step), gradient, gradient);
}

void HeadBlock::forward(Step& step, Flow& flow, Saved& saved) {
  if (step.pass == plan::Pass::evaluate) return evaluate(step, flow, saved);
  std::optional<params::Lease> own;
  if (norm_ || transform_norm_) own.emplace(step.store->lease(*own_));
  const Pushed t(*this, step, saved);
  rows(step, own, flow.main, t);
}

void HeadBlock::evaluate(Step& step, const Flow& flow, Saved& saved) const {
  const auto leases = lease(step);
  const Pushed t(*this, step, saved);
  const auto mine = rows(step, leases.own, flow.main, t);
  tensor::ArenaScope scope(step.exec.scratch());
  const auto normed = all_rows(step, mine);
  const Loss loss(step, model_, leases, normed.rows());
  for (std::int64_t first = 0; first < normed.rows(); first += loss.step()) loss.chunk(first, normed);
  loss.close();
}

void HeadBlock::backward(Step& step, Flow& flow, Saved& saved) {
  const auto leases = lease(step);
  const auto u = SavedSet::pop(saved, transform_tensors(step)),
             t = SavedSet::pop(saved, tensors(step, plan::Pass::train));
  const auto open = [&](plan::Occurrence occurrence) {
    return plan::has_adapter(model_) ? params::Grads() : step.store->grads(occurrence);
  };
  auto table_grads = open(tied_ ? *tied_ : *own_);
  std::optional<params::Grads> apart;  // for the head's own flat group, if the table is in another one
  if (tied_ && own_) apart.emplace(open(*own_));
  auto& grads = apart ? *apart : table_grads;
  backward_loss(step, flow.main, transform_norm_ ? u["normed"] : t["normed"], leases,
                table_grads.gradient(tied_ ? 0 : table_), bias_ < 0 ? base::View{} : grads.gradient(bias_));
  if (tied_) table_grads.commit();
  if (transform_norm_) backward_transform(step, *leases.own, grads, t["normed"], u, flow.main);
  finish_backward(step, flow.main);
  if (norm_) norm_->backward(step, *leases.own, norm_->gradients(grads), flow.main, t, flow.main);
  if (own_) grads.commit();
}

// Before: d_stream is the gradient of the transform's output. After: it is the gradient of its input. The transform's
// weights are whole on every rank. So with sequence parallelism each rank computes their gradients from all rows.
void HeadBlock::backward_transform(Step& step, const params::Lease& own, const params::Grads& grads, base::View x,
                                   const SavedSet& t, base::View d_stream) const {
  transform_norm_->backward(step, own, transform_norm_->gradients(grads), d_stream, t, d_stream);
  auto& workspace = step.exec.scratch();
  tensor::ArenaScope scope(workspace);
  const auto d_inner = workspace.allocate(step.dtype, {d_stream.rows(), d_stream.cols()});
  kernels::activation_backward(step.exec, activation_form(model_), t["inner"], d_stream, d_inner);
  if (grads.wanted()) {
    tensor::ArenaScope gathered(workspace);
    const auto d_all = all_rows(step, d_inner), x_all = all_rows(step, x);
    kernels::linear_backward_weight(step.exec, d_all, x_all, grads.gradient(transform_),
                                    transform_bias_ < 0 ? base::View{} : grads.gradient(transform_bias_));
  }
  kernels::linear_backward_input(step.exec, d_inner, own.weight(transform_), d_stream);
}

// d_normed = dlogits W, d_table = sum over chunks of dlogits^T normed.
void HeadBlock::backward_loss(Step& step, base::View d_normed, base::View mine, const Leases& leases,
                              base::View d_table, base::View d_bias) {
  tensor::ArenaScope scope(step.exec.scratch());
  const auto normed = all_rows(step, mine);
  const auto sums = partial_place(step, plan::Widths(model_, step.collectives->ranks()), normed.rows(), d_normed);
  const Loss loss(step, model_, leases, normed.rows());
  std::int64_t first = 0;
  do {  // once without rows, too: the gradients of the weights are then zero
    const auto c = loss.rows(first);
    const auto gradient = loss.chunk(first, normed);
    const kernels::LinearPart part{gradient, leases.table};
    partial_products(step, {&part, 1}, loss.widths(), sums, normed.rows(), first);
    if (d_table)
      kernels::gemm(step.exec, {.a = gradient,
                                .b = normed.row_range(first, c),
                                .trans_a = kernels::Transpose::yes,
                                .trans_b = kernels::Transpose::no,
                                .c = d_table,
                                .accumulate = first == 0 ? kernels::Accumulate::no : kernels::Accumulate::yes});
    loss.bias_gradient(first, gradient, d_bias);
    first += loss.step();
  } while (first < normed.rows());
  if (step.collectives->ranks() > 1) step.collectives->add_up(sums, {}, d_normed);
  loss.close();
}

void HeadBlock::logits(Step& step, const Flow& flow, Saved& saved, const LogitRows& wanted) {
  TRAINYARD_ASSERT(step.collectives->ranks() == 1, "whole logits on {} ranks that share the table",
                   step.collectives->ranks());
  const auto leases = lease(step);
  const Pushed t(*this, step, saved);
  const auto normed = rows(step, leases.own, flow.main, t);
  tensor::ArenaScope scope(step.exec.scratch());
  const auto bias = wide_bias(step, leases.bias);
  const auto all = static_cast<std::int64_t>(wanted.rows.size());
  for (std::int64_t first = 0; first < all; first += wanted.place.rows()) {
    const auto count = std::min(wanted.place.rows(), all - first);
    for (std::int64_t i = 0; i < count;) {  // neighbours are one product
      const auto* rows = wanted.rows.data() + first;
      auto end = i + 1;
      while (end < count && rows[end] == rows[end - 1] + 1) ++end;
      kernels::linear_forward(step.exec, normed.row_range(rows[i], end - i), leases.table, bias,
                              wanted.place.row_range(i, end - i));
      i = end;
    }
    if (model_.logit_softcap > 0)
      kernels::cap_logits(step.exec, wanted.place.row_range(0, count), model_.logit_softcap);
    if (wanted.seen) wanted.seen(first, count);
  }
}

}  // namespace trainyard::model
