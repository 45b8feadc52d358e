// The rotation of all heads, row by row.
#include "kernels/rotary/rotary_args.h"

#include "kernels/cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {

void rotary_cpu(const RotaryArgs& a) {
  with_type(a.x.type, [&]<class T>(T*) {
    using F = compute_t<T>;
    const std::int64_t half = a.head_dim / 2;
#pragma omp parallel for num_threads(a.threads) schedule(static)
    for (std::int64_t r = 0; r < a.x.rows; ++r) {
      const double* cosine = a.table + r * a.head_dim;
      const double* sine = cosine + half;
      for (std::int64_t h = 0; h < a.heads; ++h) {
        T* low = a.x.row<T>(r) + h * a.head_dim;
        T* high = low + half;
        for (std::int64_t i = 0; i < half; ++i) {
          const F c = static_cast<F>(cosine[i]), s = static_cast<F>(a.direction * sine[i]);
          const F u = widen(low[i]), v = widen(high[i]);
          store(&low[i], u * c - v * s);
          store(&high[i], v * c + u * s);
        }
      }
    }
  });
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
