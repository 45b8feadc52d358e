// Dropout whose random numbers depend on what an element is, never on when or where it is computed (decision 9).
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <cstdint>

namespace trainyard::kernels {

// Element (sample ordinal S, position t in the sequence, channel c) has the random number
// word c % 4 of random_words(seed, site, (S * 2^34) + (t * 2^14) + c / 4).
// The element is kept, and scaled by 1 / (1 - p), if this word is at least floor(p * 2^32). The counters hold
// base::dropout_samples, dropout_positions and dropout_channels. A caller must not pass wider rows or longer sequences.
struct Dropout {
  double probability = 0;
  std::uint64_t seed = 0, site = 0;
  const std::uint64_t* samples = nullptr;  // global ordinals, one for each sequence; must live until the work is done
  std::int64_t sequence = 0;               // T: row r of a micro-batch is position r % T of sequence r / T
  std::int64_t first_row = 0;              // row 0 of the views is this row of the micro-batch
  std::int64_t first_channel = 0;          // column 0 of the views is this channel; a multiple of 4
};

// All views are [n, h]; input and output may be the same view. With probability 0 these are a plain copy or addition.
void dropout_forward(tensor::Exec& exec, const Dropout& dropout, base::ConstView x, base::View y);
void dropout_backward(tensor::Exec& exec, const Dropout& dropout, base::ConstView dy, base::View dx);
// out = residual + dropout(branch).
void dropout_add(tensor::Exec& exec, const Dropout& dropout, base::ConstView residual, base::ConstView branch,
                 base::View out);

}  // namespace trainyard::kernels
