// The loop of a run: steps, their metrics, validations and saves, until the last step or until any rank is asked to
// stop.
#pragma once

#include "libtrain/engine/batches.h"
#include "libtrain/engine/metrics.h"
#include "libtrain/engine/restore.h"
#include "libtrain/engine/run_context.h"
#include "libtrain/engine/run_saving.h"
#include "libtrain/engine/run_trace.h"
#include "libtrain/engine/run_windows.h"
#include "libtrain/engine/step_profile.h"
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

  // Collective; throws InputError on all ranks alike when the checkpoint turns out to be damaged. Another start may be
  // loaded then.
  void load(const Start& start);
  std::int64_t step() const { return step_; }  // completed; -1 before load()

  // Collective, once, after load(). A checkpoint of the last step reached is published when it returns.
  RunResult go();

 private:
  // Collective work on files, in which ranks wait for one another's disks; `files` says what it is.
  void patiently(const char* files, const std::function<void()>& work);
  bool one_step(RunResult& result);
  bool something_follows(std::int64_t s) const;
  bool finish_steps(RunResult& result, int under_way);
  bool finish_step(RunResult& result);
  bool agree(const StepOutcome& outcome, StepMetrics& m);
  StepMetrics metrics_of(const StepOutcome& outcome) const;
  Progress progress() const;
  void raise_peaks();
  std::string step_profile();
  [[noreturn]] void refuse_step(const StepOutcome& outcome);

  const RunContext& run_;
  std::optional<RunTrace> trace_;  // outlives the threads that it records
  RunWindows windows_;
  Batches batches_;
  Trainer trainer_;
  Start start_;
  std::optional<RunSaving> saving_;
  std::optional<StepProfile> profile_;
  StepProfile::Peaks peaks_;            // the best found, with a profile
  std::optional<MetricsFile> metrics_;  // of rank 0
  GateWatch gate_watch_;                // its too
  std::int64_t step_ = -1, steps_done_ = 0, validations_done_ = 0;
  double finished_at_ = 0;
  std::atomic<const char*> files_{nullptr};  // of patiently(); read by the watchdog
};

}  // namespace trainyard::engine
