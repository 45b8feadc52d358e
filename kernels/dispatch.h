// The instruction-set paths of a CPU kernel. A kernel's x_cpu.cpp is compiled for baseline, avx2 and avx512, each in a
// namespace of its own. Matrix products and attention are also compiled for avx512bf16, amx and the emulation of each.
#pragma once

namespace trainyard::kernels {

// avx512bf16 and amx: like avx512, but products of bf16, also in attention, go by pairs (kernels/bf16_pairs_cpu.h) or
// by tiles (kernels/bf16_tiles_cpu.h). emulated_bf16 and emulated_amx: like baseline, but products of bf16 have the
// bits of avx512bf16 and amx. The emulated paths need no special instructions and are slow; use them for tests and
// investigations.
enum class Isa { baseline, avx2, avx512, avx512bf16, amx, emulated_bf16, emulated_amx };

// The path in use: the best that this machine has, unless the environment forces one with
// TRAINYARD_ISA=baseline|avx2|avx512|avx512bf16|amx|emulated-bf16|emulated-amx. Throws base::Unsupported if the machine
// lacks the forced path, base::UsageError if the name is unknown. Fixed at the first use. set_isa is for tests.
Isa active_isa();
Isa best_isa();             // never an emulated path
bool machine_has(Isa isa);  // for amx, the system must also let this process use tiles
// The path with the same bits except in products of bf16, which it computes step by step. A path that does so itself is
// its own base.
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

// In x_args.h: TRAINYARD_CPU_KERNEL(void, activation_cpu, (const ActivationArgs& args)) declares the three compiled
// variants. The paths that differ only in products use avx512 or baseline.
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

// Declares a kernel of products or attention, which is compiled for each of the seven paths.
#define TRAINYARD_PRODUCT_KERNEL(result, name, parameters)       \
  TRAINYARD_CPU_VARIANTS(result, name, parameters)               \
  TRAINYARD_CPU_VARIANT(avx512bf16, result, name, parameters)    \
  TRAINYARD_CPU_VARIANT(amx, result, name, parameters)           \
  TRAINYARD_CPU_VARIANT(emulated_bf16, result, name, parameters) \
  TRAINYARD_CPU_VARIANT(emulated_amx, result, name, parameters)
