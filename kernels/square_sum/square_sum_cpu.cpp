// Adds up blocks of squares by a team of threads.
#include "kernels/square_sum/square_sum_args.h"

#include "kernels/square_sum/square_digits_cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {

void square_sum_cpu(const float* x, int64_t n, int64_t* limbs, int threads) {
  constexpr int64_t block = 4096;
  const int64_t blocks = (n + block - 1) / block;
#pragma omp parallel num_threads(threads) if (blocks > 4)
  {
    int64_t own[square_sum_limbs] = {};
#pragma omp for schedule(static) nowait
    for (int64_t b = 0; b < blocks; ++b)
      add_square_block(x + b * block, (b + 1) * block < n ? block : n - b * block, own);
    for (int k = 0; k < square_sum_limbs; ++k) {
#pragma omp atomic  // integers: any order gives the same sum
      limbs[k] += own[k];
    }
  }
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
