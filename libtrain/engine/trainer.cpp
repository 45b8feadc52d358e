// The step: the actions of the schedule, the norm, the update.
#include "libtrain/engine/trainer.h"

#include "kernels/finite/finite.h"
#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/index.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/trace_kinds.h"
#include "libtrain/engine/agreement.h"
#include "libtrain/plan/cost/memory.h"
#include "libtrain/tensor/gpu.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

namespace trainyard::engine {

namespace {

params::GradientReduction::Position position_of(const plan::Action& action, const plan::BatchPlan& batch) {
  using Place = params::GradientReduction::Position::Place;
  const auto at = action.place % batch.local_accumulation;
  if (batch.local_accumulation == 1) return {action.round, Place::only};
  return {action.round, at == 0 ? Place::first : at == batch.local_accumulation - 1 ? Place::last : Place::middle};
}

}  // namespace

Trainer::Trainer(const plan::Plan& plan, const StepSettings& settings, World& world, Batches& batches)
    : settings_(settings),
      r_(plan, settings.device, world, batches, plan::Pass::train, {.offload_folders = settings.offload_folders}),
      batch_(batches.batch()), program_(plan::actions(plan, world.rank, batch_)),
      step_leases_(plan::step_leases(r_.part, program_)), loss_scale_(settings.loss_scale),
      outliers_(settings.outliers) {
  TRAINYARD_ASSERT(!settings.loss_scale.scales() || settings.non_finite == NonFinitePolicy::skip,
                   "a loss scale of {}, and a step that overflows ends the run", settings.loss_scale.first);
  make_chunks();
  order_inputs();
  for (auto& flat_group : r_.set.flat_groups) {
    for (auto& parameter : flat_group.parameters)
      if (settings.decay_embeddings &&
          (flat_group.part == plan::Part::input || flat_group.part == plan::Part::bridge) &&
          parameter.shape.size() == 2)
        parameter.decay = true;  // a table; norms and biases have one dim
    if (settings.parameters.any()) settings.parameters.apply(flat_group, r_.plan.model);
  }
  r_.context.flat_groups_of_stages = plan::flat_groups_of_stages(r_.plan.model, r_.plan.stages);
  store_ = std::make_unique<params::ZeroStore>(r_.context);
  if (r_.plan.source_sequence > 0) empty_source_ = model::empty_micro_batch(r_.plan.source_sequence, settings.device);
  empty_ = model::empty_micro_batch(r_.plan.sequence, settings.device,
                                    r_.plan.source_sequence > 0 ? &empty_source_ : nullptr);
  r_.link_stages();
  results_.emplace(r_.context, r_.plan.batch(), world.results ? *world.results : *world.control, settings_.clip,
                   gate_record_shape(r_.plan.model), settings_.non_finite);
  if (settings_.losses_of_sequences) sequences_.emplace(r_.context, r_.plan.batch());
}

void Trainer::require_values() const {
  TRAINYARD_ASSERT(store_->has_values(), "{} parameters have no values: store().initialize(seed) comes first",
                   r_.plan.parameters);
}

void Trainer::make_chunks() {
  const auto slots = plan::slots_of_stage(r_.plan, r_.stage);
  TRAINYARD_ASSERT(r_.batches.in_flight() >= slots[0], "batches for {} micro-batches in flight, and the plan has {}",
                   r_.batches.in_flight(), slots[0]);
  auto& activations = r_.memory[tensor::Category::activations];
  const auto bytes = plan::slot_bytes(r_.part, r_.plan.micro(), r_.plan.recompute, slots,
                                      r_.inputs ? r_.inputs->plan().layers_of_chunks() : std::vector<std::int64_t>());
  if (bytes.passing > 0) r_.passing.emplace(activations, bytes.passing);
  for (int c = 0; c < r_.plan.stages.chunks(); ++c) {
    const auto at = base::size(c);
    Chunk chunk;
    chunk.decoder = std::make_unique<model::Decoder>(r_.part, r_.plan.recompute, c);
    for (int i = 0; i < slots[at]; ++i)
      chunk.slots.push_back(
          std::make_unique<Slot>(activations, bytes.of_chunk[at], r_.passing ? &*r_.passing : nullptr));
    chunk.forward = plan::forward_accesses(r_.part, c);
    chunk.backward = plan::backward_accesses(r_.part, c);
    chunk.input_gradients = plan::input_gradient_accesses(r_.part, c);
    chunk.weight_gradients = plan::weight_gradient_accesses(r_.part, c);
    if (r_.plan.breadth_first(r_.plan.batch())) chunk.blocks = plan::accesses_of_blocks(r_.part, c);
    chunk.evaluation = plan::leases_of(plan::evaluation_accesses(r_.part, c));
    chunk.first = r_.plan.stages.part(r_.stage, c) == 0;
    r_.chunks.push_back(std::move(chunk));
  }
}

// Communication that was issued uses the store until it is done, and an update uses the results of its step.
Trainer::~Trainer() {
  drain(r_.communication, *r_.compute);
  if (r_.offloaded) r_.offloaded->abandon_update();
}

void Trainer::ask(bool mine) {
  stop_ = mine ? 1 : 0;
  if (r_.world.size == 1) return;
  r_.world.control->all_reduce(r_.communication, base::View::of(&stop_, {1}), comm::Reduction::max);
  answered_ = host_call_over(r_.communication);
}

bool Trainer::any_rank_asked() {
  r_.context.join(answered_);
  return stop_ != 0;
}

void Trainer::load(std::int64_t completed, const plan::Action& action) {
  auto& step = passes().enter(action, r_.batches.training(completed, action.micro), plan::Pass::train).step;
  step->loss_place = results_->loss_of(action.place);
  if (sequences_) {
    sequences_->enter(action.place, step->micro);
    step->sequence_losses = sequences_->of(action.place);
  }
  step->gate_records = results_->gate_records();
  step->loss_scale = loss_factor();
  step->label_smoothing = r_.plan.label_smoothing;
  tensor::copy(*r_.compute, step->micro.counted_there, results_->targets_of(action.place));
}

StagePasses Trainer::passes() { return r_.passes(*store_, settings_.seed); }

void Trainer::forward(const plan::Action& action, const Observer* observer) {
  auto& chunk = chunk_of(action);
  if (action.micro < 0 && r_.plan.expert_parallel == 1)
    return store_->idle(chunk.accesses(action), position_of(action, batch_));
  if (action.micro < 0 && action.block <= 0) passes().enter(action, empty_, plan::Pass::train);
  auto& slot = slot_of(action);
  const auto seen = seen_by(observer, action, "the output of");
  if (action.block < 0) chunk.decoder->forward(*slot.step, slot.flow, slot.saved, seen);
  else chunk.decoder->forward_block(action.block, *slot.step, slot.flow, slot.saved, seen);
}

void Trainer::backward(const plan::Action& action, const Observer* observer) {
  using Kind = plan::Action::Kind;
  auto& chunk = chunk_of(action);
  const auto position = position_of(action, batch_);
  if (action.micro < 0 && r_.plan.expert_parallel == 1) return store_->idle(chunk.accesses(action), position);
  auto& slot = slot_of(action);
  if (r_.link && action.micro >= 0) r_.link->take_gradients(std::exchange(slot.arrived, {}));
  store_->begin_backward(position);
  const auto seen = seen_by(observer, action, "the gradient of the input of");
  if (action.block >= 0) chunk.decoder->backward_block(action.block, *slot.step, slot.flow, slot.saved, seen);
  else if (action.kind == Kind::backward) chunk.decoder->backward(*slot.step, slot.flow, slot.saved, seen);
  if (action.kind == Kind::input_gradients) chunk.decoder->input_gradients(*slot.step, slot.flow, slot.saved, seen);
  if (action.kind == Kind::weight_gradients) chunk.decoder->weight_gradients(*slot.step, slot.flow, slot.saved);
  if (action.kind != Kind::input_gradients && action.block <= 0) slot.step.reset();
}

void Trainer::exchange(const plan::Action& action) {
  using Kind = plan::Action::Kind;
  if (action.kind == Kind::receive_activations) return r_.link->await_activations(action.chunk);
  auto& slot = slot_of(action);
  if (action.kind == Kind::send_activations) slot.sent = r_.link->send_activations(action.chunk, slot.flow);
  if (action.kind == Kind::receive_gradients)
    slot.arrived = r_.link->await_gradients(action.chunk, slot.flow, slot.sent);
  if (action.kind == Kind::send_gradients) r_.link->send_gradients(action.chunk, slot.flow);
}

model::Observer Trainer::seen_by(const Observer* observer, const plan::Action& action, const char* what) {
  if (observer == nullptr || action.micro < 0) return {};
  const auto parts = r_.plan.stages.parts(), part = r_.plan.stages.part(r_.stage, action.chunk);
  const auto pass = action.kind == plan::Action::Kind::forward ? part : 2 * parts - 1 - part;
  return [observer, micro = action.micro, pass, what](const model::Block& block, base::View stream) {
    (*observer)(micro, pass, fmt::format("{} {}", what, block.name()), stream);
  };
}

// Memory is reserved for the largest step, and every other step takes a part of it.
void Trainer::divide(std::int64_t completed) {
  const auto batch = r_.batches.batch_of(completed);
  if (batch == batch_) return;
  batch_ = r_.context.shape.batch = batch;
  program_ = plan::actions(r_.plan, r_.world.rank, batch);
  step_leases_ = plan::step_leases(r_.part, program_);
  results_->divide(batch);
  order_inputs();
}

void Trainer::order_inputs() {
  if (r_.inputs) r_.inputs->set_reads(plan::input_reads(program_, r_.part, r_.inputs->plan()));
}

bool Trainer::gradients_of_step(std::int64_t completed, const std::function<bool()>& stop_now,
                                const Observer* observer) {
  using Kind = plan::Action::Kind;
  require_values();
  divide(completed);
  results_->begin();
  if (sequences_) sequences_->begin();
  if (r_.inputs) r_.inputs->begin_step();
  const CurrentAction::UntilEnd over(r_.now);
  for (const auto& action : program_) {
    r_.now.begin(action);
    if (action.kind == Kind::update) return true;
    const base::TraceScope traced(base::traced::action, name_of(action.kind),
                                  {completed + 1, action.round, action.place, action.micro, action.chunk, action.slot,
                                   action.block < 0 ? base::not_traced : action.block});
    switch (action.kind) {
      case Kind::ask: ask(stop_now && stop_now()); break;
      case Kind::agree:
        if (any_rank_asked()) {
          r_.context.transfers.finish();  // other ranks may wait in one of them
          r_.communication.synchronize();
          return false;
        }
        if (action.round == 0) store_->begin_step(step_leases_);
        break;
      case Kind::load: load(completed, action); break;
      case Kind::forward: forward(action, observer); break;
      case Kind::backward:
      case Kind::input_gradients:
      case Kind::weight_gradients: backward(action, observer); break;
      case Kind::reduce: store_->finish(); break;
      case Kind::update: break;  // returned above
      case Kind::receive_activations:
      case Kind::send_activations:
      case Kind::receive_gradients:
      case Kind::send_gradients: exchange(action); break;
    }
  }
  TRAINYARD_ASSERT(false, "a schedule of {} actions without an update", program_.size());
  return false;
}

std::string Trainer::doing() const { return r_.now.text(r_.stage, r_.plan.pipeline, "the end of a step"); }

bool Trainer::begin_step(std::int64_t completed, const std::function<bool()>& stop_now) {
  TRAINYARD_ASSERT(under_way_.empty() || !settings_.may_skip(),
                   "step {} begins before it is known whether the step before is skipped", completed + 1);
  StepOutcome outcome;
  outcome.begun = base::steady_seconds();
  const double busy = on_gpu() ? 0 : r_.communication.busy_seconds();
  const double waited = r_.link ? r_.link->wait_seconds() : 0;
  r_.context.wait_seconds = 0;
  r_.experts.clear_most_rounds();
  if (!gradients_of_step(completed, stop_now, nullptr)) return false;
  {
    const base::TraceScope traced(base::traced::action, name_of(plan::Action::Kind::update), {completed + 1});
    results_->agree(store_->counted_gradients(), loss_factor(), outliers_.limits(),
                    r_.context.offloaded != nullptr ? &store_->squares_of_disk() : nullptr);
    update(completed);
    results_->send();
    if (sequences_) sequences_->send();
  }
  outcome.learning_rate = settings_.learning_rate.at(completed - skipped_);
  outcome.loss_scale = settings_.loss_scale.scales() ? loss_scale_.scale() : 0;
  outcome.expert_rounds = r_.experts.most_rounds();
  outcome.exposed_seconds = r_.context.wait_seconds;
  outcome.compute_seconds = base::steady_seconds() - outcome.begun - r_.context.wait_seconds;
  if (!on_gpu()) {
    outcome.communication_seconds = r_.communication.busy_seconds() - busy;
    // Receives are called long before their messages are sent, so their queues are always busy. So the waits for them
    // count instead.
    if (r_.link) outcome.communication_seconds += r_.link->wait_seconds() - waited;
  }
  under_way_.push_back({outcome, r_.compute->spans(), r_.communication.spans()});
  return true;
}

StepOutcome Trainer::finish_step() {
  TRAINYARD_ASSERT(!under_way_.empty(), "no step is under way");
  const auto step = under_way_.front();
  under_way_.pop_front();
  auto outcome = step.known;
  const auto reported = results_->take();
  const auto& numbers = reported.numbers;
  if (on_gpu()) measure_on_device(step, outcome);
  outcome.loss = numbers.loss;
  outcome.gradient_norm = numbers.gradient_norm;
  outcome.targets = numbers.targets;
  judge(numbers, outcome);
  outcome.gate_records = reported.gate_records;
  if (sequences_) outcome.losses_of_sequences = sequences_->take();
  return outcome;
}

// What becomes of a step with these numbers. An outlier is finite, so that it is no overflow of the loss scale.
void Trainer::judge(const kernels::StepNumbers& numbers, StepOutcome& outcome) {
  if (numbers.outlier != 0) {
    outcome.outlier = outliers_.look(numbers.gradient_norm, numbers.loss);
    TRAINYARD_ASSERT(outcome.outlier.has_value(), "an outlier with gradient norm {} and loss {} is within the limits",
                     numbers.gradient_norm, numbers.loss);
    loss_scale_.count_step();
    outcome.fate = outliers_.count_outlier() ? StepFate::skipped : StepFate::ends_run;
  } else {
    outcome.fate = fate_of(numbers.finite != 0, settings_.non_finite);
    if (outcome.fate == StepFate::counts) {
      loss_scale_.count_step();
      if (numbers.targets > 0) outliers_.count_step(numbers.gradient_norm, numbers.loss);
    } else if (outcome.fate == StepFate::skipped && !loss_scale_.count_overflow()) {
      outcome.fate = StepFate::ends_run;
    }
  }
  if (outcome.fate == StepFate::skipped) ++skipped_;
}

// On a GPU the host sees little of a step. The time of a step runs from one end to the next; the device measures the
// rest.
void Trainer::measure_on_device(const UnderWay& step, StepOutcome& outcome) {
  const double end = base::steady_seconds(), seconds = end - std::max(outcome.begun, finished_at_);
  finished_at_ = end;
  const double blocked = r_.compute->busy_seconds_until(step.waits),
               talking = r_.world.size > 1 ? r_.communication.busy_seconds_until(step.calls) : 0;
  outcome.exposed_seconds = r_.world.size > 1 ? blocked - blocked_before_ : 0;
  // What the device waited for is communication, even if the queue of a pipeline stage carried it.
  outcome.communication_seconds = std::max(talking - talking_before_, outcome.exposed_seconds);
  outcome.compute_seconds = std::max(0.0, seconds - outcome.exposed_seconds);
  blocked_before_ = blocked, talking_before_ = talking;
}

// The clip factor is read where it was computed. A step that is not finite changes nothing, nor does the learning rate
// advance by it.
void Trainer::update(std::int64_t completed) {
  store_->update(params::update_rules(r_.plan.optimizer, settings_, settings_.learning_rate.at(completed - skipped_),
                                      completed + 1 - skipped_, results_->numbers()),
                 batch_.global_batch * r_.plan.sequence);
}

double Trainer::validate(std::int64_t sequences) { return validate_sets({&sequences, 1}).loss; }

Trainer::Validation Trainer::validate_sets(std::span<const std::int64_t> of_sets) {
  const auto sequences = std::accumulate(of_sets.begin(), of_sets.end(), std::int64_t{0});
  const base::TraceScope traced(base::traced::validation, "validate", {sequences});
  require_values();
  TRAINYARD_ASSERT(r_.batches.has_validation(), "a validation of {} sequences without a dataset", sequences);
  Validation out{0, std::vector<MicroLoss>(of_sets.size())};
  const auto total_of = [&](std::int64_t micro) -> MicroLoss& {
    std::size_t k = 0;
    for (auto end = of_sets[0]; micro * r_.plan.micro_batch >= end; end += of_sets[k]) ++k;
    return out.of_sets[k];
  };
  const auto pass = [&] {
    reduce_losses(
        r_.world, r_.communication, 0, sequences / r_.plan.micro_batch,
        [&](std::span<const std::int64_t> micros, std::span<MicroLoss> losses) {
          passes().evaluate(
              micros, losses,
              {[&](std::int64_t micro) -> const model::MicroBatch& { return r_.batches.validation(micro); },
               [&](std::span<const plan::Occurrence> leases) { store_->begin_evaluation(leases); }});
        },
        total_of);
  };
  if (r_.offloaded) r_.offloaded->outside_steps(pass);
  else pass();
  MicroLoss total;
  for (const auto& set : out.of_sets) total.sum += set.sum, total.targets += set.targets;
  out.loss = total.mean();
  return out;
}

std::int64_t Trainer::place_in_model(const std::string& flat_group) const {
  const auto all = plan::flat_groups(r_.plan.model);
  return std::find_if(all.begin(), all.end(), [&](const auto& u) { return u.name == flat_group; }) - all.begin();
}

std::string Trainer::diagnose(std::int64_t completed) {
  const std::int64_t passes = std::int64_t{2} * r_.plan.stages.parts();
  Finding found{batch_.micros(), 0, 0, {}};
  std::int64_t looks = 0;
  const Observer look = [&](std::int64_t micro, std::int64_t pass, const std::string& where, base::View tensor) {
    ++looks;
    if (!found.text.empty() && std::pair(micro, pass) >= std::pair(found.micro, found.pass)) return;
    const auto index = kernels::first_nonfinite(*r_.compute, tensor);
    if (index < 0) return;
    const auto row = index / tensor.cols() + r_.collectives.first_row(tensor.rows() * r_.plan.tensor);
    found = {micro, pass, looks,
             fmt::format("micro-batch {}: {} is not finite, first at row {}, column {}", micro, where, row,
                         index % tensor.cols())};
  };
  gradients_of_step(
      completed, [] { return false; }, &look);
  // Hidden states that are finite everywhere can still give a loss or a weight gradient that is not finite.
  const auto losses = results_->own_losses();
  for (const auto& action : program_) {
    if (action.kind != plan::Action::Kind::load || action.chunk > 0 || action.micro < 0 || action.micro >= found.micro)
      continue;
    const auto loss = base::at(losses, 2 * action.place);
    if (!std::isfinite(loss))
      found = {action.micro, passes, looks,
               fmt::format("micro-batch {}: the loss is {}", action.micro, base::number_text(loss))};
  }
  for (int u = 0; u < r_.context.flat_groups() && found.text.empty(); ++u)
    store_->for_gradient(u, [&](std::int64_t, base::View part) {
      if (!found.text.empty() || kernels::first_nonfinite(*r_.compute, part) < 0) return;
      const auto& name = base::at(r_.set.flat_groups, u).name;
      found = {batch_.micros(), passes, place_in_model(name),
               fmt::format("the summed gradient of flat group {} is not finite", name)};
    });
  return earliest_of_all(found);
}

// Returns on all ranks the finding of the lowest micro-batch, and of that the earliest. A rank that only knows a
// reduced gradient comes last. Of equal findings the lowest rank's counts.
std::string Trainer::earliest_of_all(const Finding& mine) {
  std::int64_t key[4] = {mine.text.empty() ? 1 : 0, mine.micro, mine.pass, mine.place};
  std::vector<std::array<std::int64_t, 4>> keys(base::size(r_.world.size));
  r_.world.control->all_gather(r_.communication, base::View::of(key, {4}),
                               base::View::of(keys.front().data(), {4 * r_.world.size}));
  r_.communication.synchronize();
  const auto owner = static_cast<int>(std::min_element(keys.begin(), keys.end()) - keys.begin());
  std::vector<std::uint8_t> text(256, 0);
  if (owner == r_.world.rank)
    std::copy_n(mine.text.begin(), std::min<std::size_t>(mine.text.size(), 255), text.begin());
  r_.world.control->broadcast(r_.communication, base::View::of(text.data(), {256}), owner);
  r_.communication.synchronize();
  return std::string(reinterpret_cast<const char*>(text.data()));
}

}  // namespace trainyard::engine
