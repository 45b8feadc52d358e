// Saving in two phases. First each rank writes its own shards without communication. Then rank 0 publishes the folder.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/checkpoint/boxes.h"
#include "libtrain/checkpoint/manifest.h"
#include "libtrain/checkpoint/run_state.h"
#include "libtrain/plan/grid/topology.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

// What rank `rank` of `ranks` saves: for each of kinds_of(state) a list of dense views, which are written back to back.
// Kind::model is in the working dtype, the master in f32, and states are in the dtype of the optimizer's states. The
// views of these kinds have the same number of elements. Each box lies inside one view; its offset counts from the
// start of the first view. Elements in no box are padding. A state that has a number for each row or column of a
// parameter has other views: the whole states of the parameters whose element 0 is in these boxes, in the order of the
// boxes (boxes_of_kind), each in one view, without padding. For the shard ranges that a rank saves, for_each_begun
// (saved_shards.h) lists these parameters. boxes_of_shards (saved_shards.h) gives the boxes of the shard ranges that a
// rank saves. Over all ranks the boxes hold every element of every parameter (in the order of plan::flat_groups) once.
// The views are in host memory and are not used after write_rank returns. A view without data is not in memory: `read`
// fills `to` with elements of view number `view` of its kind, from element `first` on.
struct RankShards {
  int rank = 0, ranks = 1;
  std::map<Kind, std::vector<base::View>> views;
  RankBoxes boxes;
  std::function<void(const Kind& kind, std::size_t view, std::int64_t first, base::View to)> read = {};
};
struct WriteOptions {
  std::int64_t bytes_per_second = 0;  // upper bound of the writing rate; 0: as fast as the disk allows
  // Once it returns true, the bound no longer holds. The writing thread calls it. May be empty.
  std::function<bool()> unthrottled;
};

// Writes FOLDER/step-00001000.partial/rank-00003.h5, its index rank-00003.index and its sidecar rank-00003.json,
// durable when it returns. FOLDER is the run's folder of checkpoints; it is created. Every rank calls it, on any
// thread, without communication. It needs only small buffers of memory. On failure (EnvironmentError: no space, no
// permission) the rank's files are removed, and the partial folder too if there is only one rank.
void write_rank(const std::string& folder, const RunState& state, const RankShards& shards,
                const WriteOptions& options);

// Publishes a checkpoint, on rank 0, once every rank is known to have written. It checks sidecars, joins the indices of
// the ranks (joined_index.h), and writes the virtual view and the manifest. It makes all durable and renames the
// partial folder to FOLDER/step-00001000, replacing a checkpoint of the same step. Then it updates the hint
// FOLDER/latest and removes the oldest checkpoints beyond `keep`. It never removes the newest or the one just
// published; keep < 1 removes none. `ranks` is the grid of the ranks, for the manifest.
// EnvironmentError or InputError (a sidecar is missing or belongs to another step): the partial folder is removed,
// older checkpoints stay. EnvironmentError naming both writers if a sidecar has another writer than `state`: nothing is
// published or removed.
void publish(const std::string& folder, const RunState& state, const plan::Topology& ranks, int keep);

// The part of publish() before the rename. Checks the sidecars of all ranks in `partial`, joins their indices, writes
// the view and the manifest, and syncs. Returns the manifest. Throws as publish() does.
Manifest complete_folder(const std::string& partial, const RunState& state, const plan::Topology& ranks);

// Removes everything from a folder of complete_folder() but what the manifest names, a lock and history.jsonl; then
// syncs. So the sidecars and indices of ranks go, and whatever an earlier attempt left.
void remove_reports_of_ranks(const std::string& folder, const Manifest& manifest);

// Removes what write_rank left of a step that will not be published. Does nothing when there is none, or when another
// writer than `state.writer` works on it.
void discard_partial(const std::string& folder, const RunState& state);

}  // namespace trainyard::checkpoint
