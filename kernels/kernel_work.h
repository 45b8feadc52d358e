// The work of a kernel call, as far as its arguments show it, and the time that each thread of its team spends on it.
#pragma once

#include <cstdint>

namespace trainyard::kernels {

// Seconds that one thread spent in one call on packing operands and on computing. For the rest of the call it waited.
struct alignas(64) TeamSeconds {
  double packing = 0, computing = 0;
};

// m = 0 means that the kernel is no product.
struct KernelWork {
  double operations = 0;             // floating-point operations, two for a multiply-add
  std::int64_t m = 0, n = 0, k = 0;  // of a product: rows and columns of the result, steps of the sum
  bool of_bf16 = false;              // whether a product multiplies bf16
};

// The work of a call with these arguments. A kernel that counts its work declares an overload next to its arguments.
template <class... Arguments> KernelWork work_of(const Arguments&...) { return {}; }

}  // namespace trainyard::kernels
