// Dropout row by row; four neighbouring channels share one Philox block.
#include "kernels/dropout/dropout_args.h"

#include "kernels/philox_words.h"
#include "kernels/strips_cpu.h"
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
      map_row(
          n, y, [](F u, F v) { return u + v; }, residual, x);
    } else if (x != y) {
      for (int64_t c = 0; c < n; ++c) y[c] = x[c];
    }
    return;
  }
  const int64_t row = a.first_row + r;
  const std::uint64_t base = (a.samples[row / a.sequence] << base::dropout_sample_shift) +
                             (static_cast<std::uint64_t>(row % a.sequence) << base::dropout_position_shift) +
                             a.first_quad;
  const auto drop = [&](int64_t c0, int64_t m, const auto& dropped) {
    StripOut<T> to(y + c0, m);
    for (int64_t c = 0; c < m; c += 4) {
      const auto words = philox_words(a.seed, a.site, base + static_cast<std::uint64_t>((c0 + c) / 4));
      for (int64_t i = c; i < m && i < c + 4; ++i) to.put(i, dropped(i, words.w[i - c] >= a.threshold));
    }
    to.finish();
  };
  over_strips<T>(n, [&](int64_t c0, int64_t m) {
    const StripIn<T> in(x + c0, m);
    const auto kept = [&](int64_t i, bool keep) { return keep ? in[i] * scale : F(0); };
    if (residual == nullptr) return drop(c0, m, kept);
    const StripIn<T> beside(residual + c0, m);
    drop(c0, m, [&](int64_t i, bool keep) { return beside[i] + kept(i, keep); });
  });
}

}  // namespace

void dropout_cpu(const DropoutArgs& a) {
  with_type(a.x.type, [&]<class T>(T*) {
#pragma omp parallel for num_threads(a.threads) schedule(static)
    for (int64_t r = 0; r < a.x.rows; ++r) drop_row<T>(a, r);
  });
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
