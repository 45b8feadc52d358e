// Groups of rows and their weights, for the tests of grouped products. Groups are in any order with gaps between them,
// and weights have two levels of strides with gaps. All gaps are poisoned.
#pragma once

#include "kernels/grouped_linear/grouped_linear.h"
#include "tests/kernels/matrix_buffer.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace trainyard::test {

// The sizes of groups, and where they lie.
struct Groups {
  std::vector<std::int32_t> ranges;
  std::int64_t rows = 0;  // of the tensor, with gaps

  explicit Groups(const std::vector<int>& sizes, unsigned seed = 1) : ranges(2 * sizes.size()) {
    std::mt19937 random(seed);
    std::vector<std::size_t> order(sizes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    for (auto g : order) {
      rows += random() % 4;
      ranges[2 * g] = static_cast<std::int32_t>(rows), ranges[2 * g + 1] = sizes[g];
      rows += std::max(sizes[g], 0);  // size -1: the group is left alone
    }
    rows += 1 + random() % 3;
  }
  std::int64_t count() const { return static_cast<std::int64_t>(ranges.size() / 2); }
  std::int64_t first(std::int64_t g) const { return ranges[static_cast<std::size_t>(2 * g)]; }
  std::int64_t size(std::int64_t g) const { return ranges[static_cast<std::size_t>(2 * g + 1)]; }
  // Fills only the rows of groups with random values.
  void fill(MatrixBuffer& m, std::uint64_t seed) const {
    MatrixBuffer all(m.dtype, m.rows, m.cols);
    all.fill(seed);
    for (std::int64_t g = 0; g < count(); ++g)
      for (std::int64_t i = first(g); i < first(g) + size(g); ++i)
        for (std::int64_t j = 0; j < m.cols; ++j) m.set(i, j, all(i, j));
  }
};

// `count` matrices of rows x cols in one buffer. Group g uses matrix g % count.
struct Stack {
  std::int64_t rows, cols, pitch, lead, stride, count;
  MatrixBuffer memory;

  Stack(DType t, std::int64_t groups, std::int64_t r, std::int64_t c, std::int64_t each, std::int64_t gap)
      : rows(r), cols(c), pitch(c + gap), lead(gap), stride(r * pitch + 3 * gap), count(each),
        memory(t, 1, lead + std::min(groups, each) * stride + 5 * gap) {}
  // `whole`: the buffer as a kernel sees it.
  base::View of(base::View whole, std::int64_t g) const {
    auto v = whole.columns(lead + g % count * stride, cols);
    v.shape = {rows, cols, 0, 0}, v.dims = 2, v.pitch = pitch;
    return v;
  }
  base::View of(std::int64_t g) { return of(memory.view(), g); }
  kernels::GroupedView all(base::View whole) const { return {of(whole, 0), stride, count}; }
  kernels::GroupedView all() { return all(memory.view()); }
  std::int64_t at(std::int64_t g, std::int64_t i, std::int64_t j) const {
    return lead + g % count * stride + i * pitch + j;
  }
  double operator()(std::int64_t g, std::int64_t i, std::int64_t j) const { return memory(0, at(g, i, j)); }
  Stack& fill(std::uint64_t seed, std::int64_t groups) {
    MatrixBuffer values(memory.dtype, groups * rows, cols);
    values.fill(seed);
    for (std::int64_t g = 0; g < groups; ++g)
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < cols; ++j) memory.set(0, at(g, i, j), values(g * rows + i, j));
    return *this;
  }
};

}  // namespace trainyard::test
