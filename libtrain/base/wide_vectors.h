// Loops over many numbers, compiled for the vectors that the machine has. For loops whose result cannot depend on it:
// integers, and floating point in lanes of its own (nothing is contracted). Kernels have a dispatch of their own
// (kernels/dispatch.h), which TRAINYARD_ISA rules.
#pragma once

namespace trainyard::base {

#if defined(__x86_64__)

#if defined(__clang__)  // which takes vectors of 512 bits where they pay
#define TRAINYARD_512_BITS "avx512f,avx512dq,avx512vl"
#else
#define TRAINYARD_512_BITS "avx512f,avx512dq,avx512vl,prefer-vector-width=512"
#endif

template <class Loop> [[gnu::target(TRAINYARD_512_BITS)]] auto with_512_bits(const Loop& loop) { return loop(); }
#undef TRAINYARD_512_BITS
template <class Loop> [[gnu::target("avx2")]] auto with_256_bits(const Loop& loop) { return loop(); }

// Calls `loop`, a lambda without arguments that is written `[&]() __attribute__((always_inline)) { ... }`: only what is
// inlined is compiled anew.
template <class Loop> auto with_wide_vectors(const Loop& loop) {
  static const bool has_512 =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  static const bool has_256 = __builtin_cpu_supports("avx2");
  return has_512 ? with_512_bits(loop) : has_256 ? with_256_bits(loop) : loop();
}

#else

template <class Loop> auto with_wide_vectors(const Loop& loop) { return loop(); }

#endif

}  // namespace trainyard::base
