// The loop of a run, and what surrounds it.
#include "libtrain/engine/run.h"

#include "kernels/dispatch.h"
#include "libtrain/base/log.h"
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/manifest.h"
#include "libtrain/checkpoint/rank_writer.h"
#include "libtrain/comm/core_share.h"
#include "libtrain/comm/delayed.h"
#include "libtrain/comm/reason.h"
#include "libtrain/engine/agreement.h"
#include "libtrain/engine/build_info.h"
#include "libtrain/engine/good_checkpoint.h"
#include "libtrain/engine/identity.h"
#include "libtrain/engine/place.h"
#include "libtrain/engine/report.h"
#include "libtrain/engine/restore.h"
#include "libtrain/engine/run_folder.h"
#include "libtrain/engine/run_tokenizer.h"
#include "libtrain/engine/same_settings.h"
#include "libtrain/engine/saver.h"
#include "libtrain/engine/setup.h"
#include "libtrain/engine/watch.h"
#include "libtrain/io/atomic_file.h"
#include "libtrain/tensor/gpu.h"
#include "libtrain/plan/flops.h"
#include "libtrain/plan/memory.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <optional>
#include <vector>

namespace trainyard::engine {

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// What every rank tells every other at the end of a step.
struct Record {
  double stop = 0, written_step = -1, published_step = -1, failed = 0;
  double compute = 0, communication = 0, exposed = 0, peak_bytes = 0;
};
constexpr std::int64_t record_width = sizeof(Record) / sizeof(double);

// Rank 0 holds the run folder as long as the result lives; the others get none. All learn the holder's name.
struct HeldOutput {
  std::unique_ptr<HeldFolder> folder;
  std::string writer;
};

// What the run reads. InputError where that is less than it asks for.
struct Windows {
  Windows(const RunConfig& config, const RunSetup& setup)
      : training(config.data, setup.index, setup.index.train, setup.plan.sequence, setup.mask, data::Order::keyed, config.seed) {
    if (config.validate_every > 0)
      validation.emplace(config.data, setup.index, setup.index.validation, setup.plan.sequence, setup.mask, data::Order::as_stored, config.seed);
    if (training.count() == 0)
      throw base::InputError(fmt::format("{} holds no window of {} tokens", config.data, setup.plan.sequence + 1), "give more text, or a shorter --sequence");
    if (validation && validation->count() < static_cast<std::uint64_t>(config.validation_sequences))
      throw base::InputError(fmt::format("the validation split holds {} sequences, --validation-sequences asks for {}", validation->count(), config.validation_sequences),
                             "lower --validation-sequences, or make shards with a larger --validation");
  }
  data::WindowDataset training;
  std::optional<data::WindowDataset> validation;
};

class Runner {
 public:
  Runner(const RunConfig& config, const RunSetup& setup, World& world, const SignalWatcher& signals, const RunListener& listener, comm::Watchdog* watchdog, const HeldOutput& held)
      : config_(config), setup_(setup), world_(world), signals_(signals), listener_(listener), watchdog_(watchdog), held_(held), windows_(config, setup) {
    batches_.emplace(windows_.training, windows_.validation ? &*windows_.validation : nullptr, setup.plan.batch(), world.rank);
    trainer_.emplace(setup.plan, setup.step, world, *batches_);
  }

  // Collective; throws InputError on all ranks alike when the checkpoint turns out to be damaged.
  void load(const Start& start) {
    load_start(start, *trainer_, world_, config_);
    start_ = start;
    batches_->begin_at(start.step, start.samples_seen);
    step_ = start.step;
    if (!start.own) return;   // a checkpoint that lies elsewhere does not make this run's progress safe, and --resume auto would not find it
    saved_step_ = step_;
    saved_path_ = start.path;
  }

  std::int64_t step() const { return step_; }   // completed; -1 before load()

  RunResult go() {
    settle_in_folder();
    saver_.emplace(checkpoints_folder(config_.output), trainer_->memory()[tensor::Category::save_snapshot], trainer_->context(), trainer_->store(), config_.keep,
                   checkpoint::WriteOptions{config_.save_throttle, [this] { return leaving_ || signals_.request() != StopRequest::none; }},
                   [this] { held_.folder->lock().require_alone(); });   // of rank 0, which publishes
    if (config_.save_every > 0) saver_->touch();
    watch_calls(watchdog_, world_);
    on_every_rank(world_, trainer_->exchange(), [&] {
      if (world_.rank == 0) metrics_.emplace(config_.output + "/metrics.jsonl", step_);
    });
    world_.data->ledger().reset();
    RunResult result;
    bool stopped = false;
    while (step_ < config_.steps && !stopped) stopped = !one_step(result);
    finish_saving();
    if (metrics_) metrics_->mend();
    trainer_->complete_weights();
    result.code = step_ < config_.steps ? base::ExitCode::requeue : base::ExitCode::done;
    result.step = step_;
    result.steps_done = steps_done_;
    result.checkpoint = saved_path_;
    result.memory_report = memory_report();
    result.traffic_report = traffic_table(setup_.plan, *world_.data, steps_done_, {validations_done_, config_.validation_sequences});
    if (world_.rank == 0 && steps_done_ > 0) write_report(result);
    return result;
  }

 private:
  void settle_in_folder() {
    const auto from = start_.weights_only ? std::string() : start_.path;
    const auto place = on_rank_zero(world_, trainer_->exchange(), [&] {
      keep_tokenizer(config_.output, config_.data, setup_.index);
      return settle(config_.output, from, step_);
    });
    if (place == from) return;
    saved_step_ = step_;   // an abandoned checkpoint is the run's own again
    saved_path_ = place;
  }

  // False when the run stops here on request.
  bool one_step(RunResult& result) {
    const auto begun = step_ + trainer_->steps_under_way();
    if (watchdog_) watchdog_->set_step(begun + 1);
    if (!trainer_->begin_step(begun, [&] { return signals_.request() == StopRequest::abandon_step; })) {
      finish_steps(result, 0);
      note(fmt::format("stopping on request: step {} is abandoned, step {} is saved", step_ + 1, step_));
      return false;
    }
    const bool stop = finish_steps(result, trainer_->results_come_later() && !something_follows(begun + 1) ? 1 : 0);
    if (stop) finish_steps(result, 0);
    return !stop && (config_.stop_after == 0 || step_ < config_.stop_after);
  }

  // Is there anything between step `s` and the next one that needs its result.
  bool something_follows(std::int64_t s) const {
    const auto due = [s](std::int64_t every) { return every > 0 && s % every == 0; };
    return s == config_.steps || s == config_.stop_after || due(config_.save_every) || due(config_.validate_every);
  }

  // Until at most `under_way` steps are left; true when the run is asked to stop.
  bool finish_steps(RunResult& result, int under_way) {
    bool stop = false;
    while (trainer_->steps_under_way() > under_way) stop |= finish_step(result);
    return stop;
  }

  bool finish_step(RunResult& result) {
    const auto outcome = trainer_->finish_step();
    if (!outcome.finite) refuse_step(outcome);
    const double begin = std::max(outcome.begun, finished_at_);
    ++step_;
    ++steps_done_;
    result.loss = outcome.loss;
    if (config_.save_every > 0 && step_ % config_.save_every == 0 && step_ < config_.steps) take_snapshot();
    StepMetrics m = metrics_of(outcome);
    if (config_.validate_every > 0 && (step_ % config_.validate_every == 0 || step_ == config_.steps)) {
      m.validation_loss = trainer_->validate(config_.validation_sequences);
      ++validations_done_;
    }
    finished_at_ = now();
    m.step_seconds = finished_at_ - begin;
    m.tokens_per_second = static_cast<double>(config_.global_batch * setup_.plan.sequence) / m.step_seconds;
    m.model_flops_per_second = plan::step_flops(setup_.plan.model, config_.global_batch, setup_.plan.sequence) / m.step_seconds;
    const bool stop = agree(outcome, m);
    if (world_.rank == 0) {
      metrics_->write(m);
      if (listener_.on_step) listener_.on_step(m, config_.steps);
    }
    return stop;
  }

  StepMetrics metrics_of(const StepOutcome& o) const {
    StepMetrics m;
    m.step = step_;
    m.loss = o.loss;
    m.learning_rate = o.learning_rate;
    m.gradient_norm = o.gradient_norm;
    m.tokens_seen = tokens_seen();
    return m;
  }

  // A resume may have changed the batch, so that steps say nothing about what was consumed before.
  std::int64_t samples_since_start() const { return (step_ - start_.step) * config_.global_batch; }
  std::int64_t tokens_seen() const { return start_.tokens_seen + samples_since_start() * setup_.plan.sequence; }

  // Gathers the records of all ranks: stop requests, the state of the background writers, the slowest rank's times.
  bool agree(const StepOutcome& o, StepMetrics& m) {
    Record mine;
    mine.stop = signals_.request() != StopRequest::none ? 1 : 0;
    mine.written_step = static_cast<double>(saver_->written_step());
    mine.published_step = static_cast<double>(saver_->published_step());
    mine.failed = saver_->failed() ? 1 : 0;
    mine.compute = o.compute_seconds;
    mine.communication = o.communication_seconds;
    mine.exposed = o.exposed_seconds;
    mine.peak_bytes = static_cast<double>(trainer_->memory().measured_total());
    const auto all = gather(mine);
    bool stop = false, failed = false;
    double slowest = -1;
    for (const auto& r : all) {
      stop |= r.stop != 0;
      failed |= r.failed != 0;
      m.peak_bytes = std::max(m.peak_bytes, static_cast<std::int64_t>(r.peak_bytes));
      if (r.compute <= slowest) continue;
      slowest = r.compute;
      m.compute_seconds = r.compute;
      m.communication_seconds = r.communication;
      m.hidden_communication_seconds = std::max(0.0, r.communication - r.exposed);
    }
    follow_writers(all, failed);
    return stop;
  }

  std::vector<Record> gather(const Record& mine) {
    std::vector<Record> all(static_cast<std::size_t>(world_.size));
    world_.control->all_gather(trainer_->exchange(), base::View::of(reinterpret_cast<const double*>(&mine), {record_width}),
                               base::View::of(reinterpret_cast<double*>(all.data()), {record_width * world_.size}));
    host_call_over(trainer_->exchange()).wait();
    return all;
  }

  void take_snapshot() {
    if (saver_->taken_step() >= 0 && saved_step_ != saver_->taken_step()) finish_publishing();
    saver_->take(state());
    publish_asked_ = false;
  }

  void follow_writers(const std::vector<Record>& all, bool failed) {
    if (failed) {
      saver_->wait();
      // What the others wrote of this checkpoint is removed too; older ones stay.
      world_.control->barrier(trainer_->exchange());
      trainer_->exchange().synchronize();
      if (world_.rank == 0) checkpoint::discard_partial(checkpoints_folder(config_.output), saver_->taken());
      on_every_rank(world_, trainer_->exchange(), [&] { saver_->rethrow_failure(); });
    }
    const auto taken = saver_->taken_step();
    if (taken < 0 || saved_step_ == taken) return;
    const bool written = std::all_of(all.begin(), all.end(), [&](const Record& r) { return r.written_step == static_cast<double>(taken); });
    if (written && !publish_asked_) {
      publish_asked_ = true;
      if (world_.rank == 0) saver_->publish();
    }
    if (all[0].published_step != static_cast<double>(taken)) return;
    saved_step_ = taken;
    saved_path_ = checkpoints_folder(config_.output) + "/" + checkpoint::step_name(taken);
  }

  // Waits until the snapshot that was taken is published, on all ranks.
  void finish_publishing() {
    while (saved_step_ != saver_->taken_step()) {
      saver_->wait();
      Record mine;
      mine.written_step = static_cast<double>(saver_->written_step());
      mine.published_step = static_cast<double>(saver_->published_step());
      mine.failed = saver_->failed() ? 1 : 0;
      const auto all = gather(mine);
      follow_writers(all, std::any_of(all.begin(), all.end(), [](const Record& r) { return r.failed != 0; }));
    }
  }

  void finish_saving() {
    leaving_ = true;   // nothing is left that a slow writer could spare
    if (saver_->taken_step() >= 0) finish_publishing();
    if (saved_step_ == step_) return;
    take_snapshot();
    finish_publishing();
  }

  checkpoint::RunState state() const {
    checkpoint::RunState s;
    s.step = step_;
    s.samples_seen = start_.samples_seen + samples_since_start();
    s.tokens_seen = tokens_seen();
    s.seed = config_.seed;
    s.dtype = setup_.plan.dtype;
    s.model = setup_.plan.model;
    s.identity = setup_.identity;
    s.plan = plan::json_of(setup_.plan);
    s.plan["ranks"] = world_.size, s.plan["communicator"] = world_.kind;
    s.versions = build_versions();
    s.provenance = {{"data", base::text_of_path(config_.data)},
                    {"tokenizer", {{"name", setup_.index.tokenizer}, {"source", setup_.index.tokenizer_source}, {"crc32c", setup_.index.tokenizer_crc32c}}}};
    s.isa = kernels::name_of(kernels::active_isa());
    s.device_kind = config_.device;
    s.writer = held_.writer;
    return s;
  }

  [[noreturn]] void refuse_step(const StepOutcome& o) {
    while (trainer_->steps_under_way() > 0) trainer_->finish_step();
    const auto finding = trainer_->diagnose(step_);
    if (saver_->taken_step() >= 0) finish_publishing();
    const auto good = on_rank_zero(world_, trainer_->exchange(), [&] { return good_checkpoint_sentence(checkpoints_folder(config_.output), step_); });
    throw comm::AgreedError(base::ExitCode::check_failed, fmt::format("step {} is not finite: loss {}, gradient norm {}; {}", step_ + 1, o.loss, o.gradient_norm, finding),
                           fmt::format("{}; lower --learning-rate{}, or raise --warmup-steps", good, saved_step_ < 0 ? "" : " (a resume needs --change learning_rate)"));
  }

  void note(const std::string& line) const {
    if (world_.rank == 0 && listener_.on_note) listener_.on_note(line);
  }

  SizeTable memory_report() const {
    const auto measured = trainer_->memory().measured();
    const auto& device = setup_.step.device;
    auto taken = peak_resident_bytes(), there = total(measured);
    if (device.kind == base::DeviceKind::cuda) {
      const auto info = tensor::gpu_info(device.index);
      taken = info.total_bytes - info.free_bytes;
      there -= measured[static_cast<std::size_t>(tensor::Category::save_snapshot)];
    }
    return memory_table(trainer_->memory().predicted(), measured, taken, there, setup_.plan.memory.reserve);
  }

  void write_report(const RunResult& result) const {
    const auto path = config_.output + "/report.txt";
    try {
      if (io::file_size(path) > 0 && !io::read_file(path).starts_with("memory"))
        throw base::InputError(fmt::format("{} is not a report of a run: it is kept", path), "move it away");
      io::write_file(path, result.memory_report.text() + "\n" + result.traffic_report.text());
    } catch (const base::Error& e) {   // the run is done, and its checkpoint published
      base::log_warning("there is no report of this run: {}", e.what());
    }
  }

  const RunConfig& config_;
  const RunSetup& setup_;
  World& world_;
  const SignalWatcher& signals_;
  const RunListener& listener_;
  comm::Watchdog* watchdog_;
  const HeldOutput& held_;
  Windows windows_;
  std::optional<Batches> batches_;
  std::optional<Trainer> trainer_;
  std::atomic<bool> leaving_{false};   // read by the writer
  std::optional<Saver> saver_;
  std::optional<MetricsFile> metrics_;
  Start start_;
  std::int64_t step_ = -1, saved_step_ = -1, steps_done_ = 0, validations_done_ = 0;
  std::string saved_path_;   // of saved_step_
  double finished_at_ = 0;
  bool publish_asked_ = false;
};

// Of memory that the ranks will need and their machine has not. A GPU says so itself.
std::string shortage_of(const RunSetup& setup, int ranks_on_node) {
  if (setup.plan.device == base::DeviceKind::cuda) return {};
  return machine_shortage(setup.plan.memory.arenas() + setup.plan.memory.reserve, ranks_on_node);
}

std::string start_text(const Start& start, const RunConfig& config) {
  if (start.path.empty()) return "would begin anew\n";
  if (start.weights_only) return fmt::format("would begin anew with the weights of {}\n", start.path);
  if (start.step >= config.steps) return fmt::format("would do nothing: {} is of step {} of {}\n", start.path, start.step, config.steps);
  return fmt::format("would go on after step {} of {}, from {}\n", start.step, config.steps, start.path);
}

RunSetup agreed_setup(const RunConfig& config, World& world, tensor::Exec& exec) {
  const int fair_threads = comm::threads_of_rank(*world.control, exec);
  const int threads = config.threads > 0 ? config.threads : fair_threads;
  warn_of_too_many(config.threads, world);
  // Rank 0 finds what is wrong; only then do the others read the same files.
  const auto expected = nlohmann::json::parse(on_rank_zero(world, exec, [&] {
    require_output_beside_data(config);
    return make_setup(config, world.size, threads).identity.dump();
  }));
  RunSetup setup;
  on_every_rank(world, exec, [&] {
    setup = make_setup(config, world.size, threads);
    if (const auto other = differing_fields(expected, setup.identity); !other.empty())
      throw base::InputError(fmt::format("this rank reads another {} than rank 0", fmt::join(other, ", ")), "is the folder shared, and did a file change while the job started?");
  });
  return setup;
}

HeldOutput agreed_lock(const RunConfig& config, World& world, tensor::Exec& exec) {
  HeldOutput held;
  held.writer = on_rank_zero(world, exec, [&] {
    held.folder = take_run_folder(config.output);
    comm::forget_reasons(config.output + "/exit");   // of an earlier start
    return held.folder->lock().name();
  });
  return held;
}

Start agreed_start(const RunConfig& config, const RunSetup& setup, World& world, tensor::Exec& exec, const std::vector<std::string>& damaged) {
  const auto chosen = nlohmann::json::parse(on_rank_zero(world, exec, [&] {
    const auto s = choose_start(config, setup, world.size, damaged);
    return nlohmann::json{{"path", base::text_of_path(s.path)}, {"weights_only", s.weights_only}, {"step", s.step}, {"samples_seen", s.samples_seen}, {"tokens_seen", s.tokens_seen}, {"own", s.own}, {"newest", s.newest}}.dump();
  }));
  return {base::path_of_text(chosen["path"].get<std::string>()), chosen["weights_only"], chosen["step"], chosen["samples_seen"], chosen["tokens_seen"], chosen["own"], chosen["newest"]};
}

}  // namespace

RunResult run(const RunConfig& asked, World& world, const SignalWatcher& signals, const RunListener& listener, int ranks_on_node) {
  auto caller = tensor::Exec::caller(nullptr, 1);
  auto config = asked;
  require_same(shared_settings(config), world, world.exchange ? *world.exchange : *caller);
  const auto device = agree_on_device(config, world, world.exchange ? *world.exchange : *caller);
  if (device.kind == base::DeviceKind::cuda) move_to_gpu(config, world, device, ranks_on_node);
  else require_same_instructions(world, world.exchange ? *world.exchange : *caller);
  auto& exec = world.exchange ? *world.exchange : *caller;
  auto setup = agreed_setup(config, world, exec);
  setup.step.device = device;
  if (const auto shortage = shortage_of(setup, ranks_on_node); !shortage.empty() && world.rank == 0) base::log_warning("{}: swapped, or ended by the system", shortage);
  const auto watchdog = watch_peers(world, exec, config.hang_timeout, comm::end_job_on_hang(config.output + "/exit", world.rank));
  if (config.collective_delay > 0) world.data = comm::delayed(std::move(world.data), config.collective_delay);
  const auto held = agreed_lock(config, world, exec);
  std::vector<std::string> damaged;
  auto start = agreed_start(config, setup, world, exec, damaged);
  const auto note = [&](const std::string& line) {
    if (world.rank == 0 && listener.on_note) listener.on_note(line);
  };
  std::optional<Runner> runner;
  const auto reached = [&] { return config.stop_after > 0 && start.step >= config.stop_after; };
  while (start.step < config.steps && !reached()) {
    if (!start.path.empty()) note(fmt::format("{} {}", start.weights_only ? "weights from" : "resuming from", start.path));
    if (!runner) on_every_rank(world, exec, [&] { runner.emplace(config, setup, world, signals, listener, watchdog.get(), held); });
    try {
      return or_fail(world, [&] {
        runner->load(start);
        return runner->go();
      });
    } catch (const comm::AgreedError& e) {
      const bool next = runner->step() < 0 && config.resume == "auto" && !start.weights_only && !start.path.empty() && e.code() == base::ExitCode::input_refused;
      if (!next) throw;
      if (world.rank == 0) base::log_warning("checkpoint {} is passed over: {}", start.path, e.what());
      damaged.push_back(start.path);
      start = agreed_start(config, setup, world, exec, damaged);
    }
  }
  // Nothing is left to do; who names an abandoned checkpoint goes back to it all the same.
  if (!start.path.empty() && !start.weights_only)
    start.path = on_rank_zero(world, exec, [&] { return is_abandoned(config.output, start.path) ? settle(config.output, start.path, start.step) : start.path; });
  if (start.step < config.steps) return {base::ExitCode::requeue, start.step, 0, 0, start.path, config.resume == "auto" || start.newest ? "" : start.path, {}, {}};
  note(fmt::format("all {} steps are done already", config.steps));
  return {base::ExitCode::done, start.step, 0, 0, start.path, {}, {}, {}};
}

std::string dry_run(const RunConfig& asked, World& world, base::Sizes sizes, int ranks_on_node) {
  auto caller = tensor::Exec::caller(nullptr, 1);
  auto& exec = world.exchange ? *world.exchange : *caller;
  auto config = asked;
  require_same(shared_settings(config), world, exec);
  if (agree_on_device(config, world, exec).kind != base::DeviceKind::cuda) require_same_instructions(world, exec);
  const auto setup = agreed_setup(config, world, exec);
  on_every_rank(world, exec, [&] { 
    const auto shortage = shortage_of(setup, ranks_on_node);
    if (!shortage.empty()) throw base::EnvironmentError(shortage, "more ranks on more machines, a higher --zero, or a smaller --micro-batch; or look from the machine that the job runs on");
  });
  return on_rank_zero(world, exec, [&] {
    require_usable(config.output);
    const auto start = choose_start(config, setup, world.size, {}, RunFolder::looked_at);
    const Windows windows(config, setup);
    return plan_text(setup.plan, config.output, sizes) + start_text(start, config);
  });
}

}  // namespace trainyard::engine
