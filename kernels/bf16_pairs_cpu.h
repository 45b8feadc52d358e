// Products of bf16 by pairs of neighbouring steps of the sum, as the instruction vdpbf16ps of AVX-512 BF16 computes
// them (Intel 64 and IA-32 Architectures Software Developer's Manual). Each f32 lane takes the pair's second step
// first, then its first step. Each step is one multiply-add with a single rounding to nearest even. Denormal operands
// and denormal addends count as zero of their sign. So does a result that, rounded with an unbounded exponent, lies
// below the least normal number. Included only by *_cpu.cpp, once per instruction set. TRAINYARD_BF16_PAIRS says which
// instruction sets multiply by pairs: with the instruction, or without it by the same arithmetic step by step.
#pragma once

#include "kernels/vec_cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

// Whether operands of this type are packed by pairs.
template <class T> constexpr bool paired = false;
#if defined(TRAINYARD_BF16_PAIRS)
template <> constexpr bool paired<b16> = true;
#endif

// Calls body(T*) with a null pointer of the type of a product's operands, which is summed in f32. Paths by pairs have
// products of bf16 alone.
template <class Body> inline void with_type_of_product([[maybe_unused]] Type type, const Body& body) {
#if defined(TRAINYARD_BF16_PAIRS)
  body(static_cast<b16*>(nullptr));
#else
  with_type_of_f32_sums(type, body);
#endif
}

// Steps p and p + 1 of an operand in one 32-bit lane, the first step in the low half.
inline float pair_of(b16 first, b16 second) {
  return bits_to_float(static_cast<std::uint32_t>(second.bits) << 16 | first.bits);
}

#if defined(__AVX512BF16__)
inline Vec multiply_pairs(Vec a, Vec b, Vec c) {
  return _mm512_dpbf16_ps(c, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}
#else
inline __attribute__((always_inline)) float without_denormals(float x) {
  const auto bits = float_to_bits(x);
  return bits_to_float((bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits);
}
// x y + c for operands that are not denormal. A result that rounds up to the least normal number still counts as tiny,
// and becomes zero, if it is smaller when rounded with an unbounded exponent. The second multiply-add, scaled by 2^64,
// finds that case.
inline __attribute__((always_inline)) float multiply_add(float x, float y, float c) {
  const float sum = without_denormals(__builtin_fmaf(x, y, c));
  if (__builtin_fabsf(sum) != 0x1p-126f) [[likely]]
    return sum;
  const float large = __builtin_fmaf(x * 0x1p32f, y * 0x1p32f, c * 0x1p64f);
  return __builtin_fabsf(large) < 0x1p-62f ? __builtin_copysignf(0.0f, sum) : sum;
}
inline float multiply_pair(float a, float b, float c) {
  const auto operand = [](std::uint32_t bits) { return without_denormals(bits_to_float(bits)); };
  const auto x = float_to_bits(a), y = float_to_bits(b);
  const float second = multiply_add(operand(x & 0xffff0000u), operand(y & 0xffff0000u), without_denormals(c));
  return multiply_add(operand(x << 16), operand(y << 16), second);
}
inline Vec multiply_pairs(Vec a, Vec b, Vec c) {
  float x[lanes], y[lanes], z[lanes];
  put(x, a), put(y, b), put(z, c);
  for (int l = 0; l < lanes; ++l) z[l] = multiply_pair(x[l], y[l], z[l]);
  return load(z);
}
#endif

// Rounds to bf16 as store(b16*) does, except that denormals become zero of their sign, as products of pairs count them.
// rounded(x) gives one bf16 for each lane. rounded_word(first, second) puts two bf16 into each 32-bit lane, `first` in
// the low half.
using Halves = std::uint16_t __attribute__((vector_size(sizeof(Vec) / 2)));
#if defined(__AVX512BF16__)
inline Halves rounded(Vec x) { return reinterpret_cast<Halves>(_mm512_cvtneps_pbh(x)); }
inline Vec rounded_word(Vec first, Vec second) {
  using Both = std::uint16_t __attribute__((vector_size(sizeof(Vec))));
  const auto both = reinterpret_cast<Both>(_mm512_cvtne2ps_pbh(second, first));
  return reinterpret_cast<Vec>(__builtin_shufflevector(both, both, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7,
                                                       23, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                                       31));
}
#else
using Bits = std::uint32_t __attribute__((vector_size(sizeof(Vec))));
inline Bits rounded_up(Vec x) {  // the bf16 is the upper half of each lane
  const Bits bits = reinterpret_cast<Bits>(x), size = bits & 0x7fffffffu;
  const Bits number = size < 0x00800000u ? bits & 0x80000000u : bits + 0x7fff + ((bits >> 16) & 1);
  return size > 0x7f800000u ? bits | 0x00400000u : number;
}
inline Halves rounded(Vec x) { return __builtin_convertvector(rounded_up(x) >> 16, Halves); }
inline Vec rounded_word(Vec first, Vec second) {
  return reinterpret_cast<Vec>((rounded_up(second) & 0xffff0000u) | rounded_up(first) >> 16);
}
#endif

}  // namespace
}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
