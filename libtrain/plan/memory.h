// Memory of one rank by formula: the nine categories of the ledger, what libraries take outside, and the textbook model
// states.
#pragma once

#include "libtrain/base/memory_categories.h"
#include "libtrain/plan/activations.h"
#include "libtrain/plan/objective.h"
#include "libtrain/plan/states.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::plan {

using base::memory_categories;

struct MemoryBytes {
  std::array<std::int64_t, memory_categories.size()> categories{};
  std::int64_t reserve =
      0;  // outside the arenas: program text, MPI, HDF5, stacks, mapped shards; on a GPU its context, NCCL, cuBLAS
  std::int64_t on_host = 0;  // of the arenas of a GPU rank: the save snapshot
  std::int64_t arenas() const;
  std::int64_t total() const { return arenas() - on_host + reserve; }  // of the memory that the rank computes in
  bool operator==(const MemoryBytes&) const = default;
};

// What a rank has beside states and scratch, by its place in a pipeline.
struct InFlight {
  std::vector<int> slots = {1};  // of each chunk: micro-batches between forward and the end of backward at one time
  // Does a stage stand before any of its chunks? Then activations arrive in a place of their own, and gradients leave
  // from one.
  bool hears_before = false;
  std::vector<std::string> flat_groups_of_stages = {};  // those that other stages hold, too
};

// Equal on every rank of a stage. `micro.dtype` is the working dtype, micro.threads the OpenMP team of a rank,
// micro.device where it computes.
MemoryBytes rank_memory(const ModelPart& part, const StateShape& states, const MicroShape& micro, Recompute recompute,
                        const InFlight& in_flight = {});

// Of the loader: tokens, targets, positions, document starts, weights and keys of one micro-batch, and where documents
// end for a model that sees both ways. The reserve has room for that in flight and the next; of more in flight at one
// time it has these, too.
std::int64_t loaded_bytes(const MicroShape& micro, Objective objective);

// For exchanging the folded shards of such a flat group (params/stage_sums.h): those of its stages behind one another.
std::int64_t stage_staging_bytes(const FlatGroupTable& table, const StateShape& states,
                                 const std::vector<std::string>& flat_groups_of_stages);
// What a rank takes outside its arenas; `chunks` of a stage. On a GPU, measured on an H200 with CUDA 13 and NCCL: 563
// MB alone, some 475 MB more with its first communicator, up to 60 MB with each further one.
std::int64_t reserve_bytes(const MicroShape& micro, const Topology& topology, int chunks);
// Communicators of NCCL that a rank makes at most: one for each group along an axis, for what stages hold together and
// for results of all ranks where no other has them, and a pair for each queue to a neighbouring stage
// (engine/world.h, engine/place.h, comm/neighbours.h).
int gpu_communicators(const Topology& topology, int chunks);

// Rajbhandari et al. (2020), table 1: (w + g + K) Psi at stage 0; optimizer, then gradients, then parameters divided by
// n at stages 1, 2, 3. K = 12 for a 16-bit working dtype (master, m, v), 8 for f32 (m, v; the working copy is the
// master). No padding, no buffers; a double because Psi / n need not be whole.
double model_state_bytes(std::int64_t parameters, int n, int stage, base::DType working, base::DType gradient);

}  // namespace trainyard::plan
