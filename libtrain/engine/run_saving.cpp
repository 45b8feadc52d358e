// Checkpoints of a run, from the snapshot to their final name.
#include "libtrain/engine/run_saving.h"

#include "libtrain/base/here_and_now.h"
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/document_tokens.h"
#include "libtrain/checkpoint/file_names.h"
#include "libtrain/checkpoint/manifest.h"
#include "libtrain/checkpoint/rank_writer.h"
#include "libtrain/engine/agreement.h"
#include "libtrain/engine/build_info.h"
#include "libtrain/engine/run_tokenizer.h"
#include "libtrain/engine/same_settings.h"
#include "libtrain/engine/watch.h"
#include "libtrain/plan/plan_json.h"

namespace trainyard::engine {

namespace {

// While it lives, ranks wait for one another's disks: to the watchdog a rank that writes is not missing.
class Waiting {
 public:
  Waiting(comm::Watchdog* watchdog, std::atomic<std::int64_t>& writing, std::int64_t step)
      : patient_(watchdog), writing_(writing) {
    writing_ = step;
  }
  ~Waiting() { writing_ = -1; }
  Waiting(const Waiting&) = delete;

 private:
  PatientWatch patient_;
  std::atomic<std::int64_t>& writing_;
};

}  // namespace

RunSaving::RunSaving(const RunContext& run, Trainer& trainer, const Start& start, nlohmann::json origin)
    : run_(run), trainer_(trainer), folder_(checkpoints_folder(run.setup.config.output)), origin_(std::move(origin)) {
  // A checkpoint that lies elsewhere does not make this run's progress safe, and --resume auto would not find it.
  if (start.own) {
    saved_step_ = start.step;
    saved_path_ = start.path;
  }
  settle_in_folder(start);
  saver_.emplace(
      folder_, trainer.memory()[tensor::Category::save_snapshot], trainer.context(), trainer.store(),
      run.setup.config.keep,
      checkpoint::WriteOptions{
          run.setup.config.save_throttle,
          [this] { return leaving_ || waits_for_writer() || run_.signals.request() != StopRequest::none; }},
      [this] { run_.held.folder->lock().require_alone(); },  // called on rank 0, which publishes
      run.setup.plan.stages);
  if (run.setup.config.save_every > 0) saver_->touch();
}

void RunSaving::settle_in_folder(const Start& start) {
  const auto& config = run_.setup.config;
  const auto from = start.weights_only ? std::string() : start.path;
  const auto place = on_rank_zero(run_.world, trainer_.communication(), [&] {
    keep_tokenizer(config.output, run_.setup.sets.front().folder, run_.setup.index);
    return settle(config.output, from, start.step);
  });
  if (place == from) return;
  saved_step_ = start.step;
  saved_path_ = place;
}

bool RunSaving::waits_for_writer() const { return run_.setup.plan.offload.of_states(); }

double RunSaving::take(const Progress& progress) {
  finish_publishing();
  taken_at_ = base::steady_seconds();
  publish_asked_ = false;
  if (!waits_for_writer()) {
    saver_->take(state(progress));
    return 0;
  }
  // Ranks write for different times, and none is missing before the slowest has written.
  const Waiting waiting(run_.watchdog, writing_, progress.step);
  saver_->take(state(progress));
  run_.world.control->barrier(trainer_.communication());
  trainer_.communication().synchronize();
  return base::steady_seconds() - taken_at_;
}

std::string RunSaving::doing() const {
  const std::int64_t step = writing_;
  return step < 0 ? "" : fmt::format("writing step {}", step);
}

void RunSaving::report(RankRecord& mine) const {
  mine.written_step = static_cast<double>(saver_->written_step());
  mine.published_step = static_cast<double>(saver_->published_step());
  mine.failed = saver_->failed() ? 1 : 0;
}

void RunSaving::follow(const std::vector<RankRecord>& all) {
  if (any_failed(all)) discard();
  const auto taken = saver_->taken_step();
  if (taken < 0 || saved_step_ == taken) return;
  if (all_wrote(all, taken) && !publish_asked_) {
    publish_asked_ = true;
    if (run_.world.rank == 0) saver_->publish();
  }
  if (all[0].published_step != static_cast<double>(taken)) return;
  saved_step_ = taken;
  saved_path_ = folder_ + "/" + checkpoint::step_name(taken);
  save_seconds_ = new_save_seconds_ = base::steady_seconds() - taken_at_;
}

// Removes what all ranks wrote of this checkpoint; older checkpoints stay. Throws what the failed rank met.
void RunSaving::discard() {
  const Waiting waiting(run_.watchdog, writing_, saver_->taken_step());
  saver_->wait();
  run_.world.control->barrier(trainer_.communication());
  trainer_.communication().synchronize();
  if (run_.world.rank == 0) checkpoint::discard_partial(folder_, saver_->taken());
  on_every_rank(run_.world, trainer_.communication(), [&] { saver_->rethrow_failure(); });
}

void RunSaving::finish_publishing() {
  if (saver_->taken_step() < 0 || saved_step_ == saver_->taken_step()) return;
  const Waiting waiting(run_.watchdog, writing_, saver_->taken_step());
  while (saved_step_ != saver_->taken_step()) {
    saver_->wait();
    RankRecord mine;
    report(mine);
    follow(records_of_all(mine, run_.world, trainer_.communication()));
  }
}

void RunSaving::finish(const Progress& progress) {
  leaving_ = true;  // no step is left that a slow writer could spare
  finish_publishing();
  if (saved_step_ == progress.step) return;
  take(progress);
  finish_publishing();
}

checkpoint::RunState RunSaving::state(const Progress& progress) const {
  checkpoint::RunState s;
  s.step = progress.step;
  s.samples_seen = progress.samples_seen;
  s.tokens_seen = progress.tokens_seen;
  s.skipped_steps = progress.skipped_steps;
  s.loss_scale = progress.loss_scale;
  s.outlier_window = progress.outlier_window;
  s.seed = run_.setup.config.seed;
  s.dtype = run_.setup.plan.dtype;
  s.optimizer = checkpoint::StoredOptimizer::of(*run_.setup.plan.states().optimizer);
  s.model = run_.setup.plan.model;
  s.identity = run_.setup.identity;
  s.plan = plan::json_of(run_.setup.plan);
  s.plan["ranks"] = run_.world.size, s.plan["communicator"] = run_.world.kind;
  s.versions = build_versions();
  s.provenance = {{"data", base::text_of_path(run_.setup.config.data)},
                  {"tokenizer",
                   {{"name", run_.setup.index.tokenizer},
                    {"source", run_.setup.index.tokenizer_source},
                    {"crc32c", run_.setup.index.tokenizer_crc32c}}},
                  {"document_tokens", checkpoint::document_ids_to_json(
                                          {run_.setup.index.end_of_document, run_.setup.index.begin_of_document})}};
  if (origin_.is_object()) s.provenance.update(origin_);
  s.isa = instructions_of(s.dtype);
  s.device_kind = run_.setup.config.device;
  s.writer = run_.held.writer;
  return s;
}

}  // namespace trainyard::engine
