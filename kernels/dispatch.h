// The three instruction-set paths of a CPU kernel. A kernel's x_cpu.cpp is compiled three times, in namespaces
// baseline, avx2, avx512.
#pragma once

namespace trainyard::kernels {

enum class Isa { baseline, avx2, avx512 };

// The path in use: the best this machine has, or what TRAINYARD_ISA=baseline|avx2|avx512 forces (an Unsupported error
// where the machine lacks it). Fixed at first use. set_isa is for tests.
Isa active_isa();
Isa best_isa();
void set_isa(Isa isa);
const char* name_of(Isa isa);

}  // namespace trainyard::kernels

// In x.cpp: TRAINYARD_CPU_KERNEL(void, gelu_forward_cpu, (const Args& a)) declares the three variants.
#define TRAINYARD_CPU_KERNEL(result, name, parameters) \
  namespace baseline {                                 \
  result name parameters;                              \
  }                                                    \
  namespace avx2 {                                     \
  result name parameters;                              \
  }                                                    \
  namespace avx512 {                                   \
  result name parameters;                              \
  }
