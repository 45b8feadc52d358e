// Rows of master weights, joined from working copy and remainder and split into them. Included only by *_cpu.cpp, once
// per instruction set.
#pragma once

#include "kernels/cpu.h"
#include "kernels/update/remainder_args.h"
#include "kernels/update/remainder_bits.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

inline bool any_mark(const RemainderPart& part, std::int64_t at, std::int64_t n) {
  const std::int64_t first = (part.shift + at) / 8, end = (part.shift + at + n + 7) / 8;
  unsigned any = 0;
  for (std::int64_t byte = first; byte < end; ++byte) any |= part.marks[byte];
  return any != 0;  // also of neighbours in the first and the last byte
}
inline bool mark_of(const RemainderPart& part, std::int64_t i) {
  return (part.marks[(part.shift + i) / 8] >> (part.shift + i) % 8 & 1) != 0;
}
inline void set_mark(const RemainderPart& part, std::int64_t i, bool mark) {
  auto& marks = part.marks[(part.shift + i) / 8];
  const auto bit = 1u << (part.shift + i) % 8;
  marks = static_cast<std::uint8_t>(mark ? marks | bit : marks & ~bit);
}

// to[0, n) = the masters of elements [at, at + n). `working` is of element 0. The first pass takes all for numbers
// without marks; a second one follows where that is not so, which is seldom.
inline void join_row(float* __restrict to, const std::uint16_t* __restrict working, const RemainderPart& part,
                     std::int64_t at, std::int64_t n) {
  const std::uint16_t* __restrict low = part.low + at;
  const std::uint16_t* __restrict high = working + at;
  std::uint16_t largest = 0;
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < n; ++i) {
    const auto size = static_cast<std::uint16_t>(high[i] & 0x7fffu);
    largest = largest > size ? largest : size;
    to[i] = bits_to_float(unmarked_number(high[i], low[i]));
  }
  if (largest <= largest_size_of_number && !any_mark(part, at, n)) return;
  for (std::int64_t i = 0; i < n; ++i) to[i] = bits_to_float(master_bits(high[i], low[i], mark_of(part, at + i)));
}

// The other way. The first pass takes all for numbers that are no ties.
inline void split_row(const float* __restrict from, std::uint16_t* __restrict working, const RemainderPart& part,
                      std::int64_t at, std::int64_t n) {
  std::uint16_t* __restrict low = part.low + at;
  std::uint16_t* __restrict high = working + at;
  std::uint16_t nearest = 0xffff;  // how near a low half is to 0x8000
  std::uint32_t largest = 0;
#pragma omp simd reduction(min : nearest) reduction(max : largest)
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t bits = float_to_bits(from[i]), size = bits & 0x7fffffffu;
    const auto rest = static_cast<std::uint16_t>(bits), distance = static_cast<std::uint16_t>(rest ^ 0x8000u);
    largest = largest > size ? largest : size;
    nearest = nearest < distance ? nearest : distance;
    high[i] = static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
    low[i] = rest;
  }
  if (nearest != 0 && largest <= largest_size_of_number << 16 && !any_mark(part, at, n)) return;
  for (std::int64_t i = 0; i < n; ++i) {
    b16 rounded;
    store(&rounded, from[i]);
    high[i] = rounded.bits;
    set_mark(part, at + i, needs_mark(float_to_bits(from[i]), rounded.bits));
  }
}

// Calls body(from, to) for blocks of elements, each with marks of its own.
template <class Body>
inline void over_blocks_of_marks(const RemainderPart& part, std::int64_t n, int threads, const Body& body) {
  constexpr std::int64_t block = 8192;
  const std::int64_t blocks = (n + part.shift + block - 1) / block;
#pragma omp parallel for num_threads(threads) schedule(static) if (blocks > 2)
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t from = b * block - part.shift, to = from + block;
    body(from < 0 ? 0 : from, to < n ? to : n);
  }
}

}  // namespace
}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
