// Dispatch rounds: one thread assigns the groups of a destination; one block lays out the rows of a group.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"

namespace trainyard::kernels {
namespace {

constexpr int walkers = 256;

// Launched as one block.
__global__ void __launch_bounds__(walkers) expert_rounds_kernel(ExpertRoundsArgs a) {
  __shared__ std::int64_t most[walkers];
  std::int64_t rounds = 1;
  for (std::int64_t d = threadIdx.x; d < a.destinations; d += walkers) {
    RoundWalk walk{a.room};
    for (std::int64_t g = d * a.held; g < (d + 1) * a.held; ++g) walk.take(a.groups[2 * g + 1], a.places + 2 * g);
    rounds = walk.round + 1 > rounds ? walk.round + 1 : rounds;
  }
  most[threadIdx.x] = rounds;
  __syncthreads();
  if (threadIdx.x != 0 || a.rounds == nullptr) return;
  for (int i = 1; i < walkers; ++i) rounds = most[i] > rounds ? most[i] : rounds;
  *a.rounds = static_cast<std::int32_t>(rounds);
}

__global__ void no_rows_kernel(ExpertRoundArgs a) {
  const std::int64_t room = a.destinations * a.room;
  TRAINYARD_EACH(i, room > a.rows ? room : a.rows) {
    if (i < room) a.tokens[i] = a.here[i] = -1;
    if (i < a.rows) a.back[i] = -1;
  }
}

// Grid: groups.
__global__ void round_rows_kernel(ExpertRoundArgs a) {
  const std::int64_t g = blockIdx.x;
  if (a.places[2 * g] == a.round)
    for (std::int64_t i = threadIdx.x; i < a.groups[2 * g + 1]; i += blockDim.x) put_row(a, g, i);
  if (threadIdx.x == 0) round_has(a, g);
}

}  // namespace

const char* gpu::expert_rounds(const ExpertRoundsArgs& a, void* stream) {
  TRAINYARD_LAUNCH(expert_rounds_kernel, true, 1, walkers, stream, a);
  return launch_failure();
}

const char* gpu::expert_round(const ExpertRoundArgs& a, void* stream) {
  const std::int64_t room = a.destinations * a.room;
  TRAINYARD_LAUNCH(no_rows_kernel, false, blocks_for(room > a.rows ? room : a.rows), 256, stream, a);
  if (const auto* failure = launch_failure()) return failure;
  TRAINYARD_LAUNCH(round_rows_kernel, false, static_cast<unsigned>(a.held * a.destinations), 256, stream, a);
  return launch_failure();
}

}  // namespace trainyard::kernels
