// Formulas for the memory of one rank: the categories of the arenas, what libraries take outside, and the
// textbook's model states.
#pragma once

#include "libtrain/base/memory_categories.h"
#include "libtrain/plan/cost/activations.h"
#include "libtrain/plan/cost/states.h"
#include "libtrain/plan/schedule/stages.h"
#include "libtrain/plan/spec/objective.h"
#include "libtrain/plan/spec/offload.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::plan {

struct MemoryBytes {
  base::CategoryBytes categories;
  // Outside the arenas: program text, MPI, HDF5, stacks, mapped shards; on a GPU its context, NCCL, cuBLAS.
  std::int64_t reserve = 0;
  std::int64_t on_host = 0;  // part of a GPU rank's arenas
  std::int64_t arenas() const;
  std::int64_t total() const { return arenas() - on_host + reserve; }  // of the memory where the rank computes
  bool operator==(const MemoryBytes&) const = default;
};

// What a rank needs beyond states and scratch because it is a pipeline stage. A chunk is a virtual stage.
struct InFlight {
  // For each chunk, the number of slots. A slot holds the activations of one micro-batch from its forward to the end of
  // its backward, so this is the number of micro-batches in flight.
  std::vector<int> slots = {1};
  std::int64_t message_buffers = 0;                           // bytes (plan/schedule/stage_messages.h)
  std::vector<FlatGroupOfStages> flat_groups_of_stages = {};  // that the rank holds
  std::vector<int> sharing_stages = {};                       // of the whole pipeline
  Placement activations = {};  // of the inputs of layers (plan/cost/activation_offload.h)
};

// What passes of a micro-batch need, whatever states a rank has and how many micro-batches are in flight.
struct PassBytes {
  SlotCounter slots;
  std::int64_t staging = 0, workspace = 0;
};

// The memory of a rank of a part, with one recomputation after the other. Counts once what recomputation does not
// change. The part's model outlives it.
class PartMemory {
 public:
  PartMemory(const ModelPart& part, const StateShape& states, const MicroShape& micro, InFlight in_flight = {});
  MemoryBytes with(const Recomputation& recompute) const;

 private:
  ModelPart part_;
  MicroShape micro_;
  InFlight in_flight_;
  std::shared_ptr<const PassBytes> passes_;
  MemoryBytes others_;  // everything else
};
// Equal on every rank of a stage. `micro.dtype` is the working dtype, micro.threads the OpenMP team of a rank,
// micro.device where it computes.
MemoryBytes rank_memory(const ModelPart& part, const StateShape& states, const MicroShape& micro,
                        const Recomputation& recompute, const InFlight& in_flight = {});

// Bytes of one loaded micro-batch: tokens, targets, positions, document starts, weights and keys. A model that sees
// both ways also has the ends of documents. The reserve has room for one micro-batch in flight and the next one. It
// grows by these bytes for each further one in flight.
std::int64_t loaded_bytes(const MicroShape& micro, Objective objective);

// Staging for exchanging the summed shards of the flat groups that several pipeline stages hold (params/stage_sums.h):
// those of other stages' occurrences, one after the other.
std::int64_t stage_staging_bytes(const FlatGroupTable& table, const StateShape& states,
                                 const std::vector<FlatGroupOfStages>& flat_groups_of_stages);
// What a rank takes outside its arenas; `chunks` are its stage's. `sharing`: plan::sharing_stages. The GPU's numbers
// were measured on an H200 with CUDA 13 and NCCL: 563 MB alone, some 475 MB more with the first communicator, and up to
// 60 MB with each further one.
std::int64_t reserve_bytes(const MicroShape& micro, const Topology& topology, int chunks,
                           const std::vector<int>& sharing = {});
// The most NCCL communicators that a rank makes. There is one for each group along an axis, one for flat groups that
// stages hold together, and one for the results of all ranks if no other group has all ranks. Each queue to a
// neighbouring stage is a communicator of two ranks (engine/world.h, engine/place.h, comm/neighbours.h).
int gpu_communicators(const Topology& topology, int chunks, const std::vector<int>& sharing = {});

// Rajbhandari et al. (2020), table 1: (w + g + K) Psi at stage 0. Stage 1 divides the optimizer by n, stage 2 also the
// gradients, stage 3 also the parameters. With AdamW K = 12 for a 16-bit working dtype (master, m, v), and 8 for f32
// (m, v; the working copy is the master). No padding, no buffers. A double because Psi / n need not be whole.
double model_state_bytes(std::int64_t parameters, int n, int stage, base::DType working, base::DType gradient,
                         const OptimizerKind& optimizer = optimizer_kind(default_optimizer));

}  // namespace trainyard::plan
