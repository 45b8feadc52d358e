// Norms: a warp works on one row, and each thread reads 16 bytes at a time. Weight gradients are summed by fixed blocks
// of rows, as on the CPU.
#include "kernels/dropout/dropout_device.h"
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"
#include "libtrain/plan/blocks/scratch.h"

namespace trainyard::kernels {
namespace {

constexpr int rows_of_block = row_threads / 32;

// Group g of V channels of a row that is first computed as a sum: x = residual + dropout(branch).
template <class T, int V>
__device__ __forceinline__ Vec<T, V> summed(const NormForwardArgs& a, std::int64_t r, std::int64_t g) {
  using G = compute_t<T>;
  const auto residual = vec_at<V>(a.sum.residual.row<T>(r) + g * V), branch = vec_at<V>(a.sum.x.row<T>(r) + g * V);
  Vec<T, V> out;
  for (int k0 = 0; k0 < V; k0 += 4) {
    const auto first = g * V + k0;
    const auto keep = kept_of<G>(a.sum, r, first / 4);
    for (int k = k0; k < k0 + 4 && k < V; ++k)
      store(&out.v[k], static_cast<G>(widen(residual.v[k])) +
                           keep(static_cast<int>((first + k - k0) % 4), static_cast<G>(widen(branch.v[k]))));
  }
  return out;
}

// Calls body(group, j) for this lane's groups; its j-th group is lane + 32 j. With Held > 0 a row has at most Held
// groups for each lane. Then the loop is unrolled, so that all groups start together and j can index registers.
template <int Held, class Body> __device__ __forceinline__ void each_group(std::int64_t groups, const Body& body) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  if constexpr (Held > 0) {
#pragma unroll
    for (int j = 0; j < Held; ++j)
      if (lane + 32 * j < groups) body(static_cast<std::int64_t>(lane + 32 * j), j);
  } else {
    for (std::int64_t g = lane; g < groups; g += 32) body(g, 0);
  }
}

// A group as 32-bit words, because a single bf16 would take a register of its own.
template <class T, int V> using Words32 = Vec<unsigned, sizeof(T) * V / 4>;
template <class T, int V> __device__ __forceinline__ Vec<T, V> taken_apart(Words32<T, V> words) {
  Vec<T, V> out;
#pragma unroll
  for (int k = 0; k < V; ++k)
    if constexpr (sizeof(T) == 2) out.v[k].bits = static_cast<std::uint16_t>(words.v[k / 2] >> (k % 2 * 16));
    else out.v[k] = __uint_as_float(words.v[k]);
  return out;
}
template <class T, int V> __device__ __forceinline__ Words32<T, V> put_together(const Vec<T, V>& group) {
  Words32<T, V> out{};
#pragma unroll
  for (int k = 0; k < V; ++k)
    if constexpr (sizeof(T) == 2) out.v[k / 2] |= static_cast<unsigned>(group.v[k].bits) << (k % 2 * 16);
    else out.v[k] = __float_as_uint(group.v[k]);
  return out;
}

// A lane's groups of a row: kept in registers, or read again where the row is too long for them.
template <class T, int V, int Held> struct Row {
  const T* from;
  Words32<T, V> held[Held];
  __device__ __forceinline__ void fetch(std::int64_t groups) {
    each_group<Held>(groups, [&](std::int64_t g, int j) {
      held[j] = vec_at<sizeof(T) * V / 4>(reinterpret_cast<const unsigned*>(from + g * V));
    });
  }
  __device__ __forceinline__ void hold(int j, const Vec<T, V>& group) { held[j] = put_together<T, V>(group); }
  __device__ __forceinline__ Vec<T, V> at(std::int64_t, int j) const { return taken_apart<T, V>(held[j]); }
};
template <class T, int V> struct Row<T, V, 0> {
  const T* from;
  __device__ __forceinline__ void fetch(std::int64_t) {}
  __device__ __forceinline__ void hold(int, const Vec<T, V>&) {}
  __device__ __forceinline__ Vec<T, V> at(std::int64_t g, int) const { return vec_at<V>(from + g * V); }
};

template <class T, int V, int Held> __global__ void __launch_bounds__(row_threads, 2)
    norm_forward_kernel(NormForwardArgs a) {
  using G = compute_t<T>;
  const std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * rows_of_block + threadIdx.x / 32, n = a.x.cols,
                     groups = n / V;
  if (r >= a.x.rows) return;
  const T* x = a.x.row<T>(r);
  const T* weight = a.weight.ptr<T>();
  const T* bias = a.bias.ptr<T>();
  T* y = a.y.row<T>(r);
  const bool centred = !a.mean.empty();
  const G offset = static_cast<G>(a.offset);
  Row<T, V, Held> row{x};
  if (a.sum.x.empty()) row.fetch(groups);
  else
    each_group<Held>(groups, [&](std::int64_t g, int j) {
      const auto sum = summed<T, V>(a, r, g);
      put_vec(a.sum.y.row<T>(r) + g * V, sum);
      row.hold(j, sum);
    });
  G total = 0;
  if (centred)
    each_group<Held>(groups, [&](std::int64_t g, int j) {
      const auto in = row.at(g, j);
      for (int k = 0; k < V; ++k) total += widen(in.v[k]);
    });
  const G mean = centred ? warp_sum(total) / static_cast<G>(n) : G(0);
  G square = 0;
  each_group<Held>(groups, [&](std::int64_t g, int j) {
    const auto in = row.at(g, j);
    for (int k = 0; k < V; ++k) {
      const G d = static_cast<G>(widen(in.v[k])) - mean;
      square += d * d;
    }
  });
  const G rstd = G(1) / sqrt_of(warp_sum(square) / static_cast<G>(n) + static_cast<G>(a.epsilon));
  if (threadIdx.x % 32 == 0) {
    a.rstd.ptr<G>()[r] = rstd;
    if (centred) a.mean.ptr<G>()[r] = mean;
  }
  each_group<Held>(groups, [&](std::int64_t g, int j) {
    const auto in = row.at(g, j), w = vec_at<V>(weight + g * V);
    const auto b = centred ? vec_at<V>(bias + g * V) : w;
    Vec<T, V> out;
    for (int k = 0; k < V; ++k) {
      const G scaled = (static_cast<G>(widen(in.v[k])) - mean) * rstd * (static_cast<G>(widen(w.v[k])) + offset);
      store(&out.v[k], centred ? scaled + static_cast<G>(widen(b.v[k])) : scaled);
    }
    put_vec(y + g * V, out);
  });
}

// Sums of dy xh and of dy over the rows of one block of rows; each thread takes V columns.
template <class T, int V> __global__ void norm_partial_kernel(NormBackwardArgs a) {
  using G = compute_t<T>;
  const std::int64_t blocks = a.partials.rows / 2, groups = a.x.cols / V;
  const bool centred = !a.mean.empty();
  TRAINYARD_EACH(i, blocks * groups) {
    const auto [b, g] = place_of(i, groups);
    const auto end = (b + 1) * plan::column_sum_rows < a.x.rows ? (b + 1) * plan::column_sum_rows : a.x.rows;
    Vec<G, V> weight{}, bias{};
#pragma unroll 8
    for (auto r = b * plan::column_sum_rows; r < end; ++r) {
      const G mean = centred ? a.mean.ptr<G>()[r] : G(0), rstd = a.rstd.ptr<G>()[r];
      const auto d = vec_at<V>(a.dy.row<T>(r) + g * V), x = vec_at<V>(a.x.row<T>(r) + g * V);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        const G dy = widen(d.v[k]), hat = (static_cast<G>(widen(x.v[k])) - mean) * rstd;
        weight.v[k] += dy * hat;
        bias.v[k] += dy;
      }
    }
    put_vec(a.partials.row<G>(b) + g * V, weight);
    put_vec(a.partials.row<G>(blocks + b) + g * V, centred ? bias : Vec<G, V>{});
  }
}

// Adds the blocks of all ranks, rank by rank. Each thread computes one sum; the sums of the weight come before those of
// the bias.
template <class G> __global__ void norm_partial_sum_kernel(NormPartialSumArgs a) {
  const std::int64_t blocks = a.partials.rows / (2 * a.ranks);
  TRAINYARD_EACH(i, a.partials.cols * (a.dbias.empty() ? 1 : 2)) {
    const auto [which, c] = place_of(i, a.partials.cols);
    G sum = a.partials.row<G>(which * blocks)[c];
    for (std::int64_t rank = 0; rank < a.ranks; ++rank) {
      const std::int64_t first = (2 * rank + which) * blocks;
#pragma unroll 16
      for (std::int64_t b = rank == 0 ? 1 : 0; b < blocks; ++b) sum += a.partials.row<G>(first + b)[c];
    }
    static_cast<G*>(which == 0 ? a.dweight.data : a.dbias.data)[c] = sum;
  }
}

// With xh = (x - mean) rstd and gw = dy (weight + offset): dx = rstd (gw - mean(gw) - xh mean(gw xh)). RMS norm has no
// mean(gw) term. Runs after the partial sums, because dx may be dy.
template <class T, int V, int Held> __global__ void __launch_bounds__(row_threads, 2)
    norm_backward_kernel(NormBackwardArgs a) {
  using G = compute_t<T>;
  const std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * rows_of_block + threadIdx.x / 32, n = a.x.cols,
                     groups = n / V;
  if (r >= a.x.rows) return;
  Row<T, V, Held> x{a.x.row<T>(r)}, dy{a.dy.row<T>(r)};
  x.fetch(groups);
  dy.fetch(groups);
  T* dx = a.dx.row<T>(r);
  const T* weight = a.weight.ptr<T>();
  const bool centred = !a.mean.empty();
  const G rstd = a.rstd.ptr<G>()[r], mean = centred ? a.mean.ptr<G>()[r] : G(0), offset = static_cast<G>(a.offset);
  G plain = 0, along = 0;
  each_group<Held>(groups, [&](std::int64_t g, int j) {
    const auto in = x.at(g, j), d = dy.at(g, j), w = vec_at<V>(weight + g * V);
    for (int k = 0; k < V; ++k) {
      const G scaled = static_cast<G>(widen(d.v[k])) * (static_cast<G>(widen(w.v[k])) + offset);
      plain += scaled;
      along += scaled * ((static_cast<G>(widen(in.v[k])) - mean) * rstd);
    }
  });
  plain = warp_sum(plain) / static_cast<G>(n);
  along = warp_sum(along) / static_cast<G>(n);
  if (!centred) plain = 0;
  each_group<Held>(groups, [&](std::int64_t g, int j) {
    const auto in = x.at(g, j), d = dy.at(g, j), w = vec_at<V>(weight + g * V),
               before = a.add ? vec_at<V>(dx + g * V) : d;
    Vec<T, V> out;
    for (int k = 0; k < V; ++k) {
      const G scaled = static_cast<G>(widen(d.v[k])) * (static_cast<G>(widen(w.v[k])) + offset);
      const G through = rstd * (scaled - plain - (static_cast<G>(widen(in.v[k])) - mean) * rstd * along);
      store(&out.v[k], a.add ? static_cast<G>(widen(before.v[k])) + through : through);
    }
    put_vec(dx + g * V, out);
  });
}

// Calls body<V, Held>() for rows of that many groups of vector_of<T>. 0 groups: rows that do not divide into whole,
// aligned groups.
template <class T, class Body> void with_row(std::int64_t groups, const Body& body) {
  constexpr int V = vector_of<T>;
  if (V == 1 || groups == 0) return body.template operator()<1, 0>();
  if constexpr (V > 1) {
    if (groups <= 4 * 32) body.template operator()<V, 4>();
    else if (groups <= 8 * 32) body.template operator()<V, 8>();
    else body.template operator()<V, 0>();
  }
}

unsigned blocks_of(const ConstMat& x) { return static_cast<unsigned>((x.rows + rows_of_block - 1) / rows_of_block); }

}  // namespace

const char* gpu::norm_forward(const NormForwardArgs& a, void* stream) {
  with_type(a.x.type, [&]<class T>(T*) {
    constexpr int V = vector_of<T>;
    const bool grouped = in_groups(V, a.x, a.weight, a.bias, a.y, a.sum.x, a.sum.residual);
    with_row<T>(grouped ? a.x.cols / V : 0, [&]<int Group, int Held>() {
      constexpr auto kernel = norm_forward_kernel<T, Group, Held>;
      TRAINYARD_LAUNCH(kernel, true, blocks_of(a.x), row_threads, stream, a);
    });
  });
  return launch_failure();
}

const char* gpu::norm_backward(const NormBackwardArgs& a, void* stream) {
  with_type(a.x.type, [&]<class T>(T*) {
    constexpr int V = vector_of<T>, C = summed_columns<T>;
    constexpr auto column = norm_partial_kernel<T, 1>, columns = norm_partial_kernel<T, C>;
    const bool aligned = in_groups(C, a.x, a.dy, a.partials);
    const auto partial = aligned ? columns : column;
    const auto threads = a.partials.rows / 2 * a.x.cols / (aligned ? C : 1);
    TRAINYARD_LAUNCH(partial, false, blocks_for(threads), 256, stream, a);
    const bool grouped = in_groups(V, a.x, a.weight, a.dy, a.dx);
    with_row<T>(grouped ? a.x.cols / V : 0, [&]<int Group, int Held>() {
      constexpr auto kernel = norm_backward_kernel<T, Group, Held>;
      TRAINYARD_LAUNCH(kernel, true, blocks_of(a.x), row_threads, stream, a);
    });
  });
  return launch_failure();
}

const char* gpu::norm_partial_sum(const NormPartialSumArgs& a, void* stream) {
  constexpr int threads = 32;  // small blocks, so that the few sums use as many multiprocessors as possible
  const auto blocks = static_cast<unsigned>((2 * a.partials.cols + threads - 1) / threads);
  if (a.partials.type == Type::f64)
    TRAINYARD_LAUNCH(norm_partial_sum_kernel<double>, false, blocks, threads, stream, a);
  else TRAINYARD_LAUNCH(norm_partial_sum_kernel<float>, false, blocks, threads, stream, a);
  return launch_failure();
}

}  // namespace trainyard::kernels
