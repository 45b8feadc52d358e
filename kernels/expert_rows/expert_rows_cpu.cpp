// Copies go by rows, sums by tokens in strips of channels.
#include "kernels/expert_rows/expert_rows_args.h"

#include "kernels/strips_cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int32_t;
using std::int64_t;

constexpr int64_t expert_strip = 256;
static_assert(expert_strip <= f16_strip);

// The sum for one strip of a token: n channels from c0 on.
template <class T, class G> void sum_strip(const ExpertSumArgs& a, int64_t s, int64_t c0, int64_t n) {
  G sum[expert_strip];
  if (a.add.empty()) memset(sum, 0, sizeof sum);
  else copy_elements(sum, a.add.row<G>(s) + c0, n);
  const int32_t* rows = a.rows.row<int32_t>(s);
  for (int64_t j = 0; j < a.rows.cols; ++j) {
    if (rows[j] < 0) continue;
    const StripIn<T> y(a.y.row<T>(rows[j]) + c0, n);
    if (a.weights.empty()) {
#pragma omp simd
      for (int64_t c = 0; c < n; ++c) sum[c] += y[c];
    } else {
      const G weight = a.weights.row<G>(s)[j];
#pragma omp simd
      for (int64_t c = 0; c < n; ++c) sum[c] += weight * y[c];
    }
  }
  StripOut<T> out(a.out.row<T>(s) + c0, n);
#pragma omp simd
  for (int64_t c = 0; c < n; ++c) out.put(c, sum[c]);
  out.finish();
}

// Computes the gradient of the weight first, because dy may overlap y.
template <class T, class G> void combine_backward_row(const ExpertCombineBackwardArgs& a, int64_t r) {
  const int32_t source = a.sources[r];
  if (source < 0) return;
  const int64_t s = source / a.rows.cols, j = source % a.rows.cols, n = a.y.cols;
  const T *dout = a.dout.row<T>(s), *y = a.y.row<T>(r);
  LaneSum<G> slope;
  over_strips<T>(n, [&](int64_t c0, int64_t m) {
    const StripIn<T> d(dout + c0, m), x(y + c0, m);
    slope.add(m, [&](int64_t c) { return d[c] * x[c]; });
  });
  a.d_weights.row<G>(s)[j] = slope.total();
  const G weight = a.weights.row<G>(s)[j];
  map_row(
      n, a.dy.row<T>(r), [&](G d) { return weight * d; }, dout);
}

}  // namespace

void expert_dispatch_cpu(const ExpertDispatchArgs& a) {
  with_type(a.x.type, [&]<class T>(T*) {
#pragma omp parallel for num_threads(a.threads) schedule(static)
    for (int64_t r = 0; r < a.y.rows; ++r)
      if (a.sources[r] >= 0) copy_elements(a.y.row<T>(r), a.x.row<T>(a.sources[r] / a.top_k), a.x.cols);
  });
}
void expert_sum_cpu(const ExpertSumArgs& a) {
  with_type(a.out.type, [&]<class T>(T*) {
#pragma omp parallel for num_threads(a.threads) schedule(static)
    for (int64_t s = 0; s < a.out.rows; ++s)
      for (int64_t c = 0; c < a.out.cols; c += expert_strip)
        sum_strip<T, compute_t<T>>(a, s, c, a.out.cols - c < expert_strip ? a.out.cols - c : expert_strip);
  });
}
void expert_combine_backward_cpu(const ExpertCombineBackwardArgs& a) {
  with_type(a.y.type, [&]<class T>(T*) {
    using G = compute_t<T>;
#pragma omp parallel num_threads(a.threads)
    {
#pragma omp for schedule(static) nowait
      for (int64_t s = 0; s < a.rows.rows; ++s)
        for (int64_t j = 0; j < a.rows.cols; ++j)
          if (a.rows.row<int32_t>(s)[j] < 0) a.d_weights.row<G>(s)[j] = 0;
#pragma omp for schedule(static)
      for (int64_t r = 0; r < a.y.rows; ++r) combine_backward_row<T, G>(a, r);
    }
  });
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
