// Dropout of four neighbouring channels, which share one Philox block. For the GPU kernels that apply dropout.
#pragma once

#include "kernels/dropout/dropout_args.h"
#include "kernels/gpu_device.h"
#include "libtrain/base/dropout_counter.h"

namespace trainyard::kernels {
namespace {

template <class F> struct Kept {
  Words words;
  std::uint32_t threshold;
  F scale;
  bool active;
  __device__ F operator()(int k, F x) const { return !active ? x : words.w[k] >= threshold ? x * scale : F(0); }
};

// For channels [4 quad, 4 quad + 4) of row r of the views.
template <class F> __device__ __forceinline__ Kept<F> kept_of(const DropoutArgs& a, std::int64_t r, std::int64_t quad) {
  Kept<F> kept{{}, a.threshold, sizeof(F) == 8 ? static_cast<F>(a.scale64) : static_cast<F>(a.scale), a.active != 0};
  if (kept.active) {
    const auto [sequence, position] = place_of(a.first_row + r, a.sequence);
    const auto row = (a.samples[sequence] << base::dropout_sample_shift) +
                     (static_cast<std::uint64_t>(position) << base::dropout_position_shift);
    kept.words = philox_words(a.seed, a.site, row + a.first_quad + static_cast<std::uint64_t>(quad));
  }
  return kept;
}

}  // namespace
}  // namespace trainyard::kernels
