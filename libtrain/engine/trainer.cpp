// The step: the actions of the schedule, the norm, the update.
#include "libtrain/engine/trainer.h"

#include "kernels/finite/finite.h"
#include "libtrain/base/error.h"
#include "libtrain/plan/memory.h"
#include "libtrain/tensor/gpu.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace trainyard::engine {

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

params::GradientFold::Position::Place place_of(std::int64_t micro, std::int64_t first, std::int64_t end) {
  using Place = params::GradientFold::Position::Place;
  if (end - first == 1) return Place::only;
  return micro == first ? Place::first : micro == end - 1 ? Place::last : Place::middle;
}

double counted(const StepOutcome& o) { return static_cast<double>(std::max<std::int64_t>(o.targets, 1)); }

}  // namespace

CategoryBytes predicted_memory(const TrainerSetup& s) { return plan::rank_memory(s.model, s.states, s.micro, s.recompute).categories; }

Trainer::Trainer(const TrainerSetup& setup, World& world, Batches& batches)
    : setup_(setup), world_(world), batches_(batches), set_(setup.model, setup.states.batch.data_ranks), memory_(predicted_memory(setup), setup.device),
      compute_(setup.device.kind == base::DeviceKind::cuda ? tensor::Exec::gpu(setup.device.index, &memory_[tensor::Category::workspace])
                                                           : tensor::Exec::caller(&memory_[tensor::Category::workspace], setup.micro.threads)), decoder_(setup.model, setup.recompute),
      program_(plan::one_stage(setup.states.batch, world.rank)),
      accesses_(plan::training_accesses(setup.model)), training_leases_(plan::leases_of(accesses_)),
      evaluation_leases_(plan::leases_of(plan::evaluation_accesses(setup.model))), saved_(memory_[tensor::Category::activations]) {
  using tensor::Category;
  context_ = std::unique_ptr<params::StoreContext>(new params::StoreContext{
      set_, setup_.states, setup_.reduction, *world_.data, *compute_, exchange(), memory_[Category::parameters],
      memory_[Category::gathered_units], memory_[Category::gradients], memory_[Category::unit_gradients], memory_[Category::optimizer],
      memory_[Category::communication_staging]});
  store_ = std::make_unique<params::ZeroStore>(*context_);
  const auto micros = static_cast<std::size_t>(setup_.states.batch.turns() * setup_.states.batch.fold);
  batches_.work_on(*compute_);
  if (compute_->on_gpu()) {
    void* memory = nullptr;
    tensor::require_gpu(tensor::gpu_module().runtime->allocate(setup_.device.index, static_cast<std::int64_t>(micros) * 8, &memory), "reserving memory for losses");
    device_losses_ = static_cast<double*>(memory);
    fetched_losses_.resize(micros);
  }
  own_losses_.resize(2 * micros);
  all_losses_.resize(2 * micros * static_cast<std::size_t>(world_.size));
}

Trainer::~Trainer() {
  if (device_losses_ == nullptr) return;
  try {
    compute_->synchronize();
  } catch (const base::Error&) {
    // The device failed; whoever waited for it has said so.
  }
  tensor::gpu_module().runtime->release(setup_.device.index, device_losses_);
}

bool Trainer::any_rank(bool mine) {
  if (world_.size == 1) return mine;
  std::int32_t flag = mine ? 1 : 0;
  world_.control->all_reduce(exchange(), base::View::of(&flag, {1}), comm::Reduction::max);
  exchange().synchronize();
  return flag != 0;
}

void Trainer::load(std::int64_t completed, const plan::Action& action) {
  const auto& batch = setup_.states.batch;
  in_flight_.emplace(InFlight{{*compute_, *store_, batches_.training(completed, action.micro), setup_.micro.dtype, setup_.seed, model::Mode::train}, {}});
  const auto slot = action.turn * batch.fold + (action.micro - batch.first_micro(action.group));
  if (device_losses_ != nullptr) in_flight_->step.loss_slot = base::View(device_losses_ + slot, base::DType::f64, {1}, setup_.device);
  const auto place = place_of(action.micro, batch.first_micro(action.group), batch.end_micro(action.group));
  store_->begin_micro({action.turn, place}, training_leases_);
}

void Trainer::forward(std::int64_t micro, const Observer* observer) {
  auto& [step, flow] = *in_flight_;
  if (observer == nullptr) {
    flow = decoder_.forward(step, saved_);
    return;
  }
  flow = {saved_.push(step.dtype, {setup_.micro.rows(), setup_.model.hidden}), {}};
  for (const auto& block : decoder_.blocks()) {
    block->forward(step, flow, saved_);
    (*observer)(micro, fmt::format("the output of {}", block->name()), flow.main);
  }
}

void Trainer::backward(const plan::Action& action, const Observer* observer) {
  auto& [step, flow] = *in_flight_;
  if (observer == nullptr) {
    decoder_.backward(step, flow, saved_);
  } else {
    const auto& blocks = decoder_.blocks();
    for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
      (*block)->backward(step, flow, saved_);
      (*observer)(action.micro, fmt::format("the gradient of the input of {}", (*block)->name()), flow.main);
    }
    saved_.pop();
  }
  const auto& batch = setup_.states.batch;
  const auto at = static_cast<std::size_t>(2 * (action.turn * batch.fold + (action.micro - batch.first_micro(action.group))));
  own_losses_[at] = step.loss_sum;
  own_losses_[at + 1] = static_cast<double>(step.target_count);
  in_flight_.reset();
}

bool Trainer::gradients_of_step(std::int64_t completed, const std::function<bool()>& stop_now, const Observer* observer) {
  using Kind = plan::Action::Kind;
  std::fill(own_losses_.begin(), own_losses_.end(), 0.0);
  for (const auto& action : program_) {
    switch (action.kind) {
      case Kind::agree:
        if (!any_rank(stop_now())) break;
        exchange().synchronize();
        return false;
      case Kind::load: load(completed, action); break;
      case Kind::forward: forward(action.micro, observer); break;
      case Kind::backward: backward(action, observer); break;
      case Kind::idle: store_->idle_turn(action.turn, accesses_); break;
      case Kind::reduce:
        store_->finish();
        fetch_losses();
        break;
      case Kind::update: return true;
    }
  }
  TRAINYARD_ASSERT(false, "a schedule of {} actions without an update", program_.size());
  return false;
}

// The one wait of a step on a GPU, with the one for the norm right behind it.
void Trainer::fetch_losses() {
  if (device_losses_ == nullptr) return;
  const auto n = static_cast<std::int64_t>(fetched_losses_.size());
  tensor::copy(*compute_, base::View(device_losses_, base::DType::f64, {n}, setup_.device), base::View::of(fetched_losses_.data(), {n}));
  compute_->synchronize();
  for (std::size_t i = 0; i < fetched_losses_.size(); ++i)
    if (own_losses_[2 * i + 1] > 0) own_losses_[2 * i] = fetched_losses_[i];
}

StepOutcome Trainer::step(std::int64_t completed, const std::function<bool()>& stop_now) {
  StepOutcome outcome;
  const double start = now(), busy = exchange().busy_seconds();
  context_->wait_seconds = 0;
  if (!gradients_of_step(completed, stop_now, nullptr)) {
    outcome.kind = StepOutcome::Kind::abandoned;
    return outcome;
  }
  outcome.compute_seconds = now() - start - context_->wait_seconds;
  agree_on_results(completed, outcome);
  if (outcome.kind == StepOutcome::Kind::not_finite) return outcome;
  const double update_start = now(), waited = context_->wait_seconds;
  update(completed, outcome);
  outcome.compute_seconds += now() - update_start - (context_->wait_seconds - waited);
  outcome.exposed_seconds = context_->wait_seconds;
  outcome.communication_seconds = exchange().busy_seconds() - busy;
  return outcome;
}

void Trainer::agree_on_results(std::int64_t completed, StepOutcome& outcome) {
  gather_losses(outcome);
  double sum_of_squares = 0;
  const bool finite_gradients = norm_of_gradients(sum_of_squares);
  outcome.gradient_norm = std::sqrt(sum_of_squares) / counted(outcome);
  outcome.learning_rate = setup_.learning_rate.at(completed);
  if (!finite_gradients || !std::isfinite(outcome.loss) || !std::isfinite(outcome.gradient_norm)) outcome.kind = StepOutcome::Kind::not_finite;
}

void Trainer::update(std::int64_t completed, const StepOutcome& outcome) {
  const double clip = setup_.clip > 0 ? std::min(1.0, setup_.clip / (outcome.gradient_norm + 1e-6)) : 1.0;
  const auto t = static_cast<double>(completed + 1);
  kernels::AdamW hyper;
  hyper.learning_rate = static_cast<float>(outcome.learning_rate);
  hyper.beta1 = static_cast<float>(setup_.beta1);
  hyper.beta2 = static_cast<float>(setup_.beta2);
  hyper.epsilon = static_cast<float>(setup_.epsilon);
  hyper.weight_decay = static_cast<float>(setup_.weight_decay);
  hyper.bias1 = 1 - std::pow(setup_.beta1, t);
  hyper.bias2 = 1 - std::pow(setup_.beta2, t);
  hyper.gradient_scale = static_cast<float>(clip / counted(outcome));
  store_->update(hyper);
}

// The loss sums and target counts of the step's micro-batches, gathered and added in ascending micro-batch index (decision 5).
void Trainer::gather_losses(StepOutcome& outcome) {
  const auto& batch = setup_.states.batch;
  const auto n = static_cast<std::int64_t>(own_losses_.size());
  const auto all = base::View::of(all_losses_.data(), {n * world_.size});
  world_.control->all_gather(exchange(), base::View::of(own_losses_.data(), {n}), all);
  exchange().synchronize();
  double sum = 0, targets = 0;
  for (std::int64_t m = 0; m < batch.micros(); ++m) {
    const auto group = m / batch.fold, turn = group / batch.data_ranks, rank = group % batch.data_ranks;
    const auto at = static_cast<std::size_t>(rank * n + 2 * (turn * batch.fold + m % batch.fold));
    sum += all_losses_[at];
    targets += all_losses_[at + 1];
  }
  outcome.targets = static_cast<std::int64_t>(targets);
  outcome.loss = targets > 0 ? sum / targets : 0;
}

bool Trainer::norm_of_gradients(double& sum_of_squares) {
  kernels::FixedPointSum sum;
  std::vector<base::View> pieces;
  for (int u = 0; u < context_->units(); ++u) pieces.push_back(store_->piece_gradient(u));
  kernels::square_sum(*compute_, pieces, sum);
  world_.control->all_reduce(exchange(), base::View::of(sum.limbs.data(), {static_cast<std::int64_t>(sum.limbs.size())}), comm::Reduction::sum);
  exchange().synchronize();
  sum_of_squares = kernels::value(sum);
  return std::isfinite(sum_of_squares);
}

double Trainer::validate(std::int64_t sequences) {
  const auto b = setup_.micro.batch;
  const auto micros = sequences / b;
  const auto each = (micros + world_.size - 1) / world_.size;
  std::vector<double> own(static_cast<std::size_t>(2 * each)), all(static_cast<std::size_t>(2 * each * world_.size));
  for (std::int64_t k = 0; k < each; ++k) {
    const auto m = k * world_.size + world_.rank;
    // A rank without a micro-batch in the last turn still takes part in the gathers of stage 3: it repeats the last one and counts nothing.
    const auto& batch = batches_.validation(std::min(m, micros - 1));
    store_->begin_evaluation(evaluation_leases_);
    std::int64_t targets = 0;
    const double loss = evaluate_micro(batch, targets);
    if (m >= micros) continue;
    own[static_cast<std::size_t>(2 * k)] = loss;
    own[static_cast<std::size_t>(2 * k + 1)] = static_cast<double>(targets);
  }
  world_.control->all_gather(exchange(), base::View::of(own.data(), {2 * each}), base::View::of(all.data(), {2 * each * world_.size}));
  exchange().synchronize();
  double sum = 0, targets = 0;
  for (std::int64_t m = 0; m < micros; ++m) {
    const auto at = static_cast<std::size_t>((m % world_.size) * 2 * each + 2 * (m / world_.size));
    sum += all[at];
    targets += all[at + 1];
  }
  return targets > 0 ? sum / targets : 0;
}

double Trainer::evaluate_micro(const model::MicroBatch& batch, std::int64_t& targets) {
  model::Step step{*compute_, *store_, batch, setup_.micro.dtype, setup_.seed, model::Mode::evaluate};
  decoder_.evaluate(step, saved_);
  targets = step.target_count;
  return step.loss_sum;
}

std::string Trainer::diagnose(std::int64_t completed) {
  std::int64_t found_micro = setup_.states.batch.micros();
  std::string found;
  const Observer look = [&](std::int64_t micro, const std::string& where, base::View tensor) {
    if (!found.empty()) return;
    const auto index = kernels::first_nonfinite(*compute_, tensor);
    if (index < 0) return;
    found_micro = micro;
    found = fmt::format("micro-batch {}: {} is not finite, first at row {}, column {}", micro, where, index / tensor.cols(), index % tensor.cols());
  };
  gradients_of_step(completed, [] { return false; }, &look);
  // A stream that is finite everywhere can still give a loss or a weight gradient that is not.
  for (const auto& action : program_) {
    if (action.kind != plan::Action::Kind::backward || !found.empty()) continue;
    const auto& batch = setup_.states.batch;
    const auto loss = own_losses_[static_cast<std::size_t>(2 * (action.turn * batch.fold + action.micro - batch.first_micro(action.group)))];
    if (std::isfinite(loss)) continue;
    found_micro = action.micro;
    found = fmt::format("micro-batch {}: the loss is {}", action.micro, loss);
  }
  for (int u = 0; u < context_->units() && found.empty(); ++u)
    if (kernels::first_nonfinite(*compute_, store_->piece_gradient(u)) >= 0) found = fmt::format("the folded gradient of unit {} is not finite", set_.units[static_cast<std::size_t>(u)].name);
  return of_lowest_micro(found_micro, found);
}

// Everyone learns the finding of the lowest micro-batch; among ranks that only know a folded gradient, of the lowest rank that knows one.
std::string Trainer::of_lowest_micro(std::int64_t micro, const std::string& finding) {
  const auto key = 2 * micro + (finding.empty() ? 1 : 0);
  std::vector<std::int64_t> keys(static_cast<std::size_t>(world_.size));
  world_.control->all_gather(exchange(), base::View::of(&key, {1}), base::View::of(keys.data(), {world_.size}));
  exchange().synchronize();
  const auto owner = static_cast<int>(std::min_element(keys.begin(), keys.end()) - keys.begin());
  std::vector<std::uint8_t> text(256, 0);
  if (owner == world_.rank) std::copy_n(finding.begin(), std::min<std::size_t>(finding.size(), 255), text.begin());
  world_.control->broadcast(exchange(), base::View::of(text.data(), {256}), owner);
  exchange().synchronize();
  return std::string(reinterpret_cast<const char*>(text.data()));
}

}  // namespace trainyard::engine
