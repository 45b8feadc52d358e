// Multiply-adds of bf16 as products have them (kernels/bf16_pairs_cpu.h).
#include "kernels/peak/chains_cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {

int64_t bf16_multiply_adds_cpu(const PeakArgs& a) {
  // 2^-7 times 2^-7. By pairs each lane has two such operands.
  const Vec factor = paired<b16> ? broadcast(pair_of({0x3c00}, {0x3c00})) : broadcast(0x1p-7f);
  return 2 * (paired<b16> ? 2 : 1) *
         run_chains(
             a, [=](Vec sum) __attribute__((always_inline)) {
               return paired<b16> ? multiply_pairs(factor, factor, sum) : fma(factor, factor, sum);
             });
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
