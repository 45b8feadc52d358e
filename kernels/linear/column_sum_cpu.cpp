// Column sums in a fixed order: blocks of rows first, then the blocks in ascending order.
#include "kernels/linear/column_sum.h"

#include "kernels/strips_cpu.h"
#include "libtrain/plan/blocks/scratch.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

template <class T, class G> void sum(const ColumnSumArgs& a) {
  constexpr auto rows = plan::column_sum_rows;
  const auto blocks = a.partials.rows, n = a.x.cols;
#pragma omp parallel for num_threads(a.threads) schedule(static)
  for (std::int64_t b = 0; b < blocks; ++b) {
    G* out = a.partials.row<G>(b);
    for (std::int64_t j = 0; j < n; ++j) out[j] = 0;
    const auto end = (b + 1) * rows < a.x.rows ? (b + 1) * rows : a.x.rows;
    for (std::int64_t i = b * rows; i < end; ++i) {
      over_strips<T>(n, [&](std::int64_t j0, std::int64_t m) {
        const StripIn<T> in(a.x.row<T>(i) + j0, m);
        G* to = out + j0;
#pragma omp simd
        for (std::int64_t j = 0; j < m; ++j) to[j] += in[j];
      });
    }
  }
  G* sums = a.sums.ptr<G>();
  for (std::int64_t j = 0; j < n; ++j) sums[j] = a.partials.row<G>(0)[j];
  for (std::int64_t b = 1; b < blocks; ++b)
    for (std::int64_t j = 0; j < n; ++j) sums[j] += a.partials.row<G>(b)[j];
}

}  // namespace

void column_sum_cpu(const ColumnSumArgs& a) {
  with_type(a.x.type, [&]<class T>(T*) { sum<T, compute_t<T>>(a); });
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
