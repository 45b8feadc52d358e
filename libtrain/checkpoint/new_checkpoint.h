// A checkpoint that is made from others, by one process: its unfinished folder, the rank files in it, what an
// interrupted start has left of them, the proof, and the name.
#pragma once

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/folder_lock.h"
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
  // refuse: UsageError when the destination is there, and what an interrupted start has finished is kept. replace: a
  // checkpoint of our writing is replaced, and nothing is kept.
  base::Existing existing = base::Existing::refuse;
  std::vector<std::string> sources;  // what is read: never replaced, and no place for the destination
  int threads = 1;
  std::string history;  // lines of metrics that led to it, kept in it (history.jsonl); may be empty
  // Room for more bytes where a path lies; empty: what the file system says.
  std::function<std::int64_t(const std::string& folder)> free_bytes;
  // Called before each rank file of an earlier start is read and before each one is laid out, by one thread at a time;
  // what it throws ends the work, and finished rank files stay. May be empty.
  std::function<void()> between = {};
};

// UsageError where no new checkpoint may be: a name of something unfinished, a place that is read or a run's, something
// that is there and shall not be replaced, or is none of ours. What NewCheckpoint begins with.
void require_free_destination(const std::string& destination, base::Existing existing,
                              const std::vector<std::string>& sources);

class NewCheckpoint {
 public:
  // Of ranks as train writes it on them (saved_shards.h). `state.writer` says for what purpose it is
  // made: finished rank files of an earlier start with the same purpose are kept, everything else of it is removed.
  // Rank files are laid out when this returns. EnvironmentError before anything is written where the room that is left
  // cannot hold it, and while another process makes it.
  NewCheckpoint(std::string destination, RunState state, LayoutRanks ranks, NewCheckpointOptions options);
  // Unpublished: finished rank files stay for the next start, all else goes.
  ~NewCheckpoint();
  NewCheckpoint(const NewCheckpoint&) = delete;

  int ranks() const { return static_cast<int>(ranks_.size()); }
  ScatteredRank& rank(int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  const ScatteredRank& rank(int rank) const { return *ranks_[static_cast<std::size_t>(rank)]; }
  const RunState& state() const { return state_; }
  const std::string& path() const { return final_; }
  int kept() const { return kept_; }
  std::int64_t bytes_to_write() const;  // of payloads: those of rank files that are not kept

  const Places& places() const { return *places_; }

  // All is written: manifest and view; then `prove`, which throws where the fingerprints are not those that they must
  // be, whereupon nothing is kept; then the name. Returns the manifest.
  Manifest publish(const std::function<void(const Manifest&)>& prove);
  // For `prove`: InputError unless the fingerprint of each tensor ("/model/NAME") is that of what was sent there, which
  // `made` says of all but kept rank files.
  void require_fingerprints(const Manifest& written, std::map<std::string, std::uint64_t> made) const;

 private:
  void prepare();
  void require_room() const;
  void remove_unfinished();

  std::string final_, partial_;
  RunState state_;
  NewCheckpointOptions options_;
  std::unique_ptr<base::FolderLock> lock_;
  plan::Topology topology_;
  std::unique_ptr<const Places> places_;
  std::vector<ParameterEntry> parameters_;
  std::vector<std::unique_ptr<ScatteredRank>> ranks_;
  int kept_ = 0;
  bool judged_ = false, published_ = false;  // judged: it is known which rank files of an earlier start are kept
};

}  // namespace trainyard::checkpoint
