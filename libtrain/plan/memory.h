// Memory of one rank by formula: the nine categories of the ledger, what libraries take outside, and the textbook model
// states.
#pragma once

#include "libtrain/base/memory_categories.h"
#include "libtrain/plan/activations.h"
#include "libtrain/plan/states.h"

#include <array>
#include <cstdint>

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

// With `slots` micro-batches between forward and the end of backward at one time. Equal on every data rank.
// `micro.dtype` is the working dtype, micro.threads the OpenMP team of a rank, micro.device where it computes.
MemoryBytes rank_memory(const ModelConfig& model, const StateShape& states, const MicroShape& micro,
                        Recompute recompute, int slots = 1);
std::int64_t reserve_bytes(const MicroShape& micro);

// Rajbhandari et al. (2020), table 1: (w + g + K) Psi at stage 0; optimizer, then gradients, then parameters divided by
// n at stages 1, 2, 3. K = 12 for a 16-bit working dtype (master, m, v), 8 for f32 (m, v; the working copy is the
// master). No padding, no buffers; a double because Psi / n need not be whole.
double model_state_bytes(std::int64_t parameters, int n, int stage, base::DType working, base::DType gradient);

}  // namespace trainyard::plan
