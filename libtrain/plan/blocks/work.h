// Work of a block: its matrix products with their shapes, and the bytes that its other kernels move. Times follow from
// these (plan/step_time.h).
#pragma once

#include "libtrain/plan/grid/micro_shape.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// `batch` independent products [rows, inner] x [inner, cols].
struct Product {
  std::int64_t rows = 0, cols = 0, inner = 0, batch = 1;
  double flops() const {
    return 2 * static_cast<double>(rows) * static_cast<double>(cols) * static_cast<double>(inner) *
           static_cast<double>(batch);
  }
  bool operator==(const Product&) const = default;
};

// One pass of a rank over one micro-batch.
struct PassWork {
  std::vector<Product> products;
  double bytes = 0;                // that kernels without a product read and write
  std::vector<Product> attention;  // products inside of fused attention kernels
  void add(const PassWork& other);
};
// weights: the products of backward that make weight gradients; `backward` has the others. again: what backward repeats
// with Recompute::selective.
struct BlockWork {
  PassWork forward, backward, weights, again;
  void add(const BlockWork& other);
  // A linear layer of `rows` rows: forward, the gradient of its input, and of its weight, which is added to a sum in
  // f32.
  void linear(std::int64_t rows, std::int64_t out, std::int64_t in, std::int64_t batch = 1);
};

}  // namespace trainyard::plan
