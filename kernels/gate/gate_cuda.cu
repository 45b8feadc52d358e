// The gate: first a warp for each token, then a thread for each expert of a block of tokens, then a block for each
// expert. Integers are equal to the CPU's. Only counts are added atomically.
#include "kernels/gate/gate_numbers.h"
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"
#include "libtrain/plan/blocks/expert_scratch.h"

namespace trainyard::kernels {
namespace {

using Key = unsigned long long;
constexpr int token_warps = row_threads / 32;

struct ScannedSum {
  int up_to_here, all;
};
// Inclusive prefix sum over a block of row_threads. Runs of 16 are added first, then the runs' sums, which needs few
// barriers. `shared` holds row_threads numbers and may be reused at once.
__device__ __forceinline__ ScannedSum block_scan(int v, int* shared) {
  constexpr int run = 16, runs = row_threads / run;
  const int t = static_cast<int>(threadIdx.x);
  shared[t] = v;
  __syncthreads();
  if (t < runs)
    for (int i = 1; i < run; ++i) shared[t * run + i] += shared[t * run + i - 1];
  __syncthreads();
  ScannedSum sum{shared[t], 0};
  for (int r = 0; r < runs; ++r) {
    const int of_run = shared[r * run + run - 1];
    sum.all += of_run;
    sum.up_to_here += r < t / run ? of_run : 0;
  }
  __syncthreads();
  return sum;
}

// Sums over the experts of this warp's token. top: the highest logit. sum: the exponentials relative to it. share: the
// scores. along: the terms of the entropy.
struct TokenSums {
  double top, sum, share, along;
};
template <class T> __device__ __forceinline__ TokenSums token_sums(const GateArgs& a, const T* x) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  TokenSums of{static_cast<double>(x[0]), 0, 0, 0};
  for (std::int64_t e = lane; e < a.experts; e += 32) {
    const double v = static_cast<double>(x[e]);
    of.top = v > of.top ? v : of.top;
  }
  of.top = warp_max(of.top);
  const bool sigmoid = a.score == plan::GateScore::sigmoid;
  for (std::int64_t e = lane; e < a.experts; e += 32) {
    const double v = static_cast<double>(x[e]), below = v - of.top, part = gate_exp(below);
    const double score = sigmoid ? gate_sigmoid(v) : part;
    of.sum += part;
    of.share += score;
    of.along += score > 0 ? score * (sigmoid ? gate_log(score) : below) : 0;
  }
  of.sum = warp_sum(of.sum), of.share = warp_sum(of.share), of.along = warp_sum(of.along);
  return of;
}

// The largest rank, and of equal ranks the lowest expert. expert = -1: none yet.
struct Candidate {
  double rank = 0;
  int expert = -1;
  __device__ bool beats(const Candidate& other) const {
    return expert >= 0 && (other.expert < 0 || rank > other.rank || (rank == other.rank && expert < other.expert));
  }
};
__device__ __forceinline__ Candidate warp_best(Candidate mine) {
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    const Candidate other{__shfl_xor_sync(0xffffffffu, mine.rank, lanes),
                          __shfl_xor_sync(0xffffffffu, mine.expert, lanes)};
    if (other.beats(mine)) mine = other;
  }
  return mine;
}

// Makes the choices one after the other: each is the best expert that ranks behind the last choice.
template <class T> __global__ void __launch_bounds__(row_threads) gate_choose_kernel(GateForwardArgs a) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t s = static_cast<std::int64_t>(blockIdx.x) * token_warps + threadIdx.x / 32;
  if (s >= a.tokens) return;  // the same for the whole warp
  const T* x = a.logits.row<T>(s);
  const auto of = token_sums(a, x);
  if (lane == 0) {
    double* numbers = a.token_numbers + s * plan::gate_token_numbers;
    const double whole = of.top + gate_log(of.sum);
    numbers[0] = of.top, numbers[1] = of.share;
    numbers[2] = rounded_product(whole, whole), numbers[3] = gate_log(of.share) - of.along / of.share;
  }
  std::uint64_t open = 0;  // bit g: the token may choose experts of group g
  for (std::int64_t j = 0; a.expert_groups > 1 && j < a.top_groups; ++j) {
    Candidate best;
    for (std::int64_t g = lane; g < a.expert_groups; g += 32) {
      if ((open >> g & 1) != 0) continue;
      const Candidate next{gate_group_rank(a, x, g), static_cast<int>(g)};
      if (next.beats(best)) best = next;
    }
    open |= std::uint64_t{1} << warp_best(best).expert;
  }
  Candidate last;
  for (std::int64_t j = 0; j < a.top_k; ++j) {
    const bool clean = j == 0 && gate_first_is_clean(a), masked = j == 1 && gate_first_is_clean(a);
    Candidate best;
    for (std::int64_t e = lane; e < a.experts; e += 32) {
      const double rank = clean ? gate_rank(a, x, e) : gate_noisy_rank(a, x, s, e);
      const Candidate next{gate_within(a, open, e, rank), static_cast<int>(e)};
      const bool waits = masked ? next.expert != last.expert : last.expert < 0 || last.beats(next);
      if (waits && next.expert != last.expert && next.beats(best)) best = next;
    }
    last = warp_best(best);
    if (lane != 0) continue;
    const double v = static_cast<double>(x[last.expert]);
    const double score = a.score == plan::GateScore::sigmoid ? gate_sigmoid(v) : gate_exp(v - of.top) / of.share;
    a.to.chosen[s * a.top_k + j] = last.expert;
    static_cast<T*>(a.scores)[s * a.top_k + j] = static_cast<T>(score);
  }
}

struct TokenBlock {
  std::int64_t first, end;
};
__device__ __forceinline__ TokenBlock token_block(const GateArgs& a) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * plan::gate_block_tokens,
                     end = first + plan::gate_block_tokens;
  return {first, end < a.tokens ? end : a.tokens};
}

// Sums over one block of tokens, each in token order, and the block's number of choices of each class and expert.
template <class T> __global__ void __launch_bounds__(row_threads) gate_blocks_kernel(GateForwardArgs a) {
  const auto tokens = token_block(a);
  double* sums = a.block_numbers + blockIdx.x * (a.experts + 2);
  for (std::int64_t i = threadIdx.x; i < a.experts + 2; i += row_threads) {
    double sum = 0;
    for (auto s = tokens.first; s < tokens.end; ++s) {
      const double* numbers = a.token_numbers + s * plan::gate_token_numbers;
      if (i >= a.experts) {
        sum += numbers[2 + i - a.experts];
        continue;
      }
      const double x = static_cast<double>(a.logits.row<T>(s)[i]);
      sum += (a.score == plan::GateScore::sigmoid ? gate_sigmoid(x) : gate_exp(x - numbers[0])) / numbers[1];
    }
    sums[i] = sum;
  }
  for (std::int64_t slot = threadIdx.x; slot < gate_classes(a) * a.experts; slot += row_threads) {
    int count = 0;
    for (auto c = tokens.first * a.top_k; c < tokens.end * a.top_k; ++c) count += gate_slot(a, c) == slot ? 1 : 0;
    a.block_counts[blockIdx.x * 2 * a.experts + slot] = count;
  }
}

// Launched as one block. Turns the counts of blocks into the number of earlier blocks' choices. Then computes what
// follows from the totals.
__global__ void __launch_bounds__(row_threads) gate_totals_kernel(GateForwardArgs a, std::int64_t blocks) {
  __shared__ int scan[row_threads];
  __shared__ double shared[row_threads / 32];
  const std::int64_t slots = gate_classes(a) * a.experts, t = threadIdx.x;
  for (auto slot = t; slot < slots; slot += row_threads) {
    int total = 0;
    for (std::int64_t b0 = 0; b0 < blocks; b0 += 8) {
      int count[8];  // eight counts are read at once
      for (int i = 0; i < 8; ++i) count[i] = b0 + i < blocks ? a.block_counts[(b0 + i) * 2 * a.experts + slot] : 0;
      for (int i = 0; i < 8 && b0 + i < blocks; ++i) {
        a.block_counts[(b0 + i) * 2 * a.experts + slot] = total;
        total += count[i];
      }
    }
    a.ends[slot] = total;
  }
  __syncthreads();
  int before = 0;
  for (std::int64_t base = 0; base < slots; base += row_threads) {
    const auto slot = base + t;
    const auto sum = block_scan(slot < slots ? a.ends[slot] : 0, scan);
    if (slot < slots) a.ends[slot] = before + sum.up_to_here;
    before += sum.all;
  }
  __syncthreads();
  before = 0;
  for (std::int64_t base = 0; base < a.experts; base += row_threads) {
    const auto e = base + t;
    const int rows = e < a.experts ? static_cast<int>(gate_rows_of(a, e)) : 0;
    const auto sum = block_scan(rows, scan);
    if (e < a.experts) gate_put_group(a, e, before + sum.up_to_here - rows);
    before += sum.all;
  }
  double balance = 0;
  for (auto i = t; i < a.experts + 2; i += row_threads) {
    double sum = 0;
#pragma unroll 8
    for (std::int64_t b = 0; b < blocks; ++b) sum += a.block_numbers[b * (a.experts + 2) + i];
    if (i < a.experts) balance += gate_balance_part(a, i, sum);
    else a.block_numbers[i] = sum;
  }
  balance = block_sum(balance, shared);
  if (t == 0) gate_put_losses(a, balance, a.block_numbers + a.experts);
}

// Sorts the choices by class and expert, each run in the order of tokens; and marks all rows as unused.
__global__ void __launch_bounds__(row_threads) gate_order_kernel(GateForwardArgs a) {
  const auto tokens = token_block(a);
  for (std::int64_t slot = threadIdx.x; slot < gate_classes(a) * a.experts; slot += row_threads) {
    auto place = gate_slot_begin(a, slot) + a.block_counts[blockIdx.x * 2 * a.experts + slot];
    for (auto c = tokens.first * a.top_k; c < tokens.end * a.top_k; ++c)
      if (gate_slot(a, c) == slot) a.order[place++] = static_cast<std::int32_t>(c);
  }
  TRAINYARD_EACH(r, a.source_rows) a.to.sources[r] = -1;
}

// Of n keys, those above `key` are kept, and the first `ties` of the keys that equal it.
struct KeyCut {
  Key key;
  std::int64_t ties;
};
// The cut that keeps `keep` of n keys, 0 < keep < n, found digit by digit from the highest. Every thread of the block
// gets it.
__device__ __forceinline__ KeyCut key_cut(const std::uint64_t* keys, std::int64_t n, std::int64_t keep, int* scan) {
  __shared__ unsigned counts[256];
  __shared__ int digit, left;
  static_assert(row_threads == 256);
  const int t = static_cast<int>(threadIdx.x);
  Key found = 0, mask = 0;
  for (int shift = 56; shift >= 0; shift -= 8) {
    counts[t] = 0;
    __syncthreads();
    for (std::int64_t i = t; i < n; i += row_threads)
      if ((keys[i] & mask) == found) atomicAdd(&counts[(keys[i] >> shift) & 255], 1u);
    __syncthreads();
    const int count = static_cast<int>(counts[255 - t]), upto = block_scan(count, scan).up_to_here;
    if (upto >= keep && upto - count < keep) digit = 255 - t, left = static_cast<int>(keep) - (upto - count);
    __syncthreads();
    found |= static_cast<Key>(digit) << shift;
    mask |= Key{255} << shift;
    keep = left;
    __syncthreads();
  }
  return {found, keep};
}

// One block for each expert. Each thread takes a run of neighbouring choices, so that places are in the order of
// tokens.
template <class T> __global__ void __launch_bounds__(row_threads) gate_places_kernel(GateForwardArgs a) {
  __shared__ int scan[row_threads];
  const std::int64_t e = blockIdx.x, t = threadIdx.x;
  std::int64_t before = 0;
  for (auto slot = e; slot < gate_classes(a) * a.experts; slot += a.experts) {
    const auto begin = gate_slot_begin(a, slot), wanted = gate_wanted(a, slot), keep = gate_kept(a, wanted, before);
    KeyCut cut{0, keep};
    const bool in_order = keep == 0 || keep == wanted || a.overflow == plan::Overflow::position;
    if (!in_order) {
      for (auto i = t; i < wanted; i += row_threads)
        a.order_keys[begin + i] = gate_overflow_key<T>(a, a.order[begin + i], e);
      __syncthreads();
      cut = key_cut(a.order_keys + begin, wanted, keep, scan);
    }
    const auto key_at = [&](std::int64_t i) { return in_order ? Key{0} : static_cast<Key>(a.order_keys[begin + i]); };
    const auto run = (wanted + row_threads - 1) / row_threads, first = t * run < wanted ? t * run : wanted,
               end = first + run < wanted ? first + run : wanted;
    int above = 0, equal = 0;
    for (auto i = first; i < end; ++i) {
      const auto key = key_at(i);
      above += key > cut.key ? 1 : 0;
      equal += key == cut.key ? 1 : 0;
    }
    auto ties = cut.ties - (block_scan(equal, scan).up_to_here - equal);  // ties left for this run
    const int of_ties = ties < 0 ? 0 : ties < equal ? static_cast<int>(ties) : equal, own = above + of_ties;
    auto row = a.to.groups[2 * e] + before + block_scan(own, scan).up_to_here - own;
    for (auto i = first; i < end; ++i) {
      const auto choice = a.order[begin + i];
      const auto key = key_at(i);
      const bool kept = key > cut.key || (key == cut.key && ties-- > 0);
      a.to.rows[choice] = kept ? static_cast<std::int32_t>(row) : -1;
      if (kept && row < a.source_rows) a.to.sources[row] = choice;
      row += kept ? 1 : 0;
    }
    before += wanted;
  }
}

template <class T> __global__ void gate_weigh_kernel(GateForwardArgs a) {
  TRAINYARD_EACH(s, a.tokens) gate_weigh<T>(a, s);
}

template <class T> __global__ void __launch_bounds__(row_threads) gate_backward_kernel(GateBackwardArgs a) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t s = static_cast<std::int64_t>(blockIdx.x) * token_warps + threadIdx.x / 32;
  if (s >= a.tokens) return;  // the same for the whole warp
  const T* x = a.logits.row<T>(s);
  T* d = a.d_logits.row<T>(s);
  const bool sigmoid = a.score == plan::GateScore::sigmoid;
  const double unit = gate_balance_slope(a);
  const auto slope_of = [&](std::int64_t e) {
    return unit * static_cast<double>(a.loads[a.experts + e]) + gate_score_slope<T>(a, s, e);
  };
  const auto of = token_sums(a, x);
  const auto score_of = [&](std::int64_t e) {
    const double v = static_cast<double>(x[e]);
    return sigmoid ? gate_sigmoid(v) : gate_exp(v - of.top);
  };
  double along = 0;
  for (std::int64_t e = lane; e < a.experts; e += 32) along += score_of(e) * slope_of(e);
  along = warp_sum(along) / of.share;
  const double z =
      a.z == 0 ? 0 : 2 * a.z * *a.targets * (of.top + gate_log(of.sum)) / static_cast<double>(a.tokens) / of.sum;
  for (std::int64_t e = lane; e < a.experts; e += 32) {
    const double score = score_of(e), part = z == 0 ? 0 : gate_exp(static_cast<double>(x[e]) - of.top);
    d[e] = static_cast<T>((slope_of(e) - along) / of.share * score * (sigmoid ? 1 - score : 1) + z * part);
  }
  __syncwarp();
  if (lane == 0)
    gate_weight_slopes<T>(
        a, s, [&](std::int64_t e, double slope) { d[e] = static_cast<T>(static_cast<double>(d[e]) + slope); });
}

// Products are rounded on their own, which gives the bits of the CPU.
template <class T> __global__ void gate_jitter_kernel(GateJitterArgs a) {
  TRAINYARD_EACH(i, a.x.rows * a.x.cols) {
    const auto [s, c] = place_of(i, a.x.cols);
    const auto words =
        philox_words(a.keys.seed, a.keys.noise_site, gate_index(a.keys, s) + static_cast<std::uint64_t>(c));
    const double factor = 0.99 + rounded_product(0.02, gate_uniform(words));
    store(&a.y.row<T>(s)[c],
          static_cast<compute_t<T>>(rounded_product(static_cast<double>(widen(a.x.row<T>(s)[c])), factor)));
  }
}

unsigned blocks_of_tokens(const GateArgs& a) {
  return static_cast<unsigned>((a.tokens + token_warps - 1) / token_warps);
}

template <class T> void forward_gate(const GateForwardArgs& a, void* stream) {
  const auto blocks = plan::gate_blocks(a.tokens);
  const auto grid = static_cast<unsigned>(blocks);
  TRAINYARD_LAUNCH(gate_choose_kernel<T>, true, blocks_of_tokens(a), row_threads, stream, a);
  TRAINYARD_LAUNCH(gate_blocks_kernel<T>, false, grid, row_threads, stream, a);
  TRAINYARD_LAUNCH(gate_totals_kernel, true, 1, row_threads, stream, a, blocks);
  TRAINYARD_LAUNCH(gate_order_kernel, false, grid, row_threads, stream, a);
  TRAINYARD_LAUNCH(gate_places_kernel<T>, true, static_cast<unsigned>(a.experts), row_threads, stream, a);
  TRAINYARD_LAUNCH(gate_weigh_kernel<T>, false, blocks_for(a.tokens), 256, stream, a);
}

}  // namespace

const char* gpu::gate_forward(const GateForwardArgs& a, void* stream) {
  if (a.logits.type == Type::f64) forward_gate<double>(a, stream);
  else forward_gate<float>(a, stream);
  return launch_failure();
}

const char* gpu::gate_backward(const GateBackwardArgs& a, void* stream) {
  if (a.logits.type == Type::f64)
    TRAINYARD_LAUNCH(gate_backward_kernel<double>, true, blocks_of_tokens(a), row_threads, stream, a);
  else TRAINYARD_LAUNCH(gate_backward_kernel<float>, true, blocks_of_tokens(a), row_threads, stream, a);
  return launch_failure();
}

const char* gpu::gate_jitter(const GateJitterArgs& a, void* stream) {
  with_type(a.x.type, [&]<class T>(T*) {
    TRAINYARD_LAUNCH(gate_jitter_kernel<T>, false, blocks_for(a.x.rows * a.x.cols), 256, stream, a);
  });
  return launch_failure();
}

}  // namespace trainyard::kernels
