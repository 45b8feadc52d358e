// The run folder: who holds it, whether a run may begin in it, and what is set aside when a run goes back to an earlier point.
#pragma once

#include "libtrain/io/folder_lock.h"

#include <cstdint>
#include <memory>
#include <string>

namespace trainyard::engine {

std::string checkpoints_folder(const std::string& output);

// All on rank 0.

// Makes the folder and takes its lock, before anything in it is touched. InputError when the folder or its `checkpoints` is something else than a folder or a link to nothing;
// EnvironmentError while another run holds it. The lock is held as long as the result lives.
std::unique_ptr<io::FolderLock> take_run_folder(const std::string& output);

// InputError unless a run may begin here: `checkpoints` is absent or empty, and no checkpoint was ever published (OUTPUT/last-checkpoint names it).
void require_unused(const std::string& output);

// Records that a checkpoint is whole, so that a folder of checkpoints that is empty one day is not taken for a new run's.
void note_published(const std::string& output, std::int64_t step);

// A run that begins at `step` from the checkpoint `path` (empty: from nothing) goes without everything later that lies in OUTPUT: checkpoints become
// abandoned-step-NNNNNNNN, and the lines of metrics.jsonl that a run would cut away are kept in OUTPUT/abandoned-metrics-after-NNNNNNNN.jsonl. A run that merely goes on
// from its newest checkpoint writes those lines again; they are not kept. Says what it does.
void set_future_aside(const std::string& output, const std::string& path, std::int64_t step);

}  // namespace trainyard::engine
