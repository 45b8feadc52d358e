// The sum of lanes in blocks that stay in the first-level cache.
#include "kernels/lane_sum/lane_sum_args.h"

#include "kernels/strips_cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int64_t;

constexpr int64_t width = 256;  // elements of a block
static_assert(width <= f16_strip);

// to = from + to, or to = from
template <class T> void add_row(const T* __restrict from, int64_t n, bool add, T* __restrict to) {
  if (!add) {
    copy_elements(to, from, n);
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) to[i] = from[i] + to[i];
}

// The sum of rows [first, first + rows) of a block, where `rows` is a power of two. Recursion adds two subtrees, so the
// stack is as deep as the tree.
template <class T> void tree(const ConstMat& pieces, int64_t first, int64_t rows, int64_t at, int64_t n, T* to) {
  if (rows == 1) return add_row(pieces.row<T>(first) + at, n, false, to);
  alignas(64) T left[width];
  tree(pieces, first, rows / 2, at, n, left);
  tree(pieces, first + rows / 2, rows / 2, at, n, to);
  add_row(left, n, true, to);
}

template <class T> void add_up(const ConstMat& pieces, int64_t at, int64_t n, T* to) {
  if ((pieces.rows & (pieces.rows - 1)) == 0) return tree(pieces, 0, pieces.rows, at, n, to);
  add_row(pieces.row<T>(0) + at, n, false, to);
  for (int64_t r = 1; r < pieces.rows; ++r) {
    const T* in = pieces.row<T>(r) + at;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) to[i] += in[i];
  }
}

// Elements [at, at + n) of one row of `out`.
template <class T, class Out, class Bias> void block(const LaneSumArgs& a, int64_t at, int64_t n, Out* out) {
  alignas(64) T sum[width];
  add_up(a.pieces, at, n, sum);
  if (!a.bias.empty()) {
    const Bias* bias = static_cast<const Bias*>(a.bias.data);
    int64_t b = (a.first + at) % a.bias.cols;
    for (int64_t i = 0; i < n;) {
      const int64_t run = n - i < a.bias.cols - b ? n - i : a.bias.cols - b;
      const StripIn<Bias> added(bias + b, run);
#pragma omp simd
      for (int64_t q = 0; q < run; ++q) sum[i + q] += added[q];
      i += run, b = 0;
    }
  }
  StripOut<Out> to(out, n);
  for (int64_t i = 0; i < n; ++i) to.put(i, sum[i]);
  to.finish();
}

template <class T, class Out, class Bias> void all(const LaneSumArgs& a) {
  // Tasks of several blocks, from a row of `out`, or from the whole of it if it is dense.
  const bool dense = a.out.pitch == a.out.cols;
  const int64_t rows = dense ? 1 : a.out.rows, cols = dense ? a.out.rows * a.out.cols : a.out.cols;
  constexpr int64_t task = 32 * width;
  const int64_t per_row = (cols + task - 1) / task, tasks = rows * per_row;
#pragma omp parallel for num_threads(a.threads) schedule(static) if (rows * cols > task)
  for (int64_t t = 0; t < tasks; ++t) {
    const int64_t r = t / per_row, from = t % per_row * task, to = from + task < cols ? from + task : cols;
    for (int64_t at = from; at < to; at += width)
      block<T, Out, Bias>(a, r * cols + at, to - at < width ? to - at : width, a.out.row<Out>(r) + at);
  }
}

}  // namespace

void lane_sum_cpu(const LaneSumArgs& a) {
  if (a.pieces.type == Type::f64) return all<double, double, double>(a);
  with_type_of_f32_sums(a.out.type, [&]<class Out>(Out*) {
    with_type_of_f32_sums(a.bias.type, [&]<class Bias>(Bias*) { all<float, Out, Bias>(a); });
  });
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
