// Rounding to bf16 by registers, compiled for each path with the flags of its kernels.
#include "kernels/bf16_pairs_cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {

// n: a multiple of 32. Each word has x[i] and x[i + 1], lane by lane of two registers.
void roundings(int n, const float* x, std::uint16_t* halves, std::uint32_t* words) {
  for (int i = 0; i < n; i += lanes) {
    const Halves some = rounded(load(x + i));
    __builtin_memcpy(halves + i, &some, sizeof some);
  }
  for (int i = 0; i < n; i += 2 * lanes) {
    const Vec some = rounded_word(load(x + i), load(x + i + lanes));
    __builtin_memcpy(words + i / 2, &some, sizeof some);
  }
}
int lanes_of_rounding() { return lanes; }

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
