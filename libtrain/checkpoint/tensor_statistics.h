// Fingerprints and norms of tensors, from parts that ranks hold.
#pragma once

#include "libtrain/base/dtype.h"

#include <cstdint>

namespace trainyard::checkpoint {

// Fingerprint and sum of squares of a part of a tensor. The sum is kept in two doubles, so that the norm does not
// depend on the parallel layout.
struct Statistics {
  std::uint64_t fingerprint = 0;
  double squares = 0, squares_low = 0;
  void add(const Statistics& other);
  double norm() const;
};
// Statistics of `count` elements (f32 or narrower) that start at `first_index` of the logical tensor.
Statistics statistics_of(const void* data, std::int64_t count, base::DType dtype, std::int64_t first_index);

}  // namespace trainyard::checkpoint
