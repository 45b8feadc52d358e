// Arithmetic of boxes.
#include "libtrain/checkpoint/boxes.h"

#include "libtrain/base/index.h"
#include "libtrain/io/hdf5_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace trainyard::checkpoint {

std::string shape_text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

Box whole_of(const Shape& shape) {
  Box box;
  std::copy(shape.begin(), shape.end(), box.count.begin());
  return box;
}

std::vector<Box> boxes_of_range(const Shape& shape, std::int64_t first, std::int64_t count) {
  std::vector<Box> boxes;
  for (const auto& part : io::boxes_of(shape, first, count)) {
    Box box;
    std::copy(part.start.begin(), part.start.end(), box.start.begin());
    std::copy(part.extent.begin(), part.extent.end(), box.count.begin());
    boxes.push_back(box);
  }
  return boxes;
}

std::optional<Box> common_part(const Box& a, const Box& b) {
  Box part;
  for (std::size_t i = 0; i < most_dims; ++i) {
    part.start[i] = std::max(a.start[i], b.start[i]);
    part.count[i] = std::min(a.start[i] + a.count[i], b.start[i] + b.count[i]) - part.start[i];
    if (part.count[i] < 1) return std::nullopt;
  }
  return part;
}

std::vector<Box> boxes_of_held(const plan::Parameter& parameter, const plan::HeldPart& part, std::int64_t first,
                               std::int64_t count) {
  const auto rows = std::clamp<std::int64_t>(parameter.shape[0] - part.start[0], 0, part.extent[0]);
  auto logical = rows;
  for (std::size_t i = 1; i < part.extent.size(); ++i) logical *= part.extent[i];
  std::vector<Box> boxes;
  if (first < logical) boxes = boxes_of_range(part.extent, first, std::min(count, logical - first));
  for (auto& box : boxes)
    for (std::size_t i = 0; i < part.start.size(); ++i) box.start[i] += part.start[i];
  return boxes;
}

std::vector<Box> boxes_within(const Shape& shape, const StoredBox& stored, std::int64_t first, std::int64_t count) {
  const Shape extent(stored.box.count.begin(), stored.box.count.begin() + static_cast<std::ptrdiff_t>(shape.size()));
  auto boxes = boxes_of_range(extent, first, count);
  for (auto& box : boxes)
    for (std::size_t i = 0; i < shape.size(); ++i) box.start[i] += stored.box.start[i];
  return boxes;
}

namespace {

using Corner = std::pair<Dims, int>;

void add_corners(std::vector<Corner>& corners, const Shape& shape, const Box& box, int sign) {
  for (unsigned ends = 0; ends < 1u << shape.size(); ++ends) {
    Corner corner{box.start, sign};
    for (std::size_t i = 0; i < shape.size(); ++i)
      if (ends >> i & 1) corner.first[i] += box.count[i], corner.second = -corner.second;
    corners.push_back(corner);
  }
}

}  // namespace

// How often each element is held is a function on the grid that is 0 far out. So its mixed difference in all dims
// determines it. The difference of one box is +1 and -1 at its corners. So the sum over all boxes must equal the
// difference of the whole tensor. This is exact, and costs n log n in any number of dims.
bool cover_once(const Shape& shape, const std::vector<const Box*>& boxes) {
  std::vector<Corner> corners;
  corners.reserve((boxes.size() + 1) << shape.size());
  for (const auto* box : boxes) add_corners(corners, shape, *box, 1);
  add_corners(corners, shape, whole_of(shape), -1);
  std::sort(corners.begin(), corners.end());
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < corners.size(); ++i) {
    sum += corners[i].second;
    const bool last = i + 1 == corners.size() || corners[i + 1].first != corners[i].first;
    if (last && sum != 0) return false;
  }
  return true;
}

std::vector<std::vector<Place>> places_of(const std::vector<const RankBoxes*>& ranks, std::size_t tensors) {
  std::vector<std::vector<Place>> places(tensors);
  for (std::size_t r = 0; r < ranks.size(); ++r)
    for (const auto& stored : *ranks[r]) base::at(places, stored.tensor).push_back({static_cast<int>(r), &stored});
  return places;
}

}  // namespace trainyard::checkpoint
