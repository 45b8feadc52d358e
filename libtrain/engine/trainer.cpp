// The step: the actions of the schedule, the norm, the update.
#include "libtrain/engine/trainer.h"

#include "kernels/finite/finite.h"
#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/trace_kinds.h"
#include "libtrain/engine/agreement.h"
#include "libtrain/plan/cost/expert_nodes.h"
#include "libtrain/plan/cost/memory.h"
#include "libtrain/tensor/gpu.h"

#include <algorithm>
#include <array>
#include <cmath>
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

const plan::Plan& require_fit(const plan::Plan& plan, const World& world, const Batches& batches) {
  TRAINYARD_ASSERT(
      !plan.stages.boundaries.empty() && plan.stage_memory.size() == static_cast<std::size_t>(plan.pipeline),
      "a plan that plan::predict has not filled: {} of {} stages", plan.stage_memory.size(), plan.pipeline);
  require_layout(world, plan);
  const auto of = batches.batch();
  TRAINYARD_ASSERT(batches.sequence() == plan.sequence && of.micro_batch == plan.micro_batch &&
                       of.global_batch == plan.global_batch && of.local_accumulation == plan.local_accumulation,
                   "batches of {} sequences of {} tokens, {} in a micro-batch, {} micro-batches accumulated; the plan "
                   "has {} of {}, {}, {}",
                   of.global_batch, batches.sequence(), of.micro_batch, of.local_accumulation, plan.global_batch,
                   plan.sequence, plan.micro_batch, plan.local_accumulation);
  return plan;
}

Trainer::Trainer(const plan::Plan& plan, const StepSettings& settings, World& world, Batches& batches)
    : plan_(require_fit(plan, world, batches)), settings_(settings), world_(world), batches_(batches),
      part_(plan_.part_of_rank(world.rank)), set_(part_, plan.topology),
      memory_(plan.memory_of(world.rank).categories, settings.device),
      compute_(compute_exec(settings.device, memory_[tensor::Category::workspace], plan.threads)),
      lists_(part_, plan.sequence, *compute_), program_(plan::actions(plan, world.rank)),
      step_leases_(plan::step_leases(part_, program_)) {
  using tensor::Category;
  make_chunks();
  for (auto& flat_group : set_.flat_groups)
    for (auto& parameter : flat_group.parameters)
      if (settings.decay_embeddings && flat_group.part == plan::Part::input && parameter.shape.size() == 2)
        parameter.decay = true;  // a table; norms and biases have one dim
  context_ = std::unique_ptr<params::StoreContext>(new params::StoreContext{
      set_, plan_.states(), plan_.reduction, world_, *compute_, communication(), memory_[Category::parameters],
      memory_[Category::gathered_weights], memory_[Category::gradients], memory_[Category::micro_batch_gradients],
      memory_[Category::optimizer], memory_[Category::communication_staging]});
  for (const auto& flat_group : plan::flat_groups_of_stages(plan_.model, plan_.stages))
    context_->flat_groups_of_stages.push_back(flat_group.flat_group);
  store_ = std::make_unique<params::ZeroStore>(*context_);
  collectives_ = model::TensorCollectives(*context_, plan_.model, plan_.micro());
  experts_ = model::ExpertCollectives(*context_, plan_.expert_capacity_buffer,
                                      plan::expert_hop_bytes(part_, plan_.micro(), plan::Pass::train));
  absent_.tokens = base::View(nullptr, base::DType::i32, {plan_.micro_batch, plan_.sequence});
  if (plan_.pipeline > 1) {
    TRAINYARD_ASSERT(world.neighbours != nullptr, "{} stages that have not joined their neighbours", plan_.pipeline);
    const bool hears_before = std::any_of(chunks_.begin(), chunks_.end(), [](const Chunk& c) { return !c.first; });
    link_.emplace(*world.neighbours, *context_, memory_[Category::activations], hears_before, plan_.micro().own_rows(),
                  plan_.model.hidden, plan::Pass::train);
  }
  batches_.work_on(*compute_);
  results_.emplace(*context_, world_.results ? *world_.results : *world_.control, settings_.clip,
                   gate_record_shape(plan_.model));
}

void Trainer::require_values() const {
  TRAINYARD_ASSERT(store_->has_values(), "{} parameters have no values: store().initialize(seed) comes first",
                   plan_.parameters);
}

void Trainer::make_chunks() {
  const int stage = plan_.stage_of(world_.rank);
  const auto slots = plan::slots_of_stage(plan_, stage);
  TRAINYARD_ASSERT(batches_.in_flight() >= slots[0], "batches for {} micro-batches in flight, and the plan has {}",
                   batches_.in_flight(), slots[0]);
  auto& activations = memory_[tensor::Category::activations];
  const auto bytes = plan::slot_bytes(part_, plan_.micro(), plan_.recompute, slots);
  if (bytes.passing > 0) passing_.emplace(activations, bytes.passing);
  for (int c = 0; c < plan_.stages.chunks(); ++c) {
    const auto at = static_cast<std::size_t>(c);
    Chunk chunk;
    chunk.decoder = std::make_unique<model::Decoder>(part_, plan_.recompute, c);
    for (int i = 0; i < slots[at]; ++i)
      chunk.slots.push_back(std::make_unique<Slot>(activations, bytes.of_chunk[at], passing_ ? &*passing_ : nullptr));
    chunk.forward = plan::forward_accesses(part_, c);
    chunk.backward = plan::backward_accesses(part_, c);
    chunk.input_gradients = plan::input_gradient_accesses(part_, c);
    chunk.weight_gradients = plan::weight_gradient_accesses(part_, c);
    chunk.evaluation = plan::leases_of(plan::evaluation_accesses(part_, c));
    chunk.first = plan_.stages.part(stage, c) == 0;
    chunks_.push_back(std::move(chunk));
  }
}

// Communication that was issued uses the arenas until it is done.
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
  auto& step = passes().enter(action, batches_.training(completed, action.micro), plan::Pass::train).step;
  step->loss_place = results_->loss_of(action.place);
  step->gate_records = results_->gate_records();
  tensor::copy(*compute_, step->micro.counted_there, results_->targets_of(action.place));
}

StagePasses Trainer::passes() {
  return {plan_,
          plan_.stage_of(world_.rank),
          settings_.seed,
          *context_,
          *store_,
          collectives_,
          experts_,
          lists_,
          chunks_,
          link_ ? &*link_ : nullptr,
          now_};
}

void Trainer::forward(const plan::Action& action, const Observer* observer) {
  auto& chunk = chunk_of(action);
  if (action.micro < 0 && plan_.expert_parallel == 1)
    return store_->idle(chunk.forward, position_of(action, plan_.batch()));
  if (action.micro < 0) passes().enter_absent(action, absent_);
  auto& slot = slot_of(action);
  chunk.decoder->forward(*slot.step, slot.flow, slot.saved, seen_by(observer, action, "the output of"));
}

void Trainer::backward(const plan::Action& action, const Observer* observer) {
  using Kind = plan::Action::Kind;
  auto& chunk = chunk_of(action);
  const auto position = position_of(action, plan_.batch());
  const bool absent = action.micro < 0;
  if (absent && plan_.expert_parallel == 1)
    return store_->idle(action.kind == Kind::backward          ? chunk.backward
                        : action.kind == Kind::input_gradients ? chunk.input_gradients
                                                               : chunk.weight_gradients,
                        position);
  auto& slot = slot_of(action);
  if (link_ && !absent) link_->take_gradients(std::exchange(slot.arrived, {}));
  store_->begin_backward(position, absent);
  const auto seen = seen_by(observer, action, "the gradient of the input of");
  if (action.kind == Kind::backward) chunk.decoder->backward(*slot.step, slot.flow, slot.saved, seen);
  if (action.kind == Kind::input_gradients) chunk.decoder->input_gradients(*slot.step, slot.flow, slot.saved, seen);
  if (action.kind == Kind::weight_gradients) chunk.decoder->weight_gradients(*slot.step, slot.flow, slot.saved);
  if (action.kind != Kind::input_gradients) slot.step.reset();
}

void Trainer::exchange(const plan::Action& action) {
  using Kind = plan::Action::Kind;
  if (action.kind == Kind::receive_activations) return link_->await_activations();
  auto& slot = slot_of(action);
  if (action.kind == Kind::send_activations) slot.sent = link_->send_activations(slot.flow.main);
  if (action.kind == Kind::receive_gradients) slot.arrived = link_->await_gradients(slot.flow.main, slot.sent);
  if (action.kind == Kind::send_gradients) link_->send_gradients(slot.flow.main);
}

model::Observer Trainer::seen_by(const Observer* observer, const plan::Action& action, const char* what) {
  if (observer == nullptr) return {};
  const auto parts = plan_.stages.parts(), part = plan_.stages.part(plan_.stage_of(world_.rank), action.chunk);
  const auto pass = action.kind == plan::Action::Kind::forward ? part : 2 * parts - 1 - part;
  return [observer, micro = action.micro, pass, what](const model::Block& block, base::View stream) {
    (*observer)(micro, pass, fmt::format("{} {}", what, block.name()), stream);
  };
}

bool Trainer::gradients_of_step(std::int64_t completed, const std::function<bool()>& stop_now,
                                const Observer* observer) {
  using Kind = plan::Action::Kind;
  require_values();
  results_->begin();
  const CurrentAction::UntilEnd over(now_);
  for (const auto& action : program_) {
    now_.begin(action);
    if (action.kind == Kind::update) return true;
    const base::TraceScope traced(base::traced::action, name_of(action.kind),
                                  {completed + 1, action.round, action.place, action.micro, action.chunk, action.slot});
    switch (action.kind) {
      case Kind::ask: ask(stop_now && stop_now()); break;
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

std::string Trainer::doing() const {
  return now_.text(plan_.stage_of(world_.rank), plan_.pipeline, "the end of a step");
}

bool Trainer::begin_step(std::int64_t completed, const std::function<bool()>& stop_now) {
  StepOutcome outcome;
  outcome.begun = base::steady_seconds();
  const double busy = results_come_later() ? 0 : communication().busy_seconds();
  const double waited = link_ ? link_->wait_seconds() : 0;
  context_->wait_seconds = 0;
  experts_.clear_most_rounds();
  if (!gradients_of_step(completed, stop_now, nullptr)) return false;
  {
    const base::TraceScope traced(base::traced::action, name_of(plan::Action::Kind::update), {completed + 1});
    results_->agree(store_->counted_gradients());
    update(completed);
    results_->send();
  }
  outcome.learning_rate = settings_.learning_rate.at(completed);
  outcome.expert_rounds = experts_.most_rounds();
  outcome.exposed_seconds = context_->wait_seconds;
  outcome.compute_seconds = base::steady_seconds() - outcome.begun - context_->wait_seconds;
  if (!results_come_later()) {
    outcome.communication_seconds = communication().busy_seconds() - busy;
    // Receives are called long before their messages are sent, so their queues are always busy. So the waits for them
    // count instead.
    if (link_) outcome.communication_seconds += link_->wait_seconds() - waited;
  }
  under_way_.push_back({outcome, compute_->spans(), communication().spans()});
  return true;
}

StepOutcome Trainer::finish_step() {
  TRAINYARD_ASSERT(!under_way_.empty(), "no step is under way");
  const auto step = under_way_.front();
  under_way_.pop_front();
  auto outcome = step.known;
  const auto reported = results_->take();
  const auto& numbers = reported.numbers;
  if (results_come_later()) measure_on_device(step, outcome);
  outcome.loss = numbers.loss;
  outcome.gradient_norm = numbers.gradient_norm;
  outcome.targets = numbers.targets;
  outcome.finite = numbers.finite != 0;
  outcome.gate_records = reported.gate_records;
  return outcome;
}

// On a GPU the host sees little of a step. The time of a step runs from one end to the next; the device measures the
// rest.
void Trainer::measure_on_device(const UnderWay& step, StepOutcome& outcome) {
  const double end = base::steady_seconds(), seconds = end - std::max(outcome.begun, finished_at_);
  finished_at_ = end;
  const double blocked = compute_->busy_seconds_until(step.waits),
               talking = world_.size > 1 ? communication().busy_seconds_until(step.calls) : 0;
  outcome.exposed_seconds = world_.size > 1 ? blocked - blocked_before_ : 0;
  // What the device waited for is communication, even if the queue of a pipeline stage carried it.
  outcome.communication_seconds = std::max(talking - talking_before_, outcome.exposed_seconds);
  outcome.compute_seconds = std::max(0.0, seconds - outcome.exposed_seconds);
  blocked_before_ = blocked, talking_before_ = talking;
}

// The clip factor is read where it was computed. A step that is not finite changes nothing.
void Trainer::update(std::int64_t completed) {
  const auto rule = params::update_rule(plan_.optimizer, settings_, settings_.learning_rate.at(completed),
                                        completed + 1, results_->numbers());
  store_->update(rule, plan_.global_batch * plan_.sequence);
}

double Trainer::validate(std::int64_t sequences) {
  const base::TraceScope traced(base::traced::validation, "validate", {sequences});
  require_values();
  TRAINYARD_ASSERT(batches_.has_validation(), "a validation of {} sequences without a dataset", sequences);
  MicroLoss total;
  reduce_losses(
      world_, communication(), 0, sequences / plan_.micro_batch,
      [&](std::span<const std::int64_t> micros, std::span<MicroLoss> losses) {
        passes().evaluate(micros, losses,
                          {[&](std::int64_t micro) -> const model::MicroBatch& { return batches_.validation(micro); },
                           [&](std::span<const plan::Occurrence> leases) { store_->begin_evaluation(leases); }});
      },
      total);
  return total.mean();
}

std::int64_t Trainer::place_in_model(const std::string& flat_group) const {
  const auto all = plan::flat_groups(plan_.model);
  return std::find_if(all.begin(), all.end(), [&](const auto& u) { return u.name == flat_group; }) - all.begin();
}

std::string Trainer::diagnose(std::int64_t completed) {
  const std::int64_t passes = std::int64_t{2} * plan_.stages.parts();
  Finding found{plan_.batch().micros(), 0, 0, {}};
  std::int64_t looks = 0;
  const Observer look = [&](std::int64_t micro, std::int64_t pass, const std::string& where, base::View tensor) {
    ++looks;
    if (!found.text.empty() && std::pair(micro, pass) >= std::pair(found.micro, found.pass)) return;
    const auto index = kernels::first_nonfinite(*compute_, tensor);
    if (index < 0) return;
    const auto row = index / tensor.cols() + collectives_.first_row(plan_.micro().rows());
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
    const auto loss = losses[static_cast<std::size_t>(2 * action.place)];
    if (!std::isfinite(loss))
      found = {action.micro, passes, looks,
               fmt::format("micro-batch {}: the loss is {}", action.micro, base::number_text(loss))};
  }
  for (int u = 0; u < context_->flat_groups() && found.text.empty(); ++u)
    if (kernels::first_nonfinite(*compute_, store_->shard_gradient(u)) >= 0)
      found = {plan_.batch().micros(), passes, place_in_model(set_.flat_groups[static_cast<std::size_t>(u)].name),
               fmt::format("the summed gradient of flat group {} is not finite",
                           set_.flat_groups[static_cast<std::size_t>(u)].name)};
  return earliest_of_all(found);
}

// Returns on all ranks the finding of the lowest micro-batch, and of that the earliest. A rank that only knows a
// reduced gradient comes last. Of equal findings the lowest rank's counts.
std::string Trainer::earliest_of_all(const Finding& mine) {
  const std::int64_t key[4] = {mine.text.empty() ? 1 : 0, mine.micro, mine.pass, mine.place};
  std::vector<std::array<std::int64_t, 4>> keys(static_cast<std::size_t>(world_.size));
  world_.control->all_gather(communication(), base::View::of(key, {4}),
                             base::View::of(keys.front().data(), {4 * world_.size}));
  communication().synchronize();
  const auto owner = static_cast<int>(std::min_element(keys.begin(), keys.end()) - keys.begin());
  std::vector<std::uint8_t> text(256, 0);
  if (owner == world_.rank) std::copy_n(mine.text.begin(), std::min<std::size_t>(mine.text.size(), 255), text.begin());
  world_.control->broadcast(communication(), base::View::of(text.data(), {256}), owner);
  communication().synchronize();
  return std::string(reinterpret_cast<const char*>(text.data()));
}

}  // namespace trainyard::engine
