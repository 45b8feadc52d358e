// Adds the squares of parameters and of their updates, block by block.
#include "kernels/update/trust_ratio_args.h"

#include "kernels/square_sum/square_digits_cpu.h"
#include "kernels/update/rounded_cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

constexpr int64_t squared_block = 4096;

// A function of its own, so that the element of each lane stays in registers.
[[gnu::always_inline]] inline float update_of_element(const UpdateSquaresArgs& a, float p, float m, float v) {
  using F = RoundedFloat;
  UpdatedElement<F, 2> e;
  e.parameter = F(p);
  e.states[0] = F(m), e.states[1] = F(v);
  e.decay = F(a.weight_decay);
  return a.sequence.update_of(e).v;
}

// A block of a state in f32: in place, or widened into `wide`.
const float* block_of_state(const ConstMat& state, int64_t from, int64_t n, float* wide) {
  if (state.type != Type::bf16) return state.ptr<float>() + from;
  widen_row(wide, state.ptr<b16>() + from, n);
  return wide;
}

void add_block_of_updates(const UpdateSquaresArgs& all, int64_t from, int64_t n, int64_t* sums) {
  const auto a = all;
  float updates[squared_block], wide_m[squared_block], wide_v[squared_block];
  const float *p = a.parameter.ptr<float>() + from, *m = block_of_state(a.m, from, n, wide_m),
              *v = block_of_state(a.v, from, n, wide_v);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) updates[i] = update_of_element(a, p[i], m[i], v[i]);
  add_square_block(p, n, sums);
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
