// What a call of a kernel does, as far as its arguments say, and what the threads of its team spend on it.
#pragma once

#include <cstdint>

namespace trainyard::kernels {

// Seconds of one thread in one call: packing operands, and computing. The rest of the call it waited for the others.
struct alignas(64) TeamSeconds {
  double packing = 0, computing = 0;
};

// m = 0: no product.
struct KernelWork {
  double operations = 0;             // floating point, two for a multiply-add
  std::int64_t m = 0, n = 0, k = 0;  // of a product: rows and columns of the result, steps of the sum
  bool of_bf16 = false;              // products of bf16
};

// Of the arguments of a call. A kernel that counts its work has an overload beside its arguments.
template <class... Arguments> KernelWork work_of(const Arguments&...) { return {}; }

}  // namespace trainyard::kernels
