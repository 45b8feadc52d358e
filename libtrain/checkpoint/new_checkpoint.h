// A checkpoint that one process makes from other checkpoints or models. This file handles its unfinished folder, the
// rank files in it, what an interrupted start left, the final check, and the name.
#pragma once

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/folder_lock.h"
#include "libtrain/base/index.h"
#include "libtrain/checkpoint/new_layout.h"
#include "libtrain/checkpoint/saved_shards.h"
#include "libtrain/checkpoint/scattered_rank.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

struct NewCheckpointOptions {
  // refuse: UsageError when the destination exists; rank files that an interrupted start finished are kept. replace: a
  // checkpoint that our programs wrote is replaced, and nothing is kept.
  base::Existing existing = base::Existing::refuse;
  std::vector<std::string> sources;  // the inputs: never replaced, and the destination may not lie in them
  int threads = 1;
  std::string history;  // lines of metrics up to the checkpoint, stored in it (history.jsonl); may be empty
  // Free bytes where a path lies; if empty, what the file system reports.
  std::function<std::int64_t(const std::string& folder)> free_bytes;
  // Called before each rank file of an earlier start is read and before each one is laid out, by one thread at a time.
  // An exception that it throws ends the work, and finished rank files stay. May be empty.
  std::function<void()> between = {};
};

// UsageError where no new checkpoint may be: a name of something unfinished, or a place inside a source or a run. Also
// for something that exists and may not be replaced, or that our programs did not write. NewCheckpoint calls it first.
void require_free_destination(const std::string& destination, base::Existing existing,
                              const std::vector<std::string>& sources);

class NewCheckpoint {
 public:
  // Makes the files that train would write on `ranks` (saved_shards.h). `state.writer` names the purpose of the work.
  // Finished rank files of an earlier start with the same purpose are kept; everything else of that start is removed.
  // Rank files are laid out when this returns. Throws EnvironmentError before anything is written if there is not
  // enough room. It is also thrown while another process makes the same checkpoint.
  NewCheckpoint(std::string destination, RunState state, LayoutRanks ranks, NewCheckpointOptions options);
  // If unpublished, finished rank files stay for the next start; everything else is removed.
  ~NewCheckpoint();
  NewCheckpoint(const NewCheckpoint&) = delete;

  int ranks() const { return static_cast<int>(ranks_.size()); }
  ScatteredRank& rank(int rank) { return *base::at(ranks_, rank); }
  const ScatteredRank& rank(int rank) const { return *base::at(ranks_, rank); }
  const RunState& state() const { return state_; }
  const std::string& path() const { return final_; }
  int kept() const { return kept_; }
  std::int64_t bytes_to_write() const;  // payload bytes of the rank files that are not kept

  const Places& places() const { return *places_; }
  const KindTensors& tensors() const { return *tensors_; }

  // Call it once everything is written. Writes manifest and view, calls `prove`, and then gives the checkpoint its
  // name. `prove` throws if the fingerprints are wrong; then nothing is kept. Returns the manifest.
  Manifest publish(const std::function<void(const Manifest&)>& prove);
  // For `prove`: InputError unless the fingerprint of each tensor ("/model/NAME") equals the fingerprint of what was
  // sent there. `made` holds the sent fingerprints of all but kept rank files.
  void require_fingerprints(const Manifest& written, std::map<std::string, std::uint64_t> made) const;

 private:
  void prepare();
  void require_room() const;
  void keep_tokenizer() const;  // the copy of the sources, or where the tokenizer was (kept_tokenizer.h)
  void remove_unfinished();

  std::string final_, partial_;
  RunState state_;
  NewCheckpointOptions options_;
  std::unique_ptr<base::FolderLock> lock_;
  plan::Topology topology_;
  std::unique_ptr<const Places> places_;
  std::vector<ParameterEntry> parameters_;
  std::unique_ptr<const KindTensors> tensors_;
  std::vector<std::unique_ptr<ScatteredRank>> ranks_;
  int kept_ = 0;
  bool judged_ = false, published_ = false;  // judged: it is known which rank files of an earlier start are kept
};

}  // namespace trainyard::checkpoint
