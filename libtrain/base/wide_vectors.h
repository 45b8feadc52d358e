// Compiles a loop over many numbers for the widest vectors of the machine. It is for loops whose result cannot depend
// on the width: integers, and floating point without sums across elements (nothing is contracted). Kernels have their
// own dispatch (kernels/dispatch.h), which TRAINYARD_ISA controls.
#pragma once

namespace trainyard::base {

#if defined(__x86_64__)

#if defined(__clang__)  // clang takes 512-bit vectors where they pay
#define TRAINYARD_512_BITS "avx512f,avx512dq,avx512vl"
#else
#define TRAINYARD_512_BITS "avx512f,avx512dq,avx512vl,prefer-vector-width=512"
#endif

template <class Loop> [[gnu::target(TRAINYARD_512_BITS)]] auto with_512_bits(const Loop& loop) { return loop(); }
#undef TRAINYARD_512_BITS
template <class Loop> [[gnu::target("avx2")]] auto with_256_bits(const Loop& loop) { return loop(); }

// Calls `loop`, a lambda without arguments, written `[&]() __attribute__((always_inline)) { ... }`. Only inlined code
// is compiled anew for the wider vectors.
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
