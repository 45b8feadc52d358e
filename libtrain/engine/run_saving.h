// The checkpoints of a run: snapshots at the steps that ask for one, followed on all ranks until rank 0 has published
// them, discarded where a rank failed to write.
#pragma once

#include "libtrain/engine/rank_record.h"
#include "libtrain/engine/restore.h"
#include "libtrain/engine/run_context.h"
#include "libtrain/engine/saver.h"
#include "libtrain/engine/trainer.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::engine {

// How far a run is: completed steps, and what they consumed since its very beginning.
struct Progress {
  std::int64_t step = 0, samples_seen = 0, tokens_seen = 0;
};

// Every rank calls all of it in the same order; what is collective is issued on the trainer's communication.
class RunSaving {
 public:
  // The store holds `start`. Settles in the run folder: an abandoned checkpoint that the run starts from is its own
  // again.
  RunSaving(const RunContext& run, Trainer& trainer, const Start& start);

  void take(const Progress& progress);  // the checkpoint before is published first
  std::string doing() const;  // "writing step 20" while ranks wait for one another's disks, else ""; of any thread
  void tell(RankRecord& mine) const;  // how far this rank's writer is
  void follow(const std::vector<RankRecord>&
                  all);      // asks for publishing once all have written; throws on all ranks where one failed
  void finish_publishing();  // of what was taken, if anything was
  void finish(const Progress& progress);  // at the end of the run: everything is written, what was reached too

  std::int64_t saved_step() const {
    return saved_step_;
  }  // the newest that --resume auto would find; -1 before the first
  const std::string& saved_path() const { return saved_path_; }  // its folder, empty before

 private:
  void settle_in_folder(const Start& start);
  void discard();
  checkpoint::RunState state(const Progress& progress) const;

  const RunContext& run_;
  Trainer& trainer_;
  std::string folder_;  // of the checkpoints
  std::int64_t saved_step_ = -1;
  std::string saved_path_;
  bool publish_asked_ = false;
  std::atomic<bool> leaving_{false};       // read by the writer
  std::atomic<std::int64_t> writing_{-1};  // the step that ranks wait for
  std::optional<Saver> saver_;
};

}  // namespace trainyard::engine
