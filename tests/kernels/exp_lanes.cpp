// The exponential of a register and of one number, and tanh of a register, compiled for each base path with the flags
// of its kernels.
#include "kernels/vec_cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {

// n: a multiple of 16. least: the form for arguments that are never above 88.
void exponentials(int n, const float* x, float* of_registers, float* least, float* one_by_one) {
  for (int i = 0; i < n; i += lanes) put(of_registers + i, exp_of(load(x + i)));
  for (int i = 0; i < n; i += lanes) put(least + i, exp_of<Range::least>(load(x + i)));
  for (int i = 0; i < n; ++i) one_by_one[i] = exp_of(x[i]);
}

void tangents(int n, const float* x, float* of_registers) {
  for (int i = 0; i < n; i += lanes) put(of_registers + i, tanh_of(load(x + i)));
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
