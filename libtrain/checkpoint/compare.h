// Comparing two checkpoints tensor by tensor, whatever their parallel layouts and format versions.
#pragma once

#include "libtrain/checkpoint/reader.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

// How a tensor of one checkpoint differs from the tensor of the same path in another. Two elements differ when their
// bits do, after widening to f32. Where one is NaN and the bits of the other differ, the difference is infinite.
struct TensorDifference {
  std::string path;     // "/optimizer/m/layers.07.attention.q.weight"
  std::string problem;  // why the elements cannot be compared: one checkpoint has no such tensor, or the shapes differ;
                        // else empty
  Shape shape;
  std::int64_t elements = 0, different = 0;
  double largest_absolute = 0;                    // |a - b|
  double largest_relative = 0;                    // |a - b| / max(|a|, |b|)
  std::int64_t absolute_at = 0, relative_at = 0;  // the first such element, counted in the flat tensor
  double cosine = 1;  // cosine of the angle between the two; 1 where both are all zeros, NaN where only one is

  bool equal() const { return problem.empty() && different == 0; }
};

// Compares every kind that either checkpoint has, or only /model with Contents::model. For checkpoints of different
// working dtypes that includes the master, and for different optimizers the states of both; the master of an f32
// checkpoint is its model. Both checkpoints are read once and checked as they are read. `threads` threads work, and
// each keeps a few MiB. `watch` receives the number of elements compared so far and in total, from one thread at a
// time. An exception that it throws ends the work.
std::vector<TensorDifference> compare(const Reader& a, const Reader& b, Contents what, int threads,
                                      const std::function<void(std::int64_t done, std::int64_t total)>& watch = {});

// Converts an index into the flat tensor to an index in every dim.
std::vector<std::int64_t> index_of(const Shape& shape, std::int64_t element);

}  // namespace trainyard::checkpoint
