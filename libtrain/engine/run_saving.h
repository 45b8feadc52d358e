// The checkpoints of a run: takes snapshots at the steps that ask for one, and follows them on all ranks until rank 0
// has published them. If a rank fails to write, the checkpoint is discarded.
#pragma once

#include "libtrain/engine/rank_record.h"
#include "libtrain/engine/restore.h"
#include "libtrain/engine/run_context.h"
#include "libtrain/engine/saver.h"
#include "libtrain/engine/trainer.h"

#include <nlohmann/json.hpp>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trainyard::engine {

// How far a run is: completed steps, what they consumed since the run began, and how many of them were skipped.
struct Progress {
  std::int64_t step = 0, samples_seen = 0, tokens_seen = 0, skipped_steps = 0;
  std::optional<checkpoint::StoredLossScale> loss_scale = {};
  std::optional<checkpoint::StoredOutlierWindow> outlier_window = {};
};

// Every rank calls all methods in the same order. Collectives are issued on the trainer's communication Exec.
class RunSaving {
 public:
  // The store holds `start`. Settles the run folder (run_folder.h): an abandoned checkpoint that the run starts from
  // becomes one of its own again.
  RunSaving(const RunContext& run, Trainer& trainer, const Start& start, nlohmann::json origin);

  // Takes a snapshot; first publishes the checkpoint before. Returns the seconds that steps waited for the writer: it
  // reads states on disk, so steps go on when all ranks have written.
  double take(const Progress& progress);
  std::string doing() const;  // "writing step 20" while ranks wait for one another's disks, else ""; from any thread
  void report(RankRecord& mine) const;  // records the state of this rank's writer
  // Asks rank 0 to publish once all ranks have written. Throws on all ranks if one failed.
  void follow(const std::vector<RankRecord>& all);
  void finish_publishing();               // waits until the snapshot taken last, if any, is published
  void finish(const Progress& progress);  // at the end of the run: publishes everything, also the last step reached

  // The newest step that --resume auto would find; -1 before the first.
  std::int64_t saved_step() const { return saved_step_; }
  const std::string& saved_path() const { return saved_path_; }  // its folder; empty before the first
  // Seconds from the snapshot to the published checkpoint, of the checkpoint that was published last. Empty before the
  // first.
  std::optional<double> save_seconds() const { return save_seconds_; }
  // The same, once for each checkpoint: empty until the next one is published.
  std::optional<double> take_save_seconds() { return std::exchange(new_save_seconds_, std::nullopt); }

 private:
  bool waits_for_writer() const;
  void settle_in_folder(const Start& start);
  void discard();
  checkpoint::RunState state(const Progress& progress) const;

  const RunContext& run_;
  Trainer& trainer_;
  std::string folder_;     // of the checkpoints
  nlohmann::json origin_;  // provenance, as load_start returns it
  std::int64_t saved_step_ = -1;
  std::string saved_path_;
  bool publish_asked_ = false;
  double taken_at_ = 0;  // base::steady_seconds
  std::optional<double> save_seconds_, new_save_seconds_;
  std::atomic<bool> leaving_{false};       // read by the writer
  std::atomic<std::int64_t> writing_{-1};  // the step whose files ranks wait for; -1: none
  std::optional<Saver> saver_;
};

}  // namespace trainyard::engine
