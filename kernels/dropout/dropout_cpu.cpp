// Dropout row by row; four neighbouring channels share one Philox block.
#include "kernels/dropout/dropout_args.h"

#include "kernels/cpu.h"
#include "kernels/philox_words.h"
#include "libtrain/base/dropout_counter.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int64_t;

template <class T> void drop_row(const DropoutArgs& a, int64_t r) {
  using F = compute_t<T>;
  const F scale = sizeof(F) == 8 ? static_cast<F>(a.scale64) : static_cast<F>(a.scale);
  const T* x = a.x.row<T>(r);
  const T* residual = a.residual.empty() ? nullptr : a.residual.row<T>(r);
  T* y = a.y.row<T>(r);
  const int64_t n = a.x.cols;
  if (!a.active) {
    if (residual) {
#pragma omp simd
      for (int64_t c = 0; c < n; ++c) store(&y[c], widen(residual[c]) + widen(x[c]));
    } else if (x != y) {
      for (int64_t c = 0; c < n; ++c) y[c] = x[c];
    }
    return;
  }
  const int64_t row = a.first_row + r;
  const std::uint64_t base = (a.samples[row / a.sequence] << base::dropout_sample_shift) +
                             (static_cast<std::uint64_t>(row % a.sequence) << base::dropout_position_shift);
  for (int64_t c = 0; c < n; c += 4) {
    const auto words = philox_words(a.seed, a.site, base + static_cast<std::uint64_t>(c / 4));
    for (int64_t i = c; i < n && i < c + 4; ++i) {
      const F kept = words.w[i - c] >= a.threshold ? widen(x[i]) * scale : F(0);
      store(&y[i], residual ? widen(residual[i]) + kept : kept);
    }
  }
}

}  // namespace

void dropout_cpu(const DropoutArgs& a) {
  with_type(a.x.type, [&]<class T>(T*) {
#pragma omp parallel for num_threads(a.threads) schedule(static)
    for (int64_t r = 0; r < a.x.rows; ++r) drop_row<T>(a, r);
  });
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
