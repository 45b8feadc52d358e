// Phase one of saving: a rank writes its own shards, without communication; phase two, on rank 0: the folder is
// published.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/checkpoint/boxes.h"
#include "libtrain/checkpoint/manifest.h"
#include "libtrain/checkpoint/run_state.h"
#include "libtrain/plan/topology.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

// What rank `rank` of `ranks` holds: for each kind dense views, which are written back to back; model in the working
// dtype, the others f32; master is empty when the working dtype is f32. The views of every kind have as many elements.
// Each box lies inside of one view, with offsets counted from the start of the first one; elements of no box are
// padding; boxes_of_shards (saved_shards.h) gives those of the ranges of shards that a rank saves. Over all ranks the
// boxes hold every element of every parameter (in the order of plan::flat_groups) once. On the host; not touched after
// write_rank returns.
struct RankShards {
  int rank = 0, ranks = 1;
  std::vector<base::View> model, master, m, v;
  RankBoxes boxes;
};
struct WriteOptions {
  std::int64_t bytes_per_second = 0;  // upper bound of the writing rate; 0: as fast as the disk takes it
  std::function<bool()>
      unthrottled;  // true from when on the bound holds no longer; asked by the writing thread; may be empty
};

// Writes FOLDER/step-00001000.partial/rank-00003.h5, its index rank-00003.index and its sidecar rank-00003.json,
// durable when it returns. FOLDER is the run's folder of checkpoints; it is created. Every rank calls it, each on a
// thread of its own liking; no communication. Memory: nothing but small buffers. On failure (EnvironmentError: no
// space, no permission) the rank's files are removed, and the partial folder when it was the last.
void write_rank(const std::string& folder, const RunState& state, const RankShards& shards,
                const WriteOptions& options);

// On rank 0, once every rank is known to have written: checks sidecars, joins the indices of the ranks
// (joined_index.h), writes the virtual view and the manifest, makes all durable and renames the partial folder to
// FOLDER/step-00001000 (a checkpoint of the same step is replaced). Then updates the hint FOLDER/latest and removes the
// oldest checkpoints beyond `keep`, never the newest or the one just published (keep < 1: removes none).
// EnvironmentError or InputError (a sidecar is missing or belongs to another step): the partial is removed, older ones
// stay. EnvironmentError naming both when a sidecar has another writer than `state`: nothing is published or removed.
// `ranks` is the grid of the ranks, for the manifest.
void publish(const std::string& folder, const RunState& state, const plan::Topology& ranks, int keep);

// The part of publish() before the name: checks the sidecars of all ranks in `partial`, joins their indices, writes the
// view and the manifest, and syncs. Returns the manifest. Throws as publish() does.
Manifest complete_folder(const std::string& partial, const RunState& state, const plan::Topology& ranks);

// Removes the sidecars and indices of ranks from a folder that complete_folder() made, and whatever an earlier attempt
// left in it: all but what the manifest names, a lock and history.jsonl; and syncs.
void remove_what_ranks_said(const std::string& folder, const Manifest& manifest);

// Removes what write_rank left of a step that will not be published. Nothing to do when there is none, or when another
// writer than that of `state` works on it.
void discard_partial(const std::string& folder, const RunState& state);

}  // namespace trainyard::checkpoint
