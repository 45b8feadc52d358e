// The bits of an f32 master weight that is kept as its bf16 working copy and a remainder (kernels/update/remainder.h).
// Every source has copies of its own, so that instruction sets share no code.
#pragma once

#include "libtrain/base/anywhere.h"

#include <cstdint>

namespace trainyard::kernels {
namespace {

// What working copy and low half say without the mark. A low half above the middle was rounded up, so the upper half of
// the master is one less. A NaN was not rounded. Conditions are masks of signed numbers, so that compilers use
// registers of several numbers.
TRAINYARD_ANYWHERE inline std::uint32_t unmarked_master(std::uint16_t working, std::uint16_t low) {
  const auto size = static_cast<std::int32_t>(working & 0x7fffu), rest = static_cast<std::int32_t>(low);
  const std::uint32_t up = 0u - static_cast<std::uint32_t>(rest > 0x8000),
                      number = 0u - static_cast<std::uint32_t>(size <= 0x7f80);
  return ((static_cast<std::uint32_t>(working) << 16) | low) - (up & number & 0x10000u);
}

// What they say with it: a tie that was rounded up, or a NaN that was not quiet.
TRAINYARD_ANYWHERE inline std::uint32_t marked_master(std::uint16_t working, std::uint16_t low) {
  const std::uint32_t bits = (static_cast<std::uint32_t>(working) << 16) | low;
  return (working & 0x7fffu) > 0x7f80u ? bits & ~0x400000u : bits - 0x10000u;
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
