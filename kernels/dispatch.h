// The instruction-set paths of a CPU kernel. A kernel's x_cpu.cpp is compiled for baseline, avx2 and avx512, each in a
// namespace of its own; those of products and attention for avx512bf16, amx and their emulations, too.
#pragma once

namespace trainyard::kernels {

// avx512bf16, amx: as avx512, but products of bf16, those of attention too, go by pairs (kernels/bf16_pairs_cpu.h) or
// by tiles (kernels/bf16_tiles_cpu.h). emulated_bf16, emulated_amx: as baseline, but products of bf16 have the bits
// that they have there, without the instructions and slowly: for tests and questions.
enum class Isa { baseline, avx2, avx512, avx512bf16, amx, emulated_bf16, emulated_amx };

// The path in use: the best this machine has, or what TRAINYARD_ISA=baseline|avx2|avx512|avx512bf16|amx|emulated-bf16|
// emulated-amx forces (an Unsupported error where the machine lacks it). Fixed at first use. set_isa is for tests.
Isa active_isa();
Isa best_isa();             // never emulated
bool machine_has(Isa isa);  // of amx, also: the system lets this process use it
// The path that has the same bits but for products of bf16, which it does step by step; itself where it does that.
Isa base_of(Isa isa);
void set_isa(Isa isa);
const char* name_of(Isa isa);

}  // namespace trainyard::kernels

#define TRAINYARD_CPU_VARIANT(isa, result, name, parameters) \
  namespace isa {                                            \
  result name parameters;                                    \
  }
#define TRAINYARD_CPU_VARIANTS(result, name, parameters)    \
  TRAINYARD_CPU_VARIANT(baseline, result, name, parameters) \
  TRAINYARD_CPU_VARIANT(avx2, result, name, parameters)     \
  TRAINYARD_CPU_VARIANT(avx512, result, name, parameters)

// In x_args.h: TRAINYARD_CPU_KERNEL(void, gelu_forward_cpu, (const Args& a)) declares the variants: three of its own,
// and those whose products alone are others.
#define TRAINYARD_CPU_KERNEL(result, name, parameters) \
  TRAINYARD_CPU_VARIANTS(result, name, parameters)     \
  namespace avx512bf16 {                               \
  using avx512::name;                                  \
  }                                                    \
  namespace amx {                                      \
  using avx512::name;                                  \
  }                                                    \
  namespace emulated_bf16 {                            \
  using baseline::name;                                \
  }                                                    \
  namespace emulated_amx {                             \
  using baseline::name;                                \
  }

// A kernel of products or attention, of which all are its own.
#define TRAINYARD_PRODUCT_KERNEL(result, name, parameters)       \
  TRAINYARD_CPU_VARIANTS(result, name, parameters)               \
  TRAINYARD_CPU_VARIANT(avx512bf16, result, name, parameters)    \
  TRAINYARD_CPU_VARIANT(amx, result, name, parameters)           \
  TRAINYARD_CPU_VARIANT(emulated_bf16, result, name, parameters) \
  TRAINYARD_CPU_VARIANT(emulated_amx, result, name, parameters)
