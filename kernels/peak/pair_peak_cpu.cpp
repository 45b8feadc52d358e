// Multiply-adds of bf16 in the form that products use: by tiles, by pairs, or step by step in f32.
#include "kernels/peak/chains_cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {

int64_t bf16_multiply_adds_cpu(const PeakArgs& a) {
#if defined(TRAINYARD_BF16_TILES)
  constexpr int64_t steps = 2 * tile_side;
  alignas(64) float operand[tile_side * tile_side];
  for (auto& word : operand) word = pair_of({0x3c00}, {0x3c00});
#pragma omp parallel for num_threads(a.threads) schedule(static)
  for (int t = 0; t < a.threads; ++t) {
    const TilesOfThread set_up;
    Tiles tiles;
    tiles.clear<0>(), tiles.clear<1>(), tiles.clear<2>(), tiles.clear<3>();
    tiles.load<4>(operand, tile_side), tiles.load<5>(operand, tile_side);
    for (int64_t r = 0; r < a.rounds; ++r)
      tiles.multiply<0, 4, 5>(), tiles.multiply<1, 4, 5>(), tiles.multiply<2, 4, 5>(), tiles.multiply<3, 4, 5>();
  }
  return 2 * 4 * tile_side * tile_side * steps * a.rounds * a.threads;
#else
  // 2^-7 times 2^-7. By pairs, each lane has two such operands.
  const Vec factor = paired<b16> ? broadcast(pair_of({0x3c00}, {0x3c00})) : broadcast(0x1p-7f);
  return 2 * (paired<b16> ? 2 : 1) *
         run_chains(
             a, [=](Vec sum) __attribute__((always_inline)) {
               return paired<b16> ? multiply_pairs(factor, factor, sum) : fma(factor, factor, sum);
             });
#endif
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
