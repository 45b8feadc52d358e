// Adds squares of f32 to the digits of an exact sum, on a GPU. Included by *_cuda.cu.
#pragma once

#include "kernels/gpu_device.h"
#include "kernels/square_sum/fixed_point.h"

namespace trainyard::kernels {
namespace {

using Limb = unsigned long long;

// v^2 is the square of a mantissa below 2^24, `place` bits above the lowest bit of digit 0, which counts 2^-320. The
// place is twice the exponent of v plus a constant. From any place the square reaches into three digits.
struct Square {
  Limb square;
  unsigned place;
};
__device__ __forceinline__ Square square_of(unsigned magnitude) {  // the bits of |v|, finite
  const unsigned exponent = magnitude >> 23;
  const unsigned mantissa = exponent == 0 ? magnitude : (magnitude & 0x7fffffu) | 0x800000u;
  return {static_cast<Limb>(mantissa) * mantissa, 2 * (exponent == 0 ? 1 : exponent) + 20};  // v: m 2^(exponent - 150)
}

// Adds to the digits that the block shares; counts a value that is not finite.
__device__ inline void add_apart(unsigned magnitude, Limb* sums) {
  if (magnitude >= 0x7f800000u) {
    atomicAdd(&sums[square_sum_limbs - 1], Limb{1});
  } else if (magnitude != 0) {
    const auto [square, place] = square_of(magnitude);
    const Limb low = square << place % 32;
    atomicAdd(&sums[place / 32], low & 0xffffffffu);
    atomicAdd(&sums[place / 32 + 1], low >> 32);
    atomicAdd(&sums[place / 32 + 2], square >> 32 >> (32 - place % 32));
  }
}

// A thread keeps four digits in registers: those reached by squares that begin in digit `first` or `first` + 1. These
// are 32 exponents of v. A greater v moves the window up; a smaller v goes directly to the shared digits.
struct SquareWindow {
  static constexpr int digits = 4;
  unsigned first = 0;
  Limb own[digits] = {};

  __device__ __forceinline__ void add(float v, Limb* sums) {
    const unsigned magnitude = __float_as_uint(v) & 0x7fffffffu;
    // Bits above the window's lowest bit; wraps around for a place below the window.
    const unsigned above = 2 * (magnitude >> 23) + 20 - 32 * first;
    if (above >= 64 || magnitude < 0x800000u || magnitude >= 0x7f800000u) {
      if (magnitude == 0) return;
      if (magnitude >= 0x7f800000u || static_cast<int>(above) < 64) return add_apart(magnitude, sums);
      flush(sums);
      first = square_of(magnitude).place / 32 - 1;
      return add(v, sums);
    }
    const unsigned mantissa = (magnitude & 0x7fffffu) | 0x800000u;  // of a normal v; square_of also takes others
    const Limb square = static_cast<Limb>(mantissa) * mantissa, low = square << above % 32;
    const unsigned a = static_cast<unsigned>(low), b = static_cast<unsigned>(low >> 32),
                   c = static_cast<unsigned>(square >> 32 >> (32 - above % 32));
    const bool second = above >= 32;
    own[0] += second ? 0 : a;
    own[1] += second ? a : b;
    own[2] += second ? b : c;
    own[3] += second ? c : 0;
  }

  __device__ void flush(Limb* sums) {
    for (int d = 0; d < digits; ++d) {
      if (own[d] != 0) atomicAdd(&sums[first + static_cast<unsigned>(d)], own[d]);
      own[d] = 0;
    }
  }

  // At the end, lanes that have the same window add up in the warp first.
  __device__ void flush_warp(Limb* sums) {
    const int top = warp_max(static_cast<int>(first)), low = -warp_max(-static_cast<int>(first));
    if (top == low)
      for (int d = 0; d < digits; ++d) {
        const Limb sum = warp_sum(own[d]);
        own[d] = threadIdx.x % 32 == 0 ? sum : 0;
      }
    flush(sums);
  }
};

}  // namespace
}  // namespace trainyard::kernels
