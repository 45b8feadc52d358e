// The run folder: who holds it, whether a run may begin in it, and what is set aside when a run goes on from another
// place than its newest checkpoint.
#pragma once

#include "libtrain/base/folder_lock.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::engine {

std::string checkpoints_folder(const std::string& output);

// All on rank 0.

// A folder that is held. Given up it leaves no lock, and no folder that was made for it and is empty: a start that
// fails early leaves nothing.
class HeldFolder {
 public:
  explicit HeldFolder(const std::string& output);
  ~HeldFolder();
  HeldFolder(const HeldFolder&) = delete;
  const base::FolderLock& lock() const { return *lock_; }

 private:
  void give_up() noexcept;
  std::vector<std::string> made_;  // innermost first
  std::unique_ptr<base::FolderLock> lock_;
};

// Makes the folder and takes its lock, before anything in it is touched. InputError when the folder or its
// `checkpoints` is something else than a folder or a link to nothing; EnvironmentError while another run holds it. The
// lock is held as long as the result lives.
std::unique_ptr<HeldFolder> take_run_folder(const std::string& output);

// Throws what take_run_folder and settle would refuse, and EnvironmentError where nothing can be written; makes, takes
// and changes nothing.
void require_usable(const std::string& output);

// InputError unless a run may begin here: `checkpoints` is absent or empty, and no checkpoint was ever published
// (OUTPUT/last-checkpoint names it).
void require_unused(const std::string& output);

// Records that a checkpoint is whole, so that a folder of checkpoints that is empty one day is not taken for a new
// run's.
void note_published(const std::string& output, std::int64_t step);

// Is it one of this folder's checkpoints that a run has left.
bool is_abandoned(const std::string& output, const std::string& path);

// The lines of metrics that led to a checkpoint: its own (history.jsonl), or through its step those of the run in which
// it lies; "" where nobody has them.
std::string history_through(const std::string& path, std::int64_t step);

// Makes OUTPUT the folder of a run that goes on after `step` from the checkpoint `path` (empty: from nothing), which
// has been loaded. Returns where that checkpoint lies then. Afterwards metrics.jsonl holds the lines that led to it and
// the newest checkpoint is it, or, where it lies elsewhere, there is none. Checkpoints of other branches, later ones
// among them, become abandoned-step-NNNNNNNN with their lines inside (history.jsonl), but for those that led to this
// one as well; lines that no longer belong to the run are kept in OUTPUT/abandoned-metrics-after-NNNNNNNN.jsonl; an
// abandoned checkpoint of this folder that is gone back to gets its name step-NNNNNNNN again. A run that merely goes on
// from its newest checkpoint changes nothing here: it cuts its metrics and writes those lines again. Says what it does.
// Killed meanwhile it leaves the branch of before, what both have in common, or no checkpoint.
std::string settle(const std::string& output, const std::string& path, std::int64_t step);

}  // namespace trainyard::engine
