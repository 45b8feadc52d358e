// Comparing two checkpoints tensor by tensor, whatever their cuts and versions.
#pragma once

#include "libtrain/checkpoint/reader.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

// How a tensor of one checkpoint differs from that of the same path in another. An element is different when its bits
// are, widened to f32; one that is no number where the other has other bits differs without bounds.
struct TensorDifference {
  std::string path;     // "/optimizer/m/layers.07.attention.q.weight"
  std::string problem;  // why the elements cannot be compared: one of them has none, or another shape; else empty
  Shape shape;
  std::int64_t elements = 0, different = 0;
  double largest_absolute = 0;                    // |a - b|
  double largest_relative = 0;                    // |a - b| / max(|a|, |b|)
  std::int64_t absolute_at = 0, relative_at = 0;  // the first element with it, counted in the flat tensor
  double cosine = 1;  // of the angle between the two; 1 where both are nothing but zeros, else NaN for one

  bool equal() const { return problem.empty() && different == 0; }
};

// Every kind that one of them has, or /model alone; of checkpoints with different working dtypes all four, where the
// master of an f32 one is its model. Both are read once, checked as they are read, by `threads` threads that keep a few
// MiB each. `watch` is told of the elements compared so far and in all, by one thread at a time; what it throws ends
// the work.
std::vector<TensorDifference> compare(const Reader& a, const Reader& b, Contents what, int threads,
                                      const std::function<void(std::int64_t done, std::int64_t total)>& watch = {});

// Index in every dim of an element that is counted in the flat tensor.
std::vector<std::int64_t> index_of(const Shape& shape, std::int64_t element);

}  // namespace trainyard::checkpoint
