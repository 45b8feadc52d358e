// The sum of lanes: each thread adds the pieces of its elements in the tree's order, each addition rounded once.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"

namespace trainyard::kernels {
namespace {

// The tree of R pieces, in registers.
template <class T, int R> __device__ __forceinline__ T tree_of(const ConstMat& pieces, std::int64_t i) {
  T v[R];
  for (int r = 0; r < R; ++r) v[r] = pieces.row<T>(r)[i];
  for (int step = 1; step < R; step *= 2)
    for (int r = 0; r < R; r += 2 * step) v[r] += v[r + step];
  return v[0];
}

// The sum of any number of pieces. In the tree, sums that wait for their neighbour are a stack; it is as deep as the
// piece's number has one bits. Pieces are added from left to right if their number is no power of two.
template <class T> __device__ __forceinline__ T sum_of(const ConstMat& pieces, std::int64_t i) {
  switch (pieces.rows) {
    case 1: return pieces.row<T>(0)[i];
    case 2: return tree_of<T, 2>(pieces, i);
    case 4: return tree_of<T, 4>(pieces, i);
    case 8: return tree_of<T, 8>(pieces, i);
    default: break;
  }
  const bool tree = (pieces.rows & (pieces.rows - 1)) == 0;
  T waiting[40];
  int depth = 0;
  for (std::int64_t r = 0; r < pieces.rows; ++r) {
    T sum = pieces.row<T>(r)[i];
    if (tree)
      for (std::int64_t bits = r; (bits & 1) != 0; bits /= 2) sum = waiting[--depth] + sum;
    else if (r > 0) sum = waiting[--depth] + sum;
    waiting[depth++] = sum;
  }
  return waiting[0];
}

template <class T, class Out, class Bias> __global__ void lane_sum_kernel(LaneSumArgs a) {
  const Bias* bias = static_cast<const Bias*>(a.bias.data);
  TRAINYARD_EACH(i, a.pieces.cols) {
    T sum = sum_of<T>(a.pieces, i);
    if (bias != nullptr) sum += widen(bias[place_of(a.first + i, a.bias.cols).group]);
    const auto [r, c] = place_of(i, a.out.cols);
    store(a.out.row<Out>(r) + c, sum);
  }
}

template <class T, class Out, class Bias> void launch(const LaneSumArgs& a, void* stream) {
  TRAINYARD_LAUNCH((lane_sum_kernel<T, Out, Bias>), false, blocks_for(a.pieces.cols), 256, stream, a);
}

}  // namespace

const char* gpu::lane_sum(const LaneSumArgs& a, void* stream) {
  if (a.pieces.type == Type::f64) launch<double, double, double>(a, stream);
  else
    with_type_of_f32_sums(a.out.type, [&]<class Out>(Out*) {
      with_type_of_f32_sums(a.bias.type, [&]<class Bias>(Bias*) { launch<float, Out, Bias>(a, stream); });
    });
  return launch_failure();
}

}  // namespace trainyard::kernels
