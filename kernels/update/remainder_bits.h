// The bits of an f32 master weight that is kept as its bf16 working copy and a remainder (kernels/update/remainder.h).
// Every source has copies of its own, so that instruction sets share no code.
#pragma once

#include "libtrain/base/anywhere.h"

#include <cstdint>

namespace trainyard::kernels {
namespace {

inline constexpr std::uint32_t largest_size_of_number = 0x7f80;  // of a bf16 without its sign: infinity

// A number's working copy and low half without the mark: the low half says how far the master is from its working copy,
// as a number of 16 bits with a sign.
TRAINYARD_ANYWHERE inline std::uint32_t unmarked_number(std::uint16_t working, std::uint16_t low) {
  return (static_cast<std::uint32_t>(working) << 16) +
         static_cast<std::uint32_t>(static_cast<std::int32_t>(static_cast<std::int16_t>(low)));
}

// Without the mark: a tie was rounded up. A NaN was not rounded.
TRAINYARD_ANYWHERE inline std::uint32_t unmarked_master(std::uint16_t working, std::uint16_t low) {
  const std::uint32_t bits = (static_cast<std::uint32_t>(working) << 16) | low;
  return (working & 0x7fffu) > largest_size_of_number ? bits : unmarked_number(working, low);
}

// With it: a tie was rounded down, or a NaN was not quiet.
TRAINYARD_ANYWHERE inline std::uint32_t marked_master(std::uint16_t working, std::uint16_t low) {
  const std::uint32_t bits = (static_cast<std::uint32_t>(working) << 16) | low;
  return (working & 0x7fffu) > largest_size_of_number ? bits & ~0x400000u : bits;
}

TRAINYARD_ANYWHERE inline std::uint32_t master_bits(std::uint16_t working, std::uint16_t low, bool mark) {
  return mark ? marked_master(working, low) : unmarked_master(working, low);
}

// Whether the master with these bits needs the mark. `working`: the master rounded. A GPU gives every NaN the same
// working copy; a NaN that neither form gives back has no mark, and becomes another NaN.
TRAINYARD_ANYWHERE inline bool needs_mark(std::uint32_t bits, std::uint16_t working) {
  const auto low = static_cast<std::uint16_t>(bits);
  return unmarked_master(working, low) != bits && marked_master(working, low) == bits;
}

}  // namespace
}  // namespace trainyard::kernels
