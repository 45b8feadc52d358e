// The experts of a layer, forward and backward.
#include "libtrain/model/experts_branch.h"

#include "kernels/cast/cast.h"
#include "kernels/expert_mix/expert_mix.h"
#include "kernels/expert_rows/expert_rows.h"
#include "kernels/gate_record/gate_record.h"
#include "kernels/gemm/gemm.h"
#include "libtrain/base/random.h"
#include "libtrain/plan/blocks/expert_registry.h"
#include "libtrain/plan/blocks/experts.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/layer_model.h"

namespace trainyard::model {

namespace {

// A weight in the accumulation dtype: a copy in scratch of the caller's scope if the working dtype is another one.
base::View widened(Step& step, base::View weight) {
  const auto wide = shape_of(step).accumulation();
  if (weight.dtype == wide) return weight;
  const auto copy = weight.dims == 1 ? step.exec.scratch().allocate(wide, {weight.cols()})
                                     : step.exec.scratch().allocate(wide, {weight.rows(), weight.cols()});
  kernels::cast(step.exec, weight, copy);
  return copy;
}

std::unique_ptr<Expert> experts_of(const BranchSpec& spec) {
  plan::Declaration one(spec.model, "expert", plan::Part::layers);
  plan::expert_kind(spec.model.experts.network).declare(one);
  const auto flat_group = one.take();
  return make_expert(spec.model.experts.network, {spec.model, flat_group});
}

std::optional<FeedForwardBranch> feed_forward_beside(const BranchSpec& spec) {
  const auto kind = plan::beside_experts(spec.model);
  if (!kind) return {};
  const auto model = plan::model_beside_experts(spec.model);
  return FeedForwardBranch({model, spec.flat_group, spec.layer}, kind->prefix());
}

// The micro-batch's number of target tokens, as f64 [1] where the step computes. If it is not there yet, it is written
// to `place`.
const double* targets_of(const Step& step, base::View place) {
  if (step.micro.counted_there) return step.micro.counted_there.ptr<double>();
  TRAINYARD_ASSERT(!step.exec.on_gpu(), "a micro-batch on a device without its number of counted targets");
  *place.ptr<double>() = static_cast<double>(step.micro.counted_targets());
  return place.ptr<double>();
}

}  // namespace

ExpertsBranch::ExpertsBranch(const BranchSpec& spec)
    : model_(spec.model), share_(spec.experts), count_(plan::expert_count(spec.model)), own_(spec.own_occurrence),
      noise_site_(base::site_hash("experts", spec.flat_group.name + ".noise")),
      overflow_site_(base::site_hash("experts", spec.flat_group.name + ".overflow")),
      gate_weight_(plan::index_of(spec.flat_group, "gate.weight")),
      gate_bias_(plan::find_index(spec.flat_group, "gate.bias")),
      mix_weight_(plan::find_index(spec.flat_group, "mix.weight")), experts_(experts_of(spec)),
      beside_(feed_forward_beside(spec)), record_(plan::expert_layers(spec.model, spec.layer)),
      training_(make_dispatch(spec.model, spec.experts, plan::Pass::train, record_)),
      evaluation_(make_dispatch(spec.model, spec.experts, plan::Pass::evaluate, record_)) {}

kernels::Gate ExpertsBranch::gate_of(const Step& step) const {
  const auto& e = model_.experts;
  kernels::Gate gate;
  gate.experts = count_, gate.top_k = e.top_k;
  gate.capacity = plan::expert_capacity(e, count_, step.micro.batch() * step.micro.sequence(), step.pass);
  gate.slot_rows = plan::expert_slot_rows(model_, shape_of(step), step.pass);
  gate.overflow = e.overflow, gate.score = e.score;
  gate.placement = e.placement, gate.balance_over = e.balance_over, gate.weights = e.weights;
  gate.scale = e.scale, gate.groups = e.groups, gate.top_groups = e.top_groups;
  if (step.pass == plan::Pass::train && e.noise == plan::GateNoise::gumbel) gate.noise = e.noise;
  gate.seed = step.seed, gate.noise_site = noise_site_, gate.overflow_site = overflow_site_;
  gate.samples = step.micro.sample_keys(), gate.sequence = step.micro.sequence();
  return gate;
}

kernels::GateChoice ExpertsBranch::choice_of(const SavedSet& t) {
  return {t["choices"], t["rows"], t["weights"], t["sources"], t["groups"], t["loads"], t["gate_losses"]};
}

// The views of one parameter in all experts lie one behind the other, equally far apart.
template <class Borrowed>
ExpertParameters ExpertsBranch::parameters_of(const Borrowed& borrowed, const ExpertChunk& chunk) const {
  return [&borrowed, &chunk, held = plan::held_experts(model_, share_)](int parameter) -> kernels::GroupedView {
    if (parameter < 0) return {};
    const auto first = static_cast<int>(parameter * held + chunk.first_expert);
    const auto view = borrowed(first);
    if (chunk.experts == 1) return {view, view.count(), 1};
    const auto apart = static_cast<char*>(borrowed(first + 1).data) - static_cast<char*>(view.data);
    return {view, apart / base::size_of(view.dtype), chunk.experts};
  };
}

SavedSet ExpertsBranch::tensors_of(const Step& step, const SavedSet& t, const ExpertChunk& chunk) const {
  const auto shape = shape_of(step);
  const auto of = plan::expert_rows_of(model_, shape, step.pass);
  return t.row_range(plan::expert_kind(model_.experts.network).tensors(model_, shape, of), chunk.first_row, chunk.rows);
}

// What the gate reads: its input in the accumulation dtype, with noise.
base::View ExpertsBranch::gate_input(Step& step, base::View normed) const {
  const auto shape = shape_of(step);
  if (!plan::gate_widens(model_, shape, step.pass)) return normed;
  const auto wide = step.exec.scratch().allocate(shape.accumulation(), {normed.rows(), normed.cols()});
  kernels::cast(step.exec, normed, wide);
  if (step.pass == plan::Pass::train && plan::jitters_gate(model_))
    kernels::gate_jitter(step.exec, gate_of(step), wide, wide);
  return wide;
}

// A gate without tokens has no losses and records nothing. Its groups have no rows, and its experts no loads.
void ExpertsBranch::choose(Step& step, const params::Lease& lease, const SavedSet& t, base::View normed) const {
  if (step.micro.empty()) {
    tensor::clear(step.exec, t["loads"]);
    return tensor::clear(step.exec, t["groups"]);
  }
  tensor::ArenaScope scope(step.exec.scratch());
  const auto input = gate_input(step, normed);
  kernels::gemm(step.exec, {.a = input,
                            .b = widened(step, lease.weight(gate_weight_)),
                            .trans_a = kernels::Transpose::no,
                            .trans_b = kernels::Transpose::yes,
                            .c = t["logits"]});
  base::View bias;
  if (gate_bias_ >= 0) bias = widened(step, lease.weight(gate_bias_));
  kernels::gate_forward(step.exec, gate_of(step), t["logits"], bias, choice_of(t));
  if (!step.gate_records || step.output == Output::unread) return;
  const auto targets = step.exec.scratch().allocate(base::DType::f64, {1});
  kernels::gate_record(step.exec, t["groups"], t["loads"], t["gate_losses"], targets_of(step, targets),
                       step.gate_records.row_range(record_, 1));
}

void ExpertsBranch::dispatch(Step& step, const SavedSet& t, base::View normed, base::View rows) const {
  kernels::expert_dispatch(step.exec, normed, own_sources(step, t), model_.experts.top_k, rows);
}

// Computes rows that have arrived, for a dispatch.
class ExpertsBranch::Work : public ExpertWork {
 public:
  Work(const ExpertsBranch& branch, Step& step, const SavedSet& tensors) : b_(branch), step_(step), t_(tensors) {}

  void lease() override {
    if (!own_) own_.emplace(step_.store->lease(b_.own_));
  }
  void release() override { own_.reset(); }

  void run(const ExpertChunk& c, base::View made) override {
    const auto weights = [this](int index) { return own_->weight(index); };
    b_.experts_->forward(step_, {groups(c.first_group, c.groups)}, b_.parameters_of(weights, c), rows(c),
                         b_.tensors_of(step_, t_, c), made);
  }
  void input_gradients(const ExpertChunk& c, base::View dy, base::View dx) override {
    const auto weights = [this](int index) { return own_->weight(index); };
    b_.experts_->input_gradients(step_, {groups(c.first_group, c.groups)}, b_.parameters_of(weights, c), dy, rows(c),
                                 b_.tensors_of(step_, t_, c), dx);
  }
  bool begin(int source) override {
    if (plan::has_adapter(b_.model_)) grads_.emplace();  // frozen
    else grads_.emplace(step_.store->grads(b_.own_, source));
    return grads_->wanted();
  }
  // The groups of a chunk are ordered by source.
  void weight_gradients(const ExpertChunk& c, base::View dy, int source) override {
    const auto gradients = [this](int index) { return grads_->gradient(index); };
    tensor::ArenaScope scratch(step_.exec.scratch());
    b_.experts_->weight_gradients(step_, {groups(c.first_group + source * c.experts, c.experts)},
                                  b_.parameters_of(gradients, c), dy, rows(c), b_.tensors_of(step_, t_, c));
  }
  void end() override { grads_->commit(), grads_.reset(); }

 private:
  base::View groups(std::int64_t first, std::int64_t count) const {
    return worked_groups(b_.share_, t_).row_range(first, count);
  }
  base::View rows(const ExpertChunk& c) const { return t_["dispatched"].row_range(c.first_row, c.rows); }

  const ExpertsBranch& b_;
  Step& step_;
  const SavedSet& t_;
  std::optional<params::Lease> own_;
  std::optional<params::Grads> grads_;
};

void ExpertsBranch::forward_through_experts(Step& step, const SavedSet& t, base::View sent) const {
  Work work(*this, step, t);
  dispatch_in(step.pass).forward(step, t, sent, work);
}

void ExpertsBranch::backward_through_experts(Step& step, const SavedSet& t) const {
  Work work(*this, step, t);
  dispatch_in(step.pass).backward(step, t, work);
}

// Gathers the results of the experts of all tensor-parallel ranks. No token reads them with an empty micro-batch.
void ExpertsBranch::gather_results(Step& step, const SavedSet& t) {
  if (step.collectives->ranks() > 1 && !step.micro.empty())
    step.collectives->gather(own_results(step, t), t["results"]);
}

void ExpertsBranch::make_again(Step& step, const SavedSet& t) const {
  if (!share_.is_partial()) dispatch(step, t, t["normed"], t["dispatched"]);
  experts_->make_again(step, t);
  const auto beside = plan::beside_experts(model_);
  if (beside && !plan::only(beside->tensors(plan::model_beside_experts(model_), shape_of(step), plan::Pass::train),
                            plan::Stays::unless_selective)
                     .empty())
    beside_->make_again(step, t);
}

void ExpertsBranch::forward(Step& step, const params::Lease& lease, const SavedSet& t, base::View output) const {
  auto& workspace = step.exec.scratch();
  {
    tensor::ArenaScope scope(workspace);
    const auto& way = dispatch_in(step.pass);
    const auto sent = way.place_of_rows(step, t);
    {
      tensor::ArenaScope rows(workspace);
      const auto normed = all_rows(step, t["normed"]);
      choose(step, lease, t, normed);
      if (way.takes_rows() && !step.micro.empty()) dispatch(step, t, normed, sent);
    }
    forward_through_experts(step, t, sent);
  }
  gather_results(step, t);
  const bool mixes = model_.experts.residual;
  const auto first = step.collectives->first_row(t["rows"].rows()), own = output.rows();  // this rank's rows
  kernels::expert_combine(step.exec, t["results"], t["rows"].row_range(first, own), t["weights"].row_range(first, own),
                          mixes ? t["mixed"] : output);
  if (!beside_) return;
  tensor::ArenaScope scope(workspace);
  const auto beside = mixes ? t["beside"] : workspace.allocate(step.dtype, {output.rows(), output.cols()});
  beside_->forward(step, lease, t, beside);
  if (!mixes) return kernels::add(step.exec, output, beside);
  kernels::gemm(step.exec, {.a = t["normed"],
                            .b = lease.weight(mix_weight_),
                            .trans_a = kernels::Transpose::no,
                            .trans_b = kernels::Transpose::yes,
                            .c = t["mix"]});
  kernels::expert_mix(step.exec, t["mix"], t["mixed"], beside, output);
}

void ExpertsBranch::backward(Step& step, const params::Lease& lease, const params::Grads& grads,
                             const OutputGradient& gradient, const SavedSet& t, base::View d_normed) const {
  auto& workspace = step.exec.scratch();
  const auto& collectives = *step.collectives;
  const auto shape = shape_of(step);
  const auto n = t["rows"].rows(), k = model_.experts.top_k, first = collectives.first_row(n), own = d_normed.rows();
  const bool mixes = model_.experts.residual;
  // Room for the gradient of all rows: sequence parallelism gathers them there, and dropout needs a copy.
  const auto place = collectives.sequence_parallel() || gradient.dropped(step)
                         ? workspace.allocate(step.dtype, {n, model_.hidden})
                         : base::View{};
  const auto d_own = gradient.in(step, place ? place.row_range(first, own) : base::View{});
  auto d_beside = base::View{};
  {
    tensor::ArenaScope scope(workspace);
    base::View d_mix;
    if (mixes) {
      d_mix = workspace.allocate(shape.accumulation(), {n, 2});
      const auto d_own_mix = d_mix.row_range(first, own);
      kernels::expert_mix_backward(step.exec, {.logits = t["mix"],
                                               .a = t["mixed"],
                                               .b = t["beside"],
                                               .dout = d_own,
                                               .d_logits = d_own_mix,
                                               .da = t["mixed"],
                                               .db = t["beside"]});
      if (collectives.sequence_parallel()) collectives.gather(d_own_mix, d_mix);
    }
    const auto d_output = collectives.all_rows(mixes ? t["mixed"] : d_own, place);
    d_beside = d_output;
    const auto d_weights = workspace.allocate(shape.accumulation(), {n, k}),
               d_logits = workspace.allocate(shape.accumulation(), {n, count_}),
               targets = workspace.allocate(base::DType::f64, {1});
    const auto results = t["results"];  // overwritten by its gradient, then by the gradient of the experts' input
    if (!step.micro.empty()) {
      kernels::expert_combine_backward(step.exec, {.dout = d_output,
                                                   .y = results,
                                                   .rows = t["rows"],
                                                   .sources = t["sources"],
                                                   .weights = t["weights"],
                                                   .dy = results,
                                                   .d_weights = d_weights});
      kernels::gate_backward(step.exec, {.gate = gate_of(step),
                                         .logits = t["logits"],
                                         .choice = choice_of(t),
                                         .d_weights = d_weights,
                                         .scale = {.balance = model_.experts.balance_loss * step.loss_scale,
                                                   .z = model_.experts.z_loss * step.loss_scale,
                                                   .targets = targets_of(step, targets)},
                                         .d_logits = d_logits});
    }
    backward_through_experts(step, t);
    gather_results(step, t);
    gate_backward(step, lease, grads, t, {.d_logits = d_logits, .d_mix = d_mix, .d_normed = d_normed});
  }
  if (!beside_) return;
  if (mixes) d_beside = collectives.all_rows(t["beside"], place);
  tensor::ArenaScope scope(workspace);
  const auto more = workspace.allocate(step.dtype, {own, model_.hidden});
  beside_->backward(step, lease, grads, d_beside, t, more);
  kernels::add(step.exec, d_normed, more);
}

// Gradients of the weights of gate and mix, and the gradient of the branch's input through gate, mix and experts. Only
// the gate's input has noise. A frozen gate has no weight gradients.
void ExpertsBranch::gate_backward(Step& step, const params::Lease& lease, const params::Grads& grads, const SavedSet& t,
                                  const GateGradients& of) const {
  using kernels::Transpose;
  tensor::ArenaScope scope(step.exec.scratch());
  const auto d_input = step.exec.scratch().allocate(of.d_logits.dtype, {of.d_logits.rows(), of.d_normed.cols()});
  const bool noisy = plan::jitters_gate(model_), frozen = plan::has_adapter(model_);
  base::View normed, input;
  const auto weight_gradient = [&](base::View d_gate, int weight) {
    kernels::gemm(
        step.exec,
        {.a = d_gate, .b = input, .trans_a = Transpose::yes, .trans_b = Transpose::no, .c = grads.gradient(weight)});
  };
  if (!frozen) {
    normed = all_rows(step, t["normed"]);
    input = gate_input(step, normed);
    weight_gradient(of.d_logits, gate_weight_);
  }
  kernels::gemm(step.exec, {.a = of.d_logits,
                            .b = widened(step, lease.weight(gate_weight_)),
                            .trans_a = Transpose::no,
                            .trans_b = Transpose::no,
                            .c = d_input});
  if (noisy) kernels::gate_jitter(step.exec, gate_of(step), d_input, d_input);
  if (of.d_mix) {
    if (noisy && !frozen) kernels::cast(step.exec, normed, input);
    if (!frozen) weight_gradient(of.d_mix, mix_weight_);
    kernels::gemm(step.exec, {.a = of.d_mix,
                              .b = widened(step, lease.weight(mix_weight_)),
                              .trans_a = Transpose::no,
                              .trans_b = Transpose::no,
                              .c = d_input,
                              .accumulate = kernels::Accumulate::yes});
  }
  if (gate_bias_ >= 0 && !frozen) kernels::gate_loads(step.exec, t["loads"], grads.gradient(gate_bias_));
  const auto first = step.collectives->first_row(d_input.rows()), own = of.d_normed.rows();
  kernels::expert_dispatch_backward(step.exec, t["results"], t["rows"].row_range(first, own),
                                    d_input.row_range(first, own), of.d_normed);
}

}  // namespace trainyard::model
