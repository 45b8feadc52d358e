// Multiply-adds of bf16 as products have them (kernels/bf16_pairs_cpu.h), in as many chains as those of f32.
#include "kernels/micro_tile_cpu.h"
#include "kernels/peak/peak_args.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

constexpr int bf16_chains = 12;

float bf16_chain(int64_t rounds, float seed) {
  Vec sums[bf16_chains];
  // 2^-7 times 2^-7, added to something near 1. By pairs each lane has two such operands.
  const Vec factor = paired<b16> ? broadcast(pair_of({0x3c00}, {0x3c00})) : broadcast(0x1p-7f);
#pragma GCC unroll 16
  for (int i = 0; i < bf16_chains; ++i) sums[i] = broadcast(seed + static_cast<float>(i));
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 16
    for (int i = 0; i < bf16_chains; ++i)
      sums[i] = paired<b16> ? multiply_pairs(factor, factor, sums[i]) : fma(factor, factor, sums[i]);
  }
  Vec all = sums[0];
#pragma GCC unroll 16
  for (int i = 1; i < bf16_chains; ++i) all = plus(all, sums[i]);
  float out[lanes];
  put(out, all);
  return out[0];
}

}  // namespace

int64_t bf16_multiply_adds_cpu(const PeakArgs& a) {
  float total = 0;
#pragma omp parallel for num_threads(a.threads) schedule(static) reduction(+ : total)
  for (int t = 0; t < a.threads; ++t) total += bf16_chain(a.rounds, static_cast<float>(t));
  volatile float seen = total;  // so that nothing is left out
  static_cast<void>(seen);
  return 2 * int64_t{bf16_chains} * lanes * (paired<b16> ? 2 : 1) * a.rounds * a.threads;
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
