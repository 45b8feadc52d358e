// Conversions of f16 by rows, by registers and one by one, compiled for each base path with the flags of its kernels.
#include "kernels/pack_cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {

// n: a multiple of 16. Rows have `row` elements, and the last one has what is left.
void widened_f16(int n, int row, const std::uint16_t* halves, float* rows, float* registers, float* one_by_one) {
  const auto* from = reinterpret_cast<const h16*>(halves);
  for (int i = 0; i < n; i += row) widen_row(rows + i, from + i, n - i < row ? n - i : row);
  for (int i = 0; i < n; i += lanes) put(registers + i, words_at(from + i));
  for (int i = 0; i < n; ++i) one_by_one[i] = widen(from[i]);
}
void narrowed_f16(int n, int row, const float* x, std::uint16_t* rows, std::uint16_t* one_by_one) {
  auto *to_rows = reinterpret_cast<h16*>(rows), *to = reinterpret_cast<h16*>(one_by_one);
  for (int i = 0; i < n; i += row) narrow_row(to_rows + i, x + i, n - i < row ? n - i : row);
  for (int i = 0; i < n; ++i) store(to + i, x[i]);
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
