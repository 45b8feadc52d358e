// Norms of queries and keys: a row is one task; weight gradients are summed by fixed blocks of rows.
#include "kernels/head_norm/head_norm_args.h"
#include "kernels/strips_cpu.h"
#include "libtrain/plan/blocks/scratch.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int64_t;

// Column `first` of a row and its successors have the weights from here on.
template <class T> const T* weights_from(const ConstMat& weight, int64_t first) {
  return weight.ptr<T>() + first % weight.cols;
}

template <class T, class G> G squares_of(const T* x, int64_t n) {
  LaneSum<G> sum;
  over_strips<T>(n, [&](int64_t c0, int64_t m) {
    const StripIn<T> v(x + c0, m);
    sum.add(m, [&](int64_t i) { return v[i] * v[i]; });
  });
  return sum.total();
}

// The columns [first, first + n) of a row. Runs that use all weights are added one after the other.
template <class T, class G> G dots_of(const HeadNormSumsArgs& a, int64_t r, int64_t first, int64_t n) {
  G all = 0;
  const auto run = n < a.weight.cols ? n : a.weight.cols;
  for (int64_t at = first; at < first + n; at += run) {
    LaneSum<G> sum;
    const T *x = a.x.row<T>(r) + at, *dy = a.dy.row<T>(r) + at, *weight = weights_from<T>(a.weight, at);
    over_strips<T>(run, [&](int64_t c0, int64_t m) {
      const StripIn<T> v(x + c0, m), d(dy + c0, m), w(weight + c0, m);
      sum.add(m, [&](int64_t i) { return d[i] * (w[i] + static_cast<G>(a.offset)) * v[i]; });
    });
    all += sum.total();
  }
  return all;
}

template <class G, class Args> G rstd_of(const Args& a, int64_t group, int64_t r) {
  const G mean = a.squares.template row<G>(group)[r] / static_cast<G>(a.width);
  return G(1) / sqrt_of(mean + static_cast<G>(a.epsilon));
}

// One row: dx, and its part of the sums of the weights' gradients, which begin at `partials` for each slice.
template <class T, class G> void head_backward_row(const HeadNormBackwardArgs& a, int64_t r, int64_t block) {
  const int64_t w = a.weight.cols, runs = a.x.cols / w, groups = a.squares.rows, slices = a.dweight.rows,
                blocks = a.partials.rows / slices;
  const T* weight = a.weight.ptr<T>();
  for (int64_t run = 0; run < runs; ++run) {
    const auto group = groups == 1 ? 0 : run, slice = run / (runs / slices);
    const T *x = a.x.row<T>(r) + run * w, *dy = a.dy.row<T>(r) + run * w;
    G* sums = a.partials.row<G>(slice * blocks + block);
    const G rstd = rstd_of<G>(a, group, r), offset = static_cast<G>(a.offset);
    over_strips<T>(w, [&](int64_t c0, int64_t m) {
      const StripIn<T> v(x + c0, m), d(dy + c0, m);
      G* const to = sums + c0;
      for (int64_t i = 0; i < m; ++i) to[i] += d[i] * (v[i] * rstd);
    });
    const G along = a.dots.row<G>(group)[r] * rstd / static_cast<G>(a.width);
    map_row(
        w, a.dx.row<T>(r) + run * w, [&](G d, G v, G g) { return rstd * (d * (g + offset) - v * rstd * along); }, dy, x,
        weight);
  }
}

}  // namespace

void head_norm_sums_cpu(const HeadNormSumsArgs& a) {
  with_type(a.x.type, [&]<class T>(T*) {
    using G = compute_t<T>;
    const int64_t slices = a.out.rows, n = a.x.cols / slices;
#pragma omp parallel for num_threads(a.threads) schedule(static)
    for (int64_t r = 0; r < a.x.rows; ++r)
      for (int64_t s = 0; s < slices; ++s)
        a.out.row<G>(s)[r] = a.dy.empty() ? squares_of<T, G>(a.x.row<T>(r) + s * n, n) : dots_of<T, G>(a, r, s * n, n);
  });
}

void head_norm_forward_cpu(const HeadNormForwardArgs& a) {
  with_type(a.x.type, [&]<class T>(T*) {
    using G = compute_t<T>;
    const int64_t w = a.weight.cols, runs = a.x.cols / w;
#pragma omp parallel for num_threads(a.threads) schedule(static)
    for (int64_t r = 0; r < a.x.rows; ++r)
      for (int64_t run = 0; run < runs; ++run) {
        const G rstd = rstd_of<G>(a, a.squares.rows == 1 ? 0 : run, r), offset = static_cast<G>(a.offset);
        map_row(
            w, a.y.row<T>(r) + run * w, [&](G v, G g) { return v * rstd * (g + offset); }, a.x.row<T>(r) + run * w,
            a.weight.ptr<T>());
      }
  });
}

void head_norm_backward_cpu(const HeadNormBackwardArgs& a) {
  with_type(a.x.type, [&]<class T>(T*) {
    using G = compute_t<T>;
    constexpr auto rows = plan::column_sum_rows;
    const int64_t slices = a.dweight.rows, blocks = a.partials.rows / slices, w = a.weight.cols;
#pragma omp parallel for num_threads(a.threads) schedule(static)
    for (int64_t b = 0; b < blocks; ++b) {
      for (int64_t s = 0; s < slices; ++s) set_zero(a.partials.row<G>(s * blocks + b), w);
      const int64_t end = (b + 1) * rows < a.x.rows ? (b + 1) * rows : a.x.rows;
      for (int64_t r = b * rows; r < end; ++r) head_backward_row<T, G>(a, r, b);
    }
    for (int64_t s = 0; s < slices; ++s) {
      G* out = a.dweight.row<G>(s);
      set_zero(out, w);
      for (int64_t b = 0; b < blocks; ++b) {
        const G* in = a.partials.row<G>(s * blocks + b);
        for (int64_t i = 0; i < w; ++i) out[i] += in[i];
      }
    }
  });
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
