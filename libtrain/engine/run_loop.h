// The loop of a run: steps with their metrics, validations and saves. It ends after the last step, or when any rank is
// asked to stop.
#pragma once

#include "libtrain/engine/batches.h"
#include "libtrain/engine/disk_watch.h"
#include "libtrain/engine/loss_watch.h"
#include "libtrain/engine/metrics.h"
#include "libtrain/engine/restore.h"
#include "libtrain/engine/run_context.h"
#include "libtrain/engine/run_result.h"
#include "libtrain/engine/run_saving.h"
#include "libtrain/engine/run_trace.h"
#include "libtrain/engine/run_windows.h"
#include "libtrain/engine/step_profile.h"
#include "libtrain/engine/step_watch.h"
#include "libtrain/engine/trainer.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace trainyard::engine {

class RunLoop {
 public:
  // Reserves the memory of the rank. `run` outlives the loop.
  explicit RunLoop(const RunContext& run);
  ~RunLoop();

  // Loads a start. Collective. Throws InputError on all ranks alike if the checkpoint turns out to be damaged. Another
  // start may be loaded then.
  void load(const Start& start);
  std::int64_t step() const { return step_; }  // completed steps; -1 before load()

  // Does the steps. Collective. Call it once, after load(). When it returns, a checkpoint of the last step reached is
  // published.
  RunResult go();

 private:
  // Does collective work on files, in which ranks wait for one another's disks. `files` says what it is.
  void patiently(const char* files, const std::function<void()>& work);
  bool one_step(RunResult& result);
  bool something_follows(std::int64_t s) const;
  bool finish_steps(RunResult& result, int under_way);
  bool finish_step(RunResult& result);
  bool agree(const StepOutcome& outcome, double disk_wait, StepMetrics& m);
  StepMetrics metrics_of(const StepOutcome& outcome) const;
  std::string scale_text(const StepOutcome& outcome) const;
  std::string skip_sentence(const StepOutcome& outcome) const;
  std::string end_of_scale(const StepOutcome& outcome) const;
  Progress progress() const;
  void raise_peaks();
  std::string step_profile();
  std::string good_sentence();
  [[noreturn]] void refuse_step(const StepOutcome& outcome);
  [[noreturn]] void refuse_outlier(const StepOutcome& outcome);

  const RunContext& run_;
  const RunConfig& config_;        // of run_.setup
  std::optional<RunTrace> trace_;  // outlives the threads that it records
  RunWindows windows_;
  Batches batches_;
  Trainer trainer_;
  Start start_;
  nlohmann::json origin_;  // what load_start returned
  std::optional<RunSaving> saving_;
  std::optional<StepProfile> profile_;
  StepProfile::Peaks peaks_;            // the highest found; with a profile only
  std::optional<MetricsFile> metrics_;  // on rank 0 only
  GateWatch gate_watch_;                // used on rank 0 only
  LossWatch loss_watch_;
  DiskWatch disk_watch_;
  StepWatch step_watch_;  // used on rank 0 only
  std::int64_t step_ = -1, steps_done_ = 0, validations_done_ = 0;
  double finished_at_ = 0;
  std::atomic<const char*> files_{nullptr};  // what patiently() does; read by the watchdog
};

}  // namespace trainyard::engine
