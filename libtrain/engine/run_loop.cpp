// The steps of a run one after another, and what surrounds each.
#include "libtrain/engine/run_loop.h"

#include "kernels/dispatch.h"
#include "kernels/peak/peak.h"
#include "libtrain/base/log.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/comm/agreement.h"
#include "libtrain/engine/agreement.h"
#include "libtrain/engine/good_checkpoint.h"
#include "libtrain/engine/loss_watch.h"
#include "libtrain/engine/rank_record.h"
#include "libtrain/engine/report.h"
#include "libtrain/engine/same_settings.h"
#include "libtrain/engine/set_metrics.h"
#include "libtrain/engine/watch.h"
#include "libtrain/plan/cost/flops.h"
#include "libtrain/plan/spec/layer_model.h"
#include "libtrain/tensor/shared_memory.h"

#include <algorithm>
#include <chrono>
#include <string>

namespace trainyard::engine {

namespace {

// Does a part of a step, and measures it if there is a step profile.
auto in_step(std::optional<StepProfile>& profile, const auto& part) {
  std::optional<StepProfile::Part> measured;
  if (profile) measured.emplace(*profile);
  return part();
}

// "gradient norm 12.5 is above 4.2, 10 times the median of the last 128 steps that changed the weights".
std::string outlier_sentence(const Outlier& o) {
  return fmt::format("{} {} is above {}, {} times the median {} of the last {} steps that changed the weights",
                     o.is_loss ? "loss" : "gradient norm", base::number_text(o.value), base::number_text(o.limit()),
                     o.factor, base::number_text(o.median), o.window);
}

// The seconds that the rank was blocked on its disk so far; empty: nothing is on disk.
std::function<double()> disk_wait_of(Trainer& trainer) {
  const auto* offloaded = trainer.offloaded();
  if (offloaded == nullptr || trainer.offloaded()->storage() == nullptr) return {};
  return [offloaded, inputs = trainer.offloaded_inputs()] {
    return offloaded->blocked_seconds() + (inputs != nullptr ? inputs->blocked_seconds() : 0);
  };
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

RunLoop::RunLoop(const RunContext& run)
    : run_(run), config_(run.setup.config), windows_(run.setup),
      batches_(windows_.training(), windows_.validation(), run.setup.plan.batch(), run.world.reduction_position(),
               plan::slots_of_stage(run.setup.plan, run.setup.plan.stage_of(run.world.rank)).front()),
      trainer_(run.setup.plan, run.setup.step, run.world, batches_), gate_watch_(run.setup.plan.model),
      disk_watch_(disk_wait_of(trainer_)), step_watch_(prediction_for(config_.from_plan.as_read, run.setup.plan)) {}

RunLoop::~RunLoop() {
  if (run_.watchdog) run_.watchdog->ask_what_is_done({});
}

void RunLoop::load(const Start& start) {
  origin_ = load_start(start, trainer_, run_.world, run_.setup);
  start_ = start;
  batches_.begin_at(start.step, start.samples_seen);
  trainer_.set_skipped_steps(start.skipped_steps);
  trainer_.set_loss_scale(start.loss_scale);
  trainer_.set_outliers(start.outlier_window);
  step_ = start.step;
}

RunResult RunLoop::go() {
  if (!run_.trace.empty()) trace_.emplace(run_, trainer_.communication(), step_);
  if (config_.profile_step) profile_.emplace(run_.setup.plan.threads), raise_peaks();
  saving_.emplace(run_, trainer_, start_, origin_);
  watch_calls(run_.watchdog, run_.world, Calls::of_steps);
  if (run_.watchdog)
    run_.watchdog->ask_what_is_done([this] {
      if (const char* files = files_; files != nullptr) return std::string(files);
      const auto saving = saving_->doing();
      return saving.empty() ? trainer_.doing() : saving;
    });
  patiently("opening metrics.jsonl", [&] {
    on_every_rank(run_.world, trainer_.communication(), [&] {
      if (run_.world.rank == 0) metrics_.emplace(config_.output + "/metrics.jsonl", step_);
    });
  });
  for (auto* group : run_.world.groups()) group->ledger().reset();
  if (run_.world.neighbours) run_.world.neighbours->reset_ledgers();
  trainer_.expert_collectives().clear_rounds();
  if (run_.world.rank == 0 && step_ < config_.steps)
    if (const auto few = windows_.few_targets_text(run_.setup, batches_.sizes().size_after(step_),
                                                   batches_.sizes().samples_after(config_.steps));
        !few.empty())
      base::log_warning("{}", few);
  RunResult result;
  bool stopped = false;
  while (step_ < config_.steps && !stopped) stopped = !one_step(result);
  saving_->finish(progress());
  if (metrics_) patiently("mending metrics.jsonl", [&] { metrics_->mend(); });
  trainer_.complete_weights();
  result.code = step_ < config_.steps ? base::ExitCode::requeue : base::ExitCode::done;
  result.step = step_;
  result.steps_done = steps_done_;
  result.checkpoint = saving_->saved_path();
  result.save_seconds = saving_->save_seconds().value_or(0);
  if (profile_) result.step_profile = step_profile();
  RankRecord mine;
  mine.peak_bytes = static_cast<double>(trainer_.memory().measured_total());
  const auto of_others = tensor::resident_bytes_of_peers();  // before any peer may end, and its memory with it
  const auto records = records_of_all(mine, run_.world, trainer_.communication());
  result.memory_report = memory_report(trainer_.memory(), run_.setup, run_.world.rank, records, of_others);
  result.traffic_report = traffic_table(
      run_.setup.plan, run_.world, batches_.sizes().steps_of_sizes(start_.step, step_),
      {validations_done_, run_.setup.validation_sequences}, trainer_.expert_collectives().further_rounds());
  if (auto* offloaded = trainer_.offloaded()) {
    const auto steps = batches_.sizes().steps_of_sizes(start_.step, step_);
    if (offloaded->storage() != nullptr) {
      result.disk_report = disk_table(run_.setup.plan, run_.world.rank, *offloaded, steps);
      result.disk_rates = disk_watch_.text(offloaded->in_steps());
    }
    if (run_.setup.plan.device == base::DeviceKind::cuda)
      result.link_report = link_table(run_.setup.plan, run_.world.rank, *offloaded, steps);
  }
  try {
    patiently("writing report and trace", [&] {
      if (run_.world.rank == 0 && steps_done_ > 0)
        write_report(config_.output,
                     {result.memory_report, result.traffic_report, result.disk_report, result.link_report},
                     (run_.setup.choices.empty() ? "" : run_.setup.choices + "\n") +
                         (result.disk_rates.empty() ? "" : result.disk_rates + "\n") +
                         (step_watch_.text().empty() ? "" : step_watch_.text() + "\n") +
                         reading_text(run_.setup, step_, progress().samples_seen));
      if (trace_) trace_->write();
    });
  } catch (const comm::AgreedError& e) {
    result.trace_error = std::make_shared<comm::AgreedError>(e);
  }
  return result;
}

void RunLoop::patiently(const char* files, const std::function<void()>& work) {
  const PatientWatch patient(run_.watchdog);
  struct Over {
    std::atomic<const char*>& of;
    ~Over() { of = nullptr; }
  } const over{files_};
  files_ = files;
  work();
}

// False if the run stops here on request.
bool RunLoop::one_step(RunResult& result) {
  const auto begun = step_ + trainer_.steps_under_way();
  if (run_.watchdog) run_.watchdog->set_step(begun + 1);
  if (trace_) trace_->begin_step(begun + 1);
  if (profile_) profile_->begin_step(begun + 1);
  disk_watch_.begin_step();
  if (!in_step(profile_, [&] {
        return trainer_.begin_step(begun, [&] { return run_.signals.request() == StopRequest::abandon_step; });
      })) {
    if (profile_) profile_->abandon_step();
    finish_steps(result, 0);
    if (run_.world.rank == 0 && run_.listener.on_note)
      run_.listener.on_note(
          fmt::format("stopping on request: step {} is abandoned, step {} is saved", step_ + 1, step_));
    return false;
  }
  const bool stop = finish_steps(result, trainer_.results_come_later() && !something_follows(begun + 1) ? 1 : 0);
  if (stop) finish_steps(result, 0);
  return !stop && (config_.stop_after == 0 || step_ < config_.stop_after);
}

// Does anything between step `s` and the next one need the result of step `s`?
bool RunLoop::something_follows(std::int64_t s) const {
  const auto due = [s](std::int64_t every) { return every > 0 && s % every == 0; };
  return s == config_.steps || s == config_.stop_after || due(config_.save_every) || due(config_.validate_every);
}

// Finishes steps until at most `under_way` are left. True if the run is asked to stop.
bool RunLoop::finish_steps(RunResult& result, int under_way) {
  bool stop = false;
  while (trainer_.steps_under_way() > under_way) stop |= finish_step(result);
  return stop;
}

bool RunLoop::finish_step(RunResult& result) {
  const auto outcome = in_step(profile_, [&] { return trainer_.finish_step(); });
  const double disk_wait = disk_watch_.end_step();
  if (profile_) profile_->waited(outcome.exposed_seconds);
  if (outcome.fate == StepFate::ends_run && outcome.outlier) refuse_outlier(outcome);
  if (outcome.fate == StepFate::ends_run) refuse_step(outcome);
  const bool skipped = outcome.fate == StepFate::skipped;
  const double begin = std::max(outcome.begun, finished_at_);
  ++step_;
  ++steps_done_;
  if (!skipped && outcome.targets > 0) result.loss = outcome.loss;
  double writing = 0;
  if (config_.save_every > 0 && step_ % config_.save_every == 0 && step_ < config_.steps)
    writing = saving_->take(progress());
  StepMetrics m = metrics_of(outcome);
  m.sets = metrics_of_sets({.batch = batches_.batch_of(step_ - 1),
                            .first_sample = batches_.sizes().samples_after(step_ - 1),
                            .own = outcome.losses_of_sequences},
                           run_.setup.sets, windows_.mixture(), run_.world, trainer_.communication());
  const double ended = now();
  m.step_seconds = ended - begin - writing;
  disk_watch_.add(m.step_seconds);
  if (config_.validate_every > 0 && (step_ % config_.validate_every == 0 || step_ == config_.steps)) {
    std::vector<std::int64_t> sequences;
    for (const auto& set : run_.setup.sets)
      if (set.validation_sequences > 0) sequences.push_back(set.validation_sequences);
    const auto found = trainer_.validate_sets(sequences);
    m.validation_loss = found.loss;
    add_validation(found.of_sets, run_.setup.sets, m.sets);
    ++validations_done_;
  }
  finished_at_ = now();
  m.validation_seconds = finished_at_ - ended;
  const auto sequences = batches_.sizes().size_after(step_ - 1);
  m.tokens_per_second = static_cast<double>(sequences * run_.setup.plan.sequence) / m.step_seconds;
  m.model_flops_per_second =
      plan::step_flops(run_.setup.plan.model, sequences, run_.setup.plan.lengths()) / m.step_seconds;
  const bool stop = agree(outcome, disk_wait, m);
  m.save_seconds = saving_->take_save_seconds();
  if (run_.world.rank == 0) {
    const auto unlike_plan = step_watch_.look(m, sequences == run_.setup.plan.global_batch);
    metrics_->write(m);
    if (!unlike_plan.empty()) base::log_warning("{}", unlike_plan);
    if (skipped)
      base::log_warning("step {} is skipped: {}; weights and states stay as they were", m.step, skip_sentence(outcome));
    else if (const auto warning = m.loss ? loss_watch_.look(*m.loss) : ""; !warning.empty())
      base::log_warning("{}", warning);
    if (m.gates && !skipped)
      for (const auto& sentence : gate_watch_.look(*m.gates)) base::log_warning("{}", sentence);
    if (run_.listener.on_step) run_.listener.on_step(m, config_.steps);
  }
  return stop;
}

// Gathers the records of all ranks: stop requests, the state of the background writers, the slowest rank's times.
bool RunLoop::agree(const StepOutcome& o, double disk_wait, StepMetrics& m) {
  RankRecord mine;
  mine.stop = run_.signals.request() != StopRequest::none ? 1 : 0;
  saving_->report(mine);
  mine.compute = o.compute_seconds;
  mine.communication = o.communication_seconds;
  mine.exposed = o.exposed_seconds;
  mine.peak_bytes = static_cast<double>(trainer_.memory().measured_total());
  mine.expert_rounds = static_cast<double>(o.expert_rounds);
  mine.disk_wait = disk_wait;
  const auto all = records_of_all(mine, run_.world, trainer_.communication());
  add_slowest(all, m);
  saving_->follow(all);
  return any_stops(all);
}

// Why a step is skipped.
std::string RunLoop::skip_sentence(const StepOutcome& o) const {
  if (o.outlier) return outlier_sentence(*o.outlier);
  return fmt::format("loss {}, gradient norm {}{}", base::number_text(o.loss), base::number_text(o.gradient_norm),
                     scale_text(o));
}

// What a skipped step tells of the loss scale: ", loss scale 65536, next 32768".
std::string RunLoop::scale_text(const StepOutcome& o) const {
  if (o.loss_scale == 0) return "";
  return fmt::format(", loss scale {}, next {}", o.loss_scale, trainer_.loss_scale().scale());
}

StepMetrics RunLoop::metrics_of(const StepOutcome& o) const {
  StepMetrics m;
  m.step = step_;
  m.steps = config_.steps;
  if (o.targets > 0) m.loss = o.loss;
  m.learning_rate = o.learning_rate;
  m.gradient_norm = o.gradient_norm;
  m.tokens_seen = progress().tokens_seen;
  m.skipped_steps = trainer_.skipped_steps();
  m.loss_scale = o.loss_scale;
  if (o.outlier) m.outlier = o.outlier->is_loss ? "loss" : "gradient_norm", m.outlier_limit = o.outlier->limit();
  const auto& model = run_.setup.plan.model;
  if (plan::has_experts(model)) m.gates = gate_metrics(model, o.gate_records);
  return m;
}

// A resume may have changed the batch, so the number of steps does not determine what was consumed before `start_`.
Progress RunLoop::progress() const {
  const auto samples = batches_.sizes().samples_after(step_) - start_.samples_seen;
  return {step_,
          start_.samples_seen + samples,
          start_.tokens_seen + samples * run_.setup.plan.sequence,
          trainer_.skipped_steps(),
          trainer_.loss_scale().stored(),
          trainer_.outliers().stored()};
}

// Measures peaks before the first step and after the last one, because other work may come and go. Every rank measures,
// so that all cores are as busy as they are in a step.
void RunLoop::raise_peaks() {
  constexpr std::int64_t rounds = 1 << 20;
  constexpr double least_seconds = 0.3, most_seconds = 2;
  constexpr int tries = 5;  // without a faster one
  const auto exec = tensor::Exec::caller(nullptr, run_.setup.plan.threads);
  const auto fastest = [&](std::int64_t (*work)(tensor::Exec&, std::int64_t)) {
    double rate = 0;
    const double start = now();
    for (int slower = 0; now() - start < least_seconds || (slower < tries && now() - start < most_seconds); ++slower) {
      const double begin = now();
      const auto operations = work(*exec, rounds);
      const double found = static_cast<double>(operations) / (now() - begin);
      if (found > rate) rate = found, slower = -1;
    }
    return rate;
  };
  const auto dtype = run_.setup.plan.dtype;
  peaks_.f32 = std::max(peaks_.f32, fastest(kernels::multiply_adds));
  peaks_.bf16 = std::max(peaks_.bf16, peaks_.f32);
  if (dtype == base::DType::bf16 && kernels::base_of(kernels::active_isa()) != kernels::active_isa())
    peaks_.bf16 = std::max(peaks_.bf16, fastest(kernels::bf16_multiply_adds));
}

std::string RunLoop::step_profile() {
  raise_peaks();
  return profile_->text(run_.world.rank, run_.world.size, instructions_of(run_.setup.plan.dtype), peaks_);
}

// Why no smaller loss scale can help.
std::string RunLoop::end_of_scale(const StepOutcome& o) const {
  if (o.loss_scale == 0) return "";
  return fmt::format(", loss scale {}, after {} in a row that {} skipped", o.loss_scale,
                     base::counted(trainer_.loss_scale().skips_in_a_row() - 1, "step"),
                     trainer_.loss_scale().skips_in_a_row() == 2 ? "was" : "were");
}

// Where the run can go on from. Collective.
std::string RunLoop::good_sentence() {
  saving_->finish_publishing();
  std::string good;
  patiently("reading the checkpoint back", [&] {
    good = on_rank_zero(run_.world, trainer_.communication(), [&] {
      const auto rise = explosion_sentence(config_.output + "/metrics.jsonl");
      return good_checkpoint_sentence(checkpoints_folder(config_.output), step_) +
             (rise.empty() ? "" : ", but " + rise + base::text(" ($resume PATH), or begin anew in another $output"));
    });
  });
  return good;
}

void RunLoop::refuse_step(const StepOutcome& o) {
  while (trainer_.steps_under_way() > 0) trainer_.finish_step();
  const auto finding = trainer_.diagnose(step_);
  const auto good = good_sentence();
  throw comm::AgreedError(
      base::ExitCode::check_failed,
      fmt::format("step {} is not finite: loss {}, gradient norm {}{}; {}", step_ + 1, base::number_text(o.loss),
                  base::number_text(o.gradient_norm), end_of_scale(o), finding),
      base::text("{}; lower $learning-rate{}, or raise $warmup-steps", good,
                 saving_->saved_step() < 0 ? "" : base::text(" (a resume needs $change learning-rate)")));
}

// Every step of a whole window is an outlier.
void RunLoop::refuse_outlier(const StepOutcome& o) {
  const auto good = good_sentence();
  throw comm::AgreedError(
      base::ExitCode::check_failed,
      fmt::format("step {} is the last of {} outliers in a row: {}", step_ + 1, trainer_.outliers().skips_in_a_row(),
                  outlier_sentence(*o.outlier)),
      base::text("{}; raise the factor of $skip-outliers{}, or lower $learning-rate", good,
                 saving_->saved_step() < 0 ? "" : base::text(" (a resume needs $change skip-outliers)")));
}

}  // namespace trainyard::engine
