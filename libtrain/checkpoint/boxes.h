// Boxes: which part of which logical tensor lies where in a rank file. They are all that readers know of a parallel
// layout, whatever major version of the format describes them.
#pragma once

#include "libtrain/plan/blocks/flat_group.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

using Shape = std::vector<std::int64_t>;     // of a logical tensor: 1 to most_dims sizes, each at least 1
std::string shape_text(const Shape& shape);  // "[4, 3]"
inline constexpr std::size_t most_dims = 4;
using Dims = std::array<std::int64_t, most_dims>;

// Start and count in every dim of a tensor, in the tensor's own coordinates. In dims that the tensor does not have,
// start is 0 and count is 1.
struct Box {
  Dims start{0, 0, 0, 0}, count{1, 1, 1, 1};
  std::int64_t elements() const { return count[0] * count[1] * count[2] * count[3]; }
  bool operator==(const Box&) const = default;
};

// A box and where its elements are stored: one after the other, row-major, from element `offset` of every dataset of a
// rank file.
struct StoredBox {
  std::int32_t tensor = 0;  // number of the parameter
  std::int64_t offset = 0;
  Box box;
  std::int64_t end() const { return offset + box.elements(); }
  bool operator==(const StoredBox&) const = default;
};
using RankBoxes = std::vector<StoredBox>;  // of one rank, ascending in offset, without overlap

Box whole_of(const Shape& shape);
// Elements [first, first + count) of the flat tensor, as at most 2r - 1 consecutive boxes for a tensor of r dims.
std::vector<Box> boxes_of_range(const Shape& shape, std::int64_t first, std::int64_t count);
std::optional<Box> common_part(const Box& a, const Box& b);
// A rank holds `part` of a parameter. Returns the logical elements among elements [first, first + count) of the
// flattened part, as consecutive boxes. The elements that are in no box, because they are padding rows, come last.
std::vector<Box> boxes_of_held(const plan::Parameter& parameter, const plan::HeldPart& part, std::int64_t first,
                               std::int64_t count);

// A run of `count` elements that are consecutive in two orders: in the datasets (from `at`) and in another order (from
// `element`). Where nothing else is said, the other order is the order of the flat tensor.
struct Run {
  std::int64_t element = 0, at = 0, count = 0;
};

// Calls f(Run) for the elements of `part`, which lies inside the stored box and inside `other`. Runs come in ascending
// `at` and are as long as the orders of both boxes allow. Run::element counts from the start of `other`.
template <class F>
void for_each_run(std::size_t dims, const StoredBox& stored, const Box& other, const Box& part, F&& f) {
  const auto& box = stored.box;
  auto dim = dims - 1;  // the outermost dim inside a run
  auto length = part.count[dim];
  while (dim > 0 && box.count[dim] == part.count[dim] && other.count[dim] == part.count[dim])
    length *= part.count[--dim];
  Dims at = part.start;
  while (true) {
    Run run{0, 0, length};
    for (std::size_t i = 0; i < dims; ++i) {
      run.element = run.element * other.count[i] + at[i] - other.start[i];
      run.at = run.at * box.count[i] + at[i] - box.start[i];
    }
    run.at += stored.offset;
    f(run);
    auto i = dim;
    while (i-- > 0) {
      if (++at[i] < part.start[i] + part.count[i]) break;
      at[i] = part.start[i];
    }
    if (i > dim) return;  // wrapped below 0
  }
}
template <class F> void for_each_run(const Shape& shape, const StoredBox& stored, const Box& part, F&& f) {
  for_each_run(shape.size(), stored, whole_of(shape), part, f);
}

// Elements [first, first + count) of the stored box, counted in storage order from its offset. boxes_within returns
// them as consecutive boxes; for_each_run_of_range calls f(Run) for them.
std::vector<Box> boxes_within(const Shape& shape, const StoredBox& stored, std::int64_t first, std::int64_t count);
template <class F>
void for_each_run_of_range(const Shape& shape, const StoredBox& stored, std::int64_t first, std::int64_t count, F&& f) {
  for (const auto& part : boxes_within(shape, stored, first, count)) for_each_run(shape, stored, part, f);
}

// Calls f(stored, from, to) for each box that overlaps elements [first, end) of a rank's datasets. [from, to) is the
// overlap, in elements of the datasets.
template <class F> void for_each_box(const RankBoxes& boxes, std::int64_t first, std::int64_t end, F&& f) {
  auto at = std::upper_bound(boxes.begin(), boxes.end(), first,
                             [](std::int64_t element, const StoredBox& stored) { return element < stored.end(); });
  for (; at != boxes.end() && at->offset < end; ++at) f(*at, std::max(first, at->offset), std::min(end, at->end()));
}

// Returns whether the boxes hold every element of the tensor exactly once. Each box must lie inside the shape.
bool cover_once(const Shape& shape, const std::vector<const Box*>& boxes);

// places_of returns for each tensor where its boxes lie, in ascending rank and offset. The places point into `ranks`.
struct Place {
  int rank = 0;
  const StoredBox* stored = nullptr;
};
std::vector<std::vector<Place>> places_of(const std::vector<const RankBoxes*>& ranks, std::size_t tensors);

}  // namespace trainyard::checkpoint
