// Arguments of dropout as plain data, for the compiled variants.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

struct DropoutArgs {
  ConstMat x, residual;  // y = [residual +] dropout(x)
  Mat y;
  std::uint32_t threshold = 0;  // an element is kept if its word is at least this
  float scale = 1;
  double scale64 = 1;
  std::uint64_t seed = 0, site = 0;
  const std::uint64_t* samples = nullptr;
  std::int64_t sequence = 1, first_row = 0;
  std::uint64_t first_quad = 0;  // a quad is four channels
  int active = 0;
  int threads = 1;
};
TRAINYARD_CPU_KERNEL(void, dropout_cpu, (const DropoutArgs& args))

}  // namespace trainyard::kernels
