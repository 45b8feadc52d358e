// Cross entropy, one block for each token: maximum and sum of exponentials in one pass, the gradient in another.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"
#include "kernels/lane_order.h"

namespace trainyard::kernels {
namespace {

template <bool Smooth> constexpr std::int64_t numbers_of = Smooth ? 4 : 3;  // CrossEntropyArgs::numbers

template <class G, bool Smooth> struct Softmax {
  G top, sum;  // maximum, and sum of exp(x - maximum); a sum of 0 means no columns
};
template <class G> struct Softmax<G, true> {
  G top, sum;
  G logits;  // the sum of x, for label smoothing
};

// Products are rounded on their own, so that two separate steps have the bits of both steps together.
template <class G, bool Smooth>
__device__ __forceinline__ Softmax<G, Smooth> join(const Softmax<G, Smooth>& a, const Softmax<G, Smooth>& b) {
  if (b.sum == 0) return a;  // columns that count come first: if b has none, a has some, or both have none
  const G top = b.top > a.top ? b.top : a.top;
  Softmax<G, Smooth> both{top,
                          rounded_product(a.sum, exp_of(a.top - top)) + rounded_product(b.sum, exp_of(b.top - top))};
  if constexpr (Smooth) both.logits = a.logits + b.logits;
  return both;
}

__device__ __forceinline__ float cap_tanh(float x) { return tanhf(x); }
__device__ __forceinline__ double cap_tanh(double x) { return tanh(x); }

// The logit that the softmax has, and its derivative. Products are rounded on their own here, too.
template <bool Capped, class G> __device__ __forceinline__ G seen(const CrossEntropyArgs& a, G x) {
  if constexpr (Capped) return rounded_product(static_cast<G>(a.softcap), cap_tanh(x / static_cast<G>(a.softcap)));
  else return x;
}
template <bool Capped, class G> __device__ __forceinline__ G cap_slope(const CrossEntropyArgs& a, G x) {
  if constexpr (Capped) {
    const G t = cap_tanh(x / static_cast<G>(a.softcap));
    return G(1) - rounded_product(t, t);
  } else {
    return 1;
  }
}

// Joins results that come one after the other, in the order of lanes.
template <class G, bool Smooth> struct Joined {
  Softmax<G, Smooth> waiting[lane_levels], all{};
  __device__ __forceinline__ void next(std::int64_t i, std::int64_t n, Softmax<G, Smooth> result) {
    const auto step = lane_step(i, n);
    for (int k = 0; k < step.joins; ++k) result = join(waiting[k], result);
    waiting[step.place] = all = result;
  }
};

// The maximum and sum of a lane; every thread of the block gets the same result. A thread reads V neighbours at a time
// and rescales its sum whenever its maximum grows (online softmax).
template <int V, bool Capped, bool Smooth, class G>
__device__ __forceinline__ Softmax<G, Smooth> lane_of(const CrossEntropyArgs& a, const G* logits, std::int64_t lane,
                                                      G* shared) {
  const std::int64_t width = a.logits.cols / a.lanes, left = a.columns - lane * width, n = left < width ? left : width;
  if (n <= 0) return {};
  const G* x = logits + lane * width;
  G top = seen<Capped>(a, x[0]), sum = 0;  // of this thread; every thread may start from the first value
  [[maybe_unused]] G logits_sum = 0;
  for (std::int64_t g = threadIdx.x; g * V < n; g += row_threads) {
    const auto in = vec_at<V>(x + g * V);
    for (int k = 0; k < V; ++k) {
      if (g * V + k >= n) break;
      const G v = seen<Capped>(a, in.v[k]);
      if constexpr (Smooth) logits_sum += v;
      if (v > top) {
        sum = product_plus(sum, exp_of(top - v), G(1));
        top = v;
      } else {
        sum += exp_of(v - top);
      }
    }
  }
  const G most = block_max(top, shared);
  Softmax<G, Smooth> of_lane{most, block_sum(rounded_product(sum, exp_of(top - most)), shared)};
  if constexpr (Smooth) of_lane.logits = block_sum(logits_sum, shared);
  return of_lane;
}

// The first step: the statistics of this rank's columns, piece by piece. Returns the last piece.
template <int V, bool Capped, bool Smooth, class G>
__device__ __forceinline__ Softmax<G, Smooth> find(const CrossEntropyArgs& a, const G* logits, std::int64_t pieces,
                                                   G* shared) {
  const std::int64_t r = blockIdx.x, lanes = a.lanes / pieces, width = a.logits.cols / pieces,
                     each = numbers_of<Smooth>, target = a.targets[r] - a.first_column;
  const bool counts = a.weights[r] != 0;
  Softmax<G, Smooth> last{};
  for (std::int64_t p = 0; p < pieces; ++p) {
    Joined<G, Smooth> piece;
    for (std::int64_t l = 0; l < lanes && counts; ++l)
      piece.next(l, lanes, lane_of<V, Capped, Smooth>(a, logits, p * lanes + l, shared));
    last = piece.all;
    if (a.statistics.empty() || threadIdx.x != 0) continue;
    a.statistics.row<G>(each * p)[r] = last.top;
    a.statistics.row<G>(each * p + 1)[r] = last.sum;
    a.statistics.row<G>(each * p + 2)[r] =
        counts && target / width == p && target >= 0 ? seen<Capped>(a, logits[target]) : G(0);
    if constexpr (Smooth) a.statistics.row<G>(each * p + 3)[r] = last.logits;
  }
  return last;
}

// What the softmax is compared with: the target's logit, or the mean of logits by their shares.
template <bool Smooth, class G> __device__ __forceinline__ double expected_logit(const CrossEntropyArgs& a,
                                                                                 const Softmax<G, Smooth>& all,
                                                                                 G target_logit) {
  const auto target = static_cast<double>(target_logit);
  if constexpr (Smooth)
    return rounded_product(a.target_share, target) + rounded_product(a.column_share, static_cast<double>(all.logits));
  else return target;
}

// A block works on one row and reads it twice, once for each step. The launch bounds keep registers so few that a
// multiprocessor can hold as many threads as it supports.
template <class T, int V, bool Capped, bool Smooth>
__global__ void __launch_bounds__(row_threads, sizeof(T) == 8 ? 1 : 8) cross_entropy_kernel(CrossEntropyArgs a) {
  using G = compute_t<T>;
  __shared__ G shared[row_threads / 32];
  const std::int64_t r = blockIdx.x, n = a.columns;
  const G* logits = a.logits.row<G>(r);
  T* out = a.dlogits.empty() ? nullptr : a.dlogits.row<T>(r);
  const std::int64_t groups = a.logits.cols / V;
  if (Capped && a.step == CrossEntropyStep::cap) {
    G* capped = reinterpret_cast<G*>(out);  // of the type of the logits
    for (std::int64_t c = threadIdx.x; c < a.logits.cols; c += row_threads) capped[c] = seen<Capped>(a, logits[c]);
    return;
  }
  if (a.step == CrossEntropyStep::statistics) {
    find<V, Capped, Smooth>(a, logits, a.statistics.rows / numbers_of<Smooth>, shared);
    return;
  }
  if (a.weights[r] == 0) {  // the same for the whole block
    if (threadIdx.x == 0) a.losses[r] = 0;
    Vec<T, V> zero;
    for (int k = 0; k < V; ++k) store(&zero.v[k], G(0));
    for (std::int64_t g = threadIdx.x; out != nullptr && g < groups; g += row_threads) put_vec(out + g * V, zero);
    return;
  }
  const std::int64_t target = a.targets[r] - a.first_column;
  Softmax<G, Smooth> all;
  G logit;
  if (a.step == CrossEntropyStep::both) {
    all = find<V, Capped, Smooth>(a, logits, 1, shared);
    logit = seen<Capped>(a, logits[target]);
    __syncthreads();  // dlogits may overlap logits: now every thread has read the target's logit
  } else {
    constexpr auto each = numbers_of<Smooth>;
    const auto pieces = a.all_statistics.rows / each;
    Joined<G, Smooth> joined;
    logit = 0;  // at most one piece has the target; the others are 0
    for (std::int64_t p = 0; p < pieces; ++p) {
      Softmax<G, Smooth> piece{a.all_statistics.row<G>(each * p)[r], a.all_statistics.row<G>(each * p + 1)[r]};
      if constexpr (Smooth) piece.logits = a.all_statistics.row<G>(each * p + 3)[r];
      joined.next(p, pieces, piece);
      logit += a.all_statistics.row<G>(each * p + 2)[r];
    }
    all = joined.all;
  }
  if (threadIdx.x == 0)
    a.losses[r] = log(static_cast<double>(all.sum)) + (static_cast<double>(all.top) - expected_logit(a, all, logit));
  if (out == nullptr) return;
  const G scale = G(1) / all.sum, of_loss = static_cast<G>(a.loss_scale),
          share = Smooth ? static_cast<G>(a.column_share) : G(0),
          share_of_target = Smooth ? static_cast<G>(a.target_share + a.column_share) : G(1);
  for (std::int64_t g = threadIdx.x; g < groups; g += row_threads) {
    const auto in = vec_at<V>(logits + g * V);
    Vec<T, V> gradient;
    for (int k = 0; k < V; ++k) {
      const auto c = g * V + k;
      const G p = c < n ? rounded_product(exp_of(seen<Capped>(a, in.v[k]) - all.top), scale) : G(0),
              d = c == target       ? p - share_of_target
                  : Smooth && c < n ? p - share
                                    : p;
      store(&gradient.v[k], d * (cap_slope<Capped>(a, in.v[k]) * of_loss));
    }
    put_vec(out + g * V, gradient);
  }
}

template <class T, bool Smooth> auto kernel_of(bool fours, bool capped) {
  constexpr auto one = cross_entropy_kernel<T, 1, false, Smooth>, four = cross_entropy_kernel<T, 4, false, Smooth>,
                 capped_one = cross_entropy_kernel<T, 1, true, Smooth>,
                 capped_four = cross_entropy_kernel<T, 4, true, Smooth>;
  return capped ? (fours ? capped_four : capped_one) : fours ? four : one;
}

__global__ void __launch_bounds__(row_threads) sum_losses_kernel(SumLossesArgs a) {
  __shared__ double parts[row_threads];
  const std::int64_t run = (a.n + row_threads - 1) / row_threads, first = run * threadIdx.x,
                     end = first + run < a.n ? first + run : a.n;
  double sum = 0;
  for (auto i = first; i < end; ++i) sum += a.losses[i];
  parts[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int t = 1; t < row_threads; ++t) sum += parts[t];
  *a.out = sum;
}

}  // namespace

const char* gpu::sum_losses(const SumLossesArgs& a, void* stream) {
  TRAINYARD_LAUNCH(sum_losses_kernel, true, 1, row_threads, stream, a);
  return launch_failure();
}

const char* gpu::cross_entropy(const CrossEntropyArgs& a, void* stream) {
  with_type(a.dlogits.empty() ? a.logits.type : a.dlogits.type, [&]<class T>(T*) {
    const bool fours = in_groups(4, a.logits, a.dlogits) && a.logits.cols / a.lanes % 4 == 0;
    const auto kernel = a.smooth ? kernel_of<T, true>(fours, a.softcap > 0) : kernel_of<T, false>(fours, a.softcap > 0);
    TRAINYARD_LAUNCH(kernel, true, static_cast<unsigned>(a.logits.rows), row_threads, stream, a);
  });
  return launch_failure();
}

}  // namespace trainyard::kernels
