// How an operation's x.cpp calls the kernel variant of the instruction-set path in use.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/kernel_clock.h"

// TRAINYARD_CPU_CALL(activation_cpu, (a)) calls the variant in use, and times the call if a KernelClock measures.
#define TRAINYARD_CPU_CALL(name, arguments)                             \
  ((void)KernelTimer(#name, [&] { return work_of arguments; }),         \
   active_isa() == Isa::amx             ? amx::name arguments           \
   : active_isa() == Isa::avx512bf16    ? avx512bf16::name arguments    \
   : active_isa() == Isa::avx512        ? avx512::name arguments        \
   : active_isa() == Isa::avx2          ? avx2::name arguments          \
   : active_isa() == Isa::emulated_bf16 ? emulated_bf16::name arguments \
   : active_isa() == Isa::emulated_amx  ? emulated_amx::name arguments  \
                                        : baseline::name arguments)
