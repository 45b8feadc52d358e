// SavedTensor, StackBytes: what a block keeps on the activation stack.
#pragma once

#include "libtrain/base/dtype.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// Whether a tensor stays between forward and backward. unless_selective: it does not stay with Recompute::selective.
// Backward then recomputes it to the same bits from the tensors that stay and the weights, without a matrix product or
// a collective.
enum class Stays { always, unless_selective };

// A tensor that a block pushes on the activation stack, in push order. An arena allocates it at a multiple of 64 bytes.
struct SavedTensor {
  static constexpr std::int64_t one_dim = -1;  // in place of rows
  const char* name;                            // a literal
  base::DType dtype;
  std::int64_t rows, cols;
  Stays stays = Stays::always;
  std::int64_t bytes() const;  // rounded up to 64
};
std::int64_t total_bytes(const std::vector<SavedTensor>& tensors);
std::vector<SavedTensor> only(std::vector<SavedTensor> tensors, Stays stays);

// Bytes on the activation stack. `kept` stays between forward and backward. `most` is the maximum while a block runs.
// `passing` is the most, at one time, of what is not kept: all micro-batches in flight share one place for it
// (model::Saved::Passing).
struct StackBytes {
  std::int64_t kept, most, passing = 0;
};

}  // namespace trainyard::plan
