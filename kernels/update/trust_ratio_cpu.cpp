// Adds the squares of parameters and of their updates, block by block.
#include "kernels/update/trust_ratio_args.h"

#include "kernels/square_sum/square_digits_cpu.h"
#include "kernels/update/rounded_cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

constexpr int64_t squared_block = 4096;

// A function of its own, so that the element of each lane stays in registers.
[[gnu::always_inline]] inline float update_of_element(const UpdateSquaresArgs& a, int64_t i) {
  using F = RoundedFloat;
  UpdatedElement<F, 2> e;
  e.parameter = F(a.parameter[i]);
  e.states[0] = F(a.m[i]), e.states[1] = F(a.v[i]);
  e.decay = F(a.weight_decay);
  return a.sequence.update_of(e).v;
}

void add_block_of_updates(const UpdateSquaresArgs& all, int64_t from, int64_t n, int64_t* sums) {
  const auto a = all;
  float updates[squared_block];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) updates[i] = update_of_element(a, from + i);
  add_square_block(a.parameter + from, n, sums);
  add_square_block(updates, n, sums + square_sum_limbs);
}

}  // namespace

void update_squares_cpu(const UpdateSquaresArgs& a) {
  const int64_t blocks = (a.n + squared_block - 1) / squared_block;
#pragma omp parallel num_threads(a.threads) if (blocks > 4)
  {
    int64_t own[2 * square_sum_limbs] = {};
#pragma omp for schedule(static) nowait
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t from = b * squared_block;
      add_block_of_updates(a, from, from + squared_block < a.n ? squared_block : a.n - from, own);
    }
    for (int k = 0; k < 2 * square_sum_limbs; ++k) {
#pragma omp atomic  // integers: any order gives the same sum
      a.squares[k] += own[k];
    }
  }
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
