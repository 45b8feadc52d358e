// The step: the actions of the schedule, the norm, the update.
#include "libtrain/engine/trainer.h"

#include "kernels/finite/finite.h"
#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/trace_kinds.h"
#include "libtrain/engine/agreement.h"
#include "libtrain/engine/loss_fold.h"
#include "libtrain/plan/memory.h"
#include "libtrain/tensor/gpu.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace trainyard::engine {

namespace {

params::GradientFold::Position position_of(const plan::Action& action, const plan::BatchPlan& batch) {
  using Place = params::GradientFold::Position::Place;
  const auto at = action.place % batch.fold;
  if (batch.fold == 1) return {action.round, Place::only};
  return {action.round, at == 0 ? Place::first : at == batch.fold - 1 ? Place::last : Place::middle};
}

}  // namespace

Trainer::Trainer(const plan::Plan& plan, const StepSettings& settings, World& world, Batches& batches)
    : plan_(plan), settings_(settings), world_(world), batches_(batches), set_(plan.model, plan.topology),
      memory_(plan.memory.categories, settings.device),
      compute_(compute_exec(settings.device, memory_[tensor::Category::workspace], plan.threads)),
      decoder_(plan.model, plan.recompute), program_(plan::actions(plan, world.rank)),
      forward_accesses_(plan::forward_accesses(plan.model)), backward_accesses_(plan::backward_accesses(plan.model)),
      step_leases_(plan::step_leases(plan.model, program_)),
      evaluation_leases_(plan::leases_of(plan::evaluation_accesses(plan.model))) {
  using tensor::Category;
  const int slots = plan_.slots();
  TRAINYARD_ASSERT(batches.in_flight() >= slots, "batches for {} micro-batches in flight, and the plan has {}",
                   batches.in_flight(), slots);
  for (int i = 0; i < slots; ++i)
    slots_.push_back(
        std::make_unique<Slot>(memory_[Category::activations],
                               plan::activation_bytes(plan_.model, plan_.micro(), plan::Pass::train, plan_.recompute)));
  context_ = std::unique_ptr<params::StoreContext>(new params::StoreContext{
      set_, plan_.states(), plan_.reduction, world_, *compute_, communication(), memory_[Category::parameters],
      memory_[Category::gathered_units], memory_[Category::gradients], memory_[Category::unit_gradients],
      memory_[Category::optimizer], memory_[Category::communication_staging]});
  store_ = std::make_unique<params::ZeroStore>(*context_);
  edges_ = model::Edges(*context_, plan_.model, plan_.micro());
  batches_.work_on(*compute_);
  results_.emplace(*context_, world_.results ? *world_.results : *world_.control, settings_.clip);
}

// Communication that was issued works on the arenas until it is done.
Trainer::~Trainer() { drain(communication(), *compute_); }

void Trainer::ask(bool mine) {
  stop_ = mine ? 1 : 0;
  if (world_.size == 1) return;
  world_.control->all_reduce(communication(), base::View::of(&stop_, {1}), comm::Reduction::max);
  answered_ = host_call_over(communication());
}

bool Trainer::any_rank_asked() {
  context_->join(answered_);
  return stop_ != 0;
}

void Trainer::load(std::int64_t completed, const plan::Action& action) {
  auto& step = slot_of(action).step;
  step.emplace(model::Step{*compute_, store_.get(), batches_.training(completed, action.micro), plan_.dtype,
                           settings_.seed, plan::Pass::train});
  step->edges = &edges_;
  step->loss_place = results_->loss_of(action.place);
  tensor::copy(*compute_, step->micro.counted_there, results_->targets_of(action.place));
}

void Trainer::forward(const plan::Action& action, const Observer* observer) {
  if (action.micro < 0) return store_->idle(forward_accesses_, position_of(action, plan_.batch()));
  auto& slot = slot_of(action);
  slot.flow = decoder_.forward(*slot.step, slot.saved, seen_by(observer, action.micro, "the output of"));
}

void Trainer::backward(const plan::Action& action, const Observer* observer) {
  const auto position = position_of(action, plan_.batch());
  if (action.micro < 0) return store_->idle(backward_accesses_, position);
  auto& slot = slot_of(action);
  store_->begin_backward(position);
  decoder_.backward(*slot.step, slot.flow, slot.saved, seen_by(observer, action.micro, "the gradient of the input of"));
  slot.step.reset();
}

model::Observer Trainer::seen_by(const Observer* observer, std::int64_t micro, const char* what) {
  if (observer == nullptr) return {};
  return [observer, micro, what](const model::Block& block, base::View stream) {
    (*observer)(micro, fmt::format("{} {}", what, block.name()), stream);
  };
}

bool Trainer::gradients_of_step(std::int64_t completed, const std::function<bool()>& stop_now,
                                const Observer* observer) {
  using Kind = plan::Action::Kind;
  results_->begin();
  for (const auto& action : program_) {
    if (action.kind == Kind::update) return true;
    const base::TraceScope traced(base::traced::action, name_of(action.kind),
                                  {completed + 1, action.round, action.place, action.micro, action.chunk, action.slot});
    switch (action.kind) {
      case Kind::ask: ask(stop_now()); break;
      case Kind::agree:
        if (any_rank_asked()) {
          context_->transfers.finish();  // other ranks may wait in one of them
          communication().synchronize();
          return false;
        }
        if (action.round == 0) store_->begin_step(step_leases_);
        break;
      case Kind::load: load(completed, action); break;
      case Kind::forward: forward(action, observer); break;
      case Kind::backward: backward(action, observer); break;
      case Kind::reduce: store_->finish(); break;
      case Kind::update: break;  // what follows
      case Kind::receive_activations:
      case Kind::send_activations:
      case Kind::receive_gradients:
      case Kind::send_gradients:
      case Kind::input_gradients:
      case Kind::weight_gradients: TRAINYARD_ASSERT(false, "a rank of one stage is told to {}", name_of(action.kind));
    }
  }
  TRAINYARD_ASSERT(false, "a schedule of {} actions without an update", program_.size());
  return false;
}

bool Trainer::begin_step(std::int64_t completed, const std::function<bool()>& stop_now) {
  StepOutcome outcome;
  outcome.begun = base::steady_seconds();
  const double busy = results_come_later() ? 0 : communication().busy_seconds();
  context_->wait_seconds = 0;
  if (!gradients_of_step(completed, stop_now, nullptr)) return false;
  {
    const base::TraceScope traced(base::traced::action, name_of(plan::Action::Kind::update), {completed + 1});
    results_->agree(store_->counted_gradients());
    update(completed);
    results_->send();
  }
  outcome.learning_rate = settings_.learning_rate.at(completed);
  outcome.exposed_seconds = context_->wait_seconds;
  outcome.compute_seconds = base::steady_seconds() - outcome.begun - context_->wait_seconds;
  if (!results_come_later()) outcome.communication_seconds = communication().busy_seconds() - busy;
  under_way_.push_back({outcome, compute_->spans(), communication().spans()});
  return true;
}

StepOutcome Trainer::finish_step() {
  TRAINYARD_ASSERT(!under_way_.empty(), "no step is under way");
  const auto step = under_way_.front();
  under_way_.pop_front();
  auto outcome = step.known;
  const auto numbers = results_->take();
  if (results_come_later()) measure_on_device(step, outcome);
  outcome.loss = numbers.loss;
  outcome.gradient_norm = numbers.gradient_norm;
  outcome.targets = numbers.targets;
  outcome.finite = numbers.finite != 0;
  return outcome;
}

// What the host sees of a step on a GPU says little: its time is that between two ends, the rest is taken by the
// device.
void Trainer::measure_on_device(const UnderWay& step, StepOutcome& outcome) {
  const double end = base::steady_seconds(), seconds = end - std::max(outcome.begun, finished_at_);
  finished_at_ = end;
  const double blocked = compute_->busy_seconds_until(step.waits),
               talking = world_.size > 1 ? communication().busy_seconds_until(step.calls) : 0;
  outcome.exposed_seconds = world_.size > 1 ? blocked - blocked_before_ : 0;
  outcome.communication_seconds = talking - talking_before_;
  outcome.compute_seconds = std::max(0.0, seconds - outcome.exposed_seconds);
  blocked_before_ = blocked, talking_before_ = talking;
}

// The clip factor is read where it was made; a step that is not finite changes nothing.
void Trainer::update(std::int64_t completed) {
  const auto t = static_cast<double>(completed + 1);
  kernels::AdamW hyper;
  hyper.learning_rate = static_cast<float>(settings_.learning_rate.at(completed));
  hyper.beta1 = static_cast<float>(settings_.beta1);
  hyper.beta2 = static_cast<float>(settings_.beta2);
  hyper.epsilon = static_cast<float>(settings_.epsilon);
  hyper.weight_decay = static_cast<float>(settings_.weight_decay);
  hyper.bias1 = 1 - std::pow(settings_.beta1, t);
  hyper.bias2 = 1 - std::pow(settings_.beta2, t);
  hyper.numbers = results_->numbers();
  store_->update(hyper);
}

double Trainer::validate(std::int64_t sequences) {
  const base::TraceScope traced(base::traced::validation, "validate", {sequences});
  MicroLoss total;
  fold_losses(
      world_, communication(), 0, sequences / plan_.micro_batch,
      [&](std::int64_t m) {
        const auto& batch = batches_.validation(m);
        store_->begin_evaluation(evaluation_leases_);
        std::int64_t targets = 0;
        const double loss = evaluate_micro(batch, targets);
        return MicroLoss{loss, static_cast<double>(targets)};
      },
      total);
  return total.mean();
}

double Trainer::evaluate_micro(const model::MicroBatch& batch, std::int64_t& targets) {
  model::Step step{*compute_, store_.get(), batch, plan_.dtype, settings_.seed, plan::Pass::evaluate};
  step.edges = &edges_;
  decoder_.evaluate(step, slots_.front()->saved);
  targets = step.target_count;
  return step.loss_sum;
}

std::string Trainer::diagnose(std::int64_t completed) {
  Finding found{plan_.batch().micros()};
  std::int64_t looks = 0;
  const Observer look = [&](std::int64_t micro, const std::string& where, base::View tensor) {
    ++looks;
    if (!found.text.empty() && micro >= found.micro) return;
    const auto index = kernels::first_nonfinite(*compute_, tensor);
    if (index < 0) return;
    const auto row = index / tensor.cols() + edges_.first_row(plan_.micro().rows());
    found = {micro, looks,
             fmt::format("micro-batch {}: {} is not finite, first at row {}, column {}", micro, where, row,
                         index % tensor.cols())};
  };
  gradients_of_step(
      completed, [] { return false; }, &look);
  // A stream that is finite everywhere can still give a loss or a weight gradient that is not.
  const auto losses = results_->own_losses();
  for (const auto& action : program_) {
    if (action.kind != plan::Action::Kind::backward || action.micro < 0 || action.micro >= found.micro) continue;
    const auto loss = losses[static_cast<std::size_t>(2 * action.place)];
    if (!std::isfinite(loss))
      found = {action.micro, looks, fmt::format("micro-batch {}: the loss is {}", action.micro, loss)};
  }
  for (int u = 0; u < context_->units() && found.text.empty(); ++u)
    if (kernels::first_nonfinite(*compute_, store_->piece_gradient(u)) >= 0)
      found = {
          plan_.batch().micros(), u,
          fmt::format("the folded gradient of unit {} is not finite", set_.units[static_cast<std::size_t>(u)].name)};
  return earliest_of_all(found);
}

// Everyone learns the finding of the lowest micro-batch, there the earliest; who only knows a folded gradient comes
// last. Of equals the lowest rank speaks.
std::string Trainer::earliest_of_all(const Finding& mine) {
  const std::int64_t key[3] = {mine.text.empty() ? 1 : 0, mine.micro, mine.place};
  std::vector<std::array<std::int64_t, 3>> keys(static_cast<std::size_t>(world_.size));
  world_.control->all_gather(communication(), base::View::of(key, {3}),
                             base::View::of(keys.front().data(), {3 * world_.size}));
  communication().synchronize();
  const auto owner = static_cast<int>(std::min_element(keys.begin(), keys.end()) - keys.begin());
  std::vector<std::uint8_t> text(256, 0);
  if (owner == world_.rank) std::copy_n(mine.text.begin(), std::min<std::size_t>(mine.text.size(), 255), text.begin());
  world_.control->broadcast(communication(), base::View::of(text.data(), {256}), owner);
  communication().synchronize();
  return std::string(reinterpret_cast<const char*>(text.data()));
}

}  // namespace trainyard::engine
