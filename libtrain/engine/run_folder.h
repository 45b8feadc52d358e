// The run folder: who holds it, whether a run may begin in it, and what is set aside when a run continues from another
// place than its newest checkpoint.
#pragma once

#include "libtrain/base/folder_lock.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::engine {

std::string checkpoints_folder(const std::string& output);

// Only rank 0 calls the following functions.

// A run folder that this process holds. When given up, it leaves no lock, and no folder that was made for it and is
// empty. So a start that fails early leaves nothing.
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

// Makes the folder and takes its lock, before anything in it is touched. The lock is held as long as the result lives.
// InputError if the folder or its `checkpoints` is something else than a folder, or is a link to nothing.
// EnvironmentError while another run holds the folder.
std::unique_ptr<HeldFolder> take_run_folder(const std::string& output);

// Every rank of a run has one. Rank 0 holds the run folder as long as it lives; on other ranks `folder` is null.
// `writer` is the holder's name, on all ranks.
struct HeldOutput {
  std::unique_ptr<HeldFolder> folder;
  std::string writer;
};

// Throws what take_run_folder and settle would throw, and EnvironmentError if nothing can be written. Makes, takes and
// changes nothing.
void require_usable(const std::string& output);

// InputError unless a run may begin here: `checkpoints` is absent or empty, and no checkpoint was ever published
// (OUTPUT/last-checkpoint names it).
void require_unused(const std::string& output);

// Records in OUTPUT/last-checkpoint that a checkpoint is whole. So a folder of checkpoints that is empty one day is not
// taken for the folder of a new run.
void note_published(const std::string& output, std::int64_t step);

// Is `path` a checkpoint of this folder that a run has abandoned?
bool is_abandoned(const std::string& output, const std::string& path);

// The lines of metrics that led to a checkpoint: its own file (history.jsonl), or the lines through its step of the run
// in which it lies. "" if neither exists.
std::string history_through(const std::string& path, std::int64_t step);

// Makes OUTPUT the folder of a run that continues after `step` from the loaded checkpoint `path` (empty: from nothing).
// Returns where that checkpoint lies then.
// Afterwards metrics.jsonl holds the lines that led to the checkpoint. The checkpoint is the newest of the folder; if
// it lies elsewhere, the folder has none.
// Checkpoints of other branches, later ones among them, become abandoned-step-NNNNNNNN with their lines inside
// (history.jsonl). Checkpoints that also led to this one stay. Lines that no longer belong to the run are kept in
// OUTPUT/abandoned-metrics-after-NNNNNNNN.jsonl. An abandoned checkpoint of this folder to which the run goes back gets
// its name step-NNNNNNNN again.
// A run that merely continues from its newest checkpoint changes nothing here: it truncates its metrics and writes
// those lines again. Changes are logged. A process killed meanwhile leaves the old branch, what both branches have in
// common, or no checkpoint.
std::string settle(const std::string& output, const std::string& path, std::int64_t step);

}  // namespace trainyard::engine
