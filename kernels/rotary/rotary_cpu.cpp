// The rotation of all heads, row by row.
#include "kernels/rotary/rotary_args.h"

#include "kernels/strips_cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {

void rotary_cpu(const RotaryArgs& a) {
  with_type(a.x.type, [&]<class T>(T*) {
    using F = compute_t<T>;
    const std::int64_t half = a.width / 2;
#pragma omp parallel for num_threads(a.threads) schedule(static)
    for (std::int64_t r = 0; r < a.x.rows; ++r) {
      const double* cosine = a.table + r * a.width;
      const double* sine = cosine + half;
      for (std::int64_t h = 0; h < a.heads; ++h) {
        T* low = a.x.row<T>(r) + h * a.head_dim;
        T* high = low + half;
        over_strips<T>(half, [&](std::int64_t c0, std::int64_t m) {
          const StripIn<T> u(low + c0, m), v(high + c0, m);
          StripOut<T> to_low(low + c0, m), to_high(high + c0, m);
          for (std::int64_t i = 0; i < m; ++i) {
            const F c = static_cast<F>(cosine[c0 + i]), s = static_cast<F>(a.direction * sine[c0 + i]);
            const F x = u[i], y = v[i];
            to_low.put(i, x * c - y * s);
            to_high.put(i, y * c + x * s);
          }
          to_low.finish(), to_high.finish();
        });
      }
    }
  });
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
