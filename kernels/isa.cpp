// Chooses the instruction-set path once.
#include "kernels/dispatch.h"

#include "libtrain/base/error.h"

#include <atomic>
#include <cpuid.h>
#include <cstdlib>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>

namespace trainyard::kernels {

namespace {

constexpr Isa all[] = {Isa::baseline, Isa::avx2,          Isa::avx512,      Isa::avx512bf16,
                       Isa::amx,      Isa::emulated_bf16, Isa::emulated_amx};

// Whether this process can use tiles. The processor must have tiles of bf16 (Intel 64 and IA-32 Architectures Software
// Developer's Manual, CPUID leaf 7). The system must save them when it switches threads (XCR0). It must let this
// process use them, which the process has to ask for (Linux 5.16, arch/x86/xstate: ARCH_REQ_XCOMP_PERM).
bool tiles_can_be_used() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned amx_bf16 = 1u << 22, amx_tile = 1u << 24, kept = 1u << 17 | 1u << 18;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & amx_bf16) == 0 || (d & amx_tile) == 0) return false;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & kept) != kept) return false;
  constexpr long ask = 0x1023, tile_data = 18;
  return syscall(SYS_arch_prctl, ask, tile_data) == 0;
}

// Whether the processor has F16C. Every processor with AVX2 has it, but a virtual machine may hide it. clang's
// __builtin_cpu_supports does not know F16C.
bool converts_f16() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned f16c = 1u << 29;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & f16c) != 0;
}

}  // namespace

bool machine_has(Isa isa) {
  switch (isa) {
    case Isa::emulated_bf16:
    case Isa::emulated_amx:
    case Isa::baseline: return true;
    case Isa::avx2: return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && converts_f16();
    case Isa::avx512:
      return machine_has(Isa::avx2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    case Isa::avx512bf16: return machine_has(Isa::avx512) && __builtin_cpu_supports("avx512bf16");
    case Isa::amx: {
      static const bool can = machine_has(Isa::avx512) && tiles_can_be_used();
      return can;
    }
  }
  return false;
}

namespace {

Isa choose() {
  const char* forced = std::getenv("TRAINYARD_ISA");
  Isa chosen = best_isa();
  if (forced != nullptr && *forced != '\0') {
    bool known = false;
    for (auto isa : all)
      if (std::string(forced) == name_of(isa)) chosen = isa, known = true;
    if (!known)
      throw base::UsageError(fmt::format("TRAINYARD_ISA={} is not an instruction-set path", forced),
                             "use baseline, avx2, avx512, avx512bf16, amx, emulated-bf16 or emulated-amx");
    if (!machine_has(chosen))
      throw base::Unsupported(fmt::format("TRAINYARD_ISA={}, but this machine lacks those instructions", forced),
                              fmt::format("the best here is {}", name_of(best_isa())));
  }
  return chosen;
}

std::atomic<int> overridden{-1};

}  // namespace

Isa best_isa() {
  for (const auto isa : {Isa::amx, Isa::avx512bf16, Isa::avx512, Isa::avx2})
    if (machine_has(isa)) return isa;
  return Isa::baseline;
}

Isa active_isa() {
  static const Isa chosen = choose();
  const int forced = overridden.load(std::memory_order_relaxed);
  return forced >= 0 ? static_cast<Isa>(forced) : chosen;
}

Isa base_of(Isa isa) {
  switch (isa) {
    case Isa::avx512bf16:
    case Isa::amx: return Isa::avx512;
    case Isa::emulated_bf16:
    case Isa::emulated_amx: return Isa::baseline;
    default: return isa;
  }
}

void set_isa(Isa isa) {
  active_isa();
  overridden = static_cast<int>(isa);
}

const char* name_of(Isa isa) {
  switch (isa) {
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
    case Isa::avx512bf16: return "avx512bf16";
    case Isa::amx: return "amx";
    case Isa::emulated_bf16: return "emulated-bf16";
    case Isa::emulated_amx: return "emulated-amx";
    case Isa::baseline: break;
  }
  return "baseline";
}

}  // namespace trainyard::kernels
