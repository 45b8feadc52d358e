// Chooses the instruction-set path once.
#include "kernels/dispatch.h"

#include "libtrain/base/error.h"

#include <atomic>
#include <cstdlib>
#include <string>

namespace trainyard::kernels {

namespace {

constexpr Isa all[] = {Isa::baseline, Isa::avx2, Isa::avx512, Isa::avx512bf16, Isa::emulated_bf16};

}  // namespace

bool machine_has(Isa isa) {
  switch (isa) {
    case Isa::emulated_bf16:
    case Isa::baseline: return true;
    // Every processor with AVX2 has F16C; clang cannot be asked about it.
    case Isa::avx2: return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Isa::avx512:
      return machine_has(Isa::avx2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    case Isa::avx512bf16: return machine_has(Isa::avx512) && __builtin_cpu_supports("avx512bf16");
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
                             "use baseline, avx2, avx512, avx512bf16 or emulated-bf16");
    if (!machine_has(chosen))
      throw base::Unsupported(fmt::format("TRAINYARD_ISA={}, but this machine lacks those instructions", forced),
                              fmt::format("the best here is {}", name_of(best_isa())));
  }
  return chosen;
}

std::atomic<int> overridden{-1};

}  // namespace

Isa best_isa() {
  for (const auto isa : {Isa::avx512bf16, Isa::avx512, Isa::avx2})
    if (machine_has(isa)) return isa;
  return Isa::baseline;
}

Isa active_isa() {
  static const Isa chosen = choose();
  const int forced = overridden.load(std::memory_order_relaxed);
  return forced >= 0 ? static_cast<Isa>(forced) : chosen;
}

Isa without_pairs(Isa isa) {
  return isa == Isa::avx512bf16 ? Isa::avx512 : isa == Isa::emulated_bf16 ? Isa::baseline : isa;
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
    case Isa::emulated_bf16: return "emulated-bf16";
    case Isa::baseline: break;
  }
  return "baseline";
}

}  // namespace trainyard::kernels
