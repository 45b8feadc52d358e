// Boxes compared with lists of marked elements: runs, parts, and whether boxes hold every element once.
#include "libtrain/checkpoint/boxes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

using namespace trainyard::checkpoint;

namespace {

const std::vector<Shape> shapes = {{13}, {5, 7}, {3, 4, 5}, {2, 3, 2, 3}, {1, 6}, {6, 1}};

std::int64_t count_of(const Shape& shape) { return whole_of(shape).elements(); }

// The flat indices of a box's elements, in the order of a file.
std::vector<std::int64_t> elements_of(const Shape& shape, const Box& box) {
  std::vector<std::int64_t> flat;
  for (std::int64_t k = 0; k < box.elements(); ++k) {
    std::int64_t rest = k, index = 0, stride = 1;
    for (auto d = shape.size(); d-- > 0;) {
      index += (box.start[d] + rest % box.count[d]) * stride;
      rest /= box.count[d];
      stride *= shape[d];
    }
    flat.push_back(index);
  }
  return flat;
}

Box random_box(const Shape& shape, std::mt19937& random) {
  Box box;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    box.start[d] = static_cast<std::int64_t>(random() % static_cast<unsigned>(shape[d]));
    box.count[d] = 1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(shape[d] - box.start[d]));
  }
  return box;
}

// Divides a box into parts by random planes.
void divide(const Shape& shape, const Box& box, int times, std::mt19937& random, std::vector<Box>& out) {
  const auto d = random() % shape.size();
  if (times == 0 || box.count[d] < 2) return out.push_back(box);
  auto low = box, high = box;
  low.count[d] = 1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(box.count[d] - 1));
  high.start[d] += low.count[d];
  high.count[d] -= low.count[d];
  divide(shape, low, times - 1, random, out);
  divide(shape, high, times - 1, random, out);
}

bool cover(const Shape& shape, const std::vector<Box>& boxes) {
  std::vector<const Box*> list;
  for (const auto& box : boxes) list.push_back(&box);
  return cover_once(shape, list);
}

bool counted_once(const Shape& shape, const std::vector<Box>& boxes) {
  std::vector<int> times(static_cast<std::size_t>(count_of(shape)), 0);
  for (const auto& box : boxes)
    for (auto e : elements_of(shape, box)) ++times[static_cast<std::size_t>(e)];
  return std::all_of(times.begin(), times.end(), [](int n) { return n == 1; });
}

}  // namespace

TEST(Boxes, RunsOfAPartFollowBothOrders) {
  std::mt19937 random(1);
  for (const auto& shape : shapes)
    for (int trial = 0; trial < 200; ++trial) {
      const StoredBox stored{0, 100, random_box(shape, random)};
      const auto held = elements_of(shape, stored.box);
      const auto other = random_box(shape, random);
      const auto part = common_part(stored.box, other);
      std::vector<std::int64_t> expected;  // in the order of the file
      const auto wanted = elements_of(shape, other);
      for (auto e : held)
        if (std::find(wanted.begin(), wanted.end(), e) != wanted.end()) expected.push_back(e);
      std::vector<std::int64_t> got;
      std::int64_t last = -1;
      if (part)
        for_each_run(shape, stored, *part, [&](const auto& run) {
          EXPECT_GT(run.at, last);
          last = run.at;
          for (std::int64_t i = 0; i < run.count; ++i) {
            got.push_back(run.element + i);
            EXPECT_EQ(held.at(static_cast<std::size_t>(run.at + i - 100)), run.element + i);
          }
        });
      EXPECT_EQ(got, expected);
    }
}

TEST(Boxes, RunsOfARangeAreTheRange) {
  std::mt19937 random(2);
  for (const auto& shape : shapes)
    for (int trial = 0; trial < 50; ++trial) {
      const StoredBox stored{0, 7, random_box(shape, random)};
      const auto held = elements_of(shape, stored.box);
      const auto n = static_cast<std::int64_t>(held.size());
      for (std::int64_t first = 0; first < n; ++first) {
        std::int64_t at = first;
        for_each_run_of_range(shape, stored, first, n - first, [&](const auto& run) {
          EXPECT_EQ(run.at, 7 + at);
          for (std::int64_t i = 0; i < run.count; ++i, ++at)
            EXPECT_EQ(run.element + i, held[static_cast<std::size_t>(at)]);
        });
        EXPECT_EQ(at, n);
      }
    }
}

TEST(Boxes, WholeRowsAreOneRun) {
  int runs = 0;
  const auto count = [&](const auto&) { ++runs; };
  for_each_run({8, 5, 3}, {0, 0, {{2, 0, 0, 0}, {4, 5, 3, 1}}}, {{3, 0, 0, 0}, {2, 5, 3, 1}}, count);
  EXPECT_EQ(runs, 1);
  for_each_run({8, 5, 3}, {0, 0, {{2, 0, 0, 0}, {4, 4, 3, 1}}}, {{3, 0, 0, 0}, {2, 4, 3, 1}}, count);
  EXPECT_EQ(runs, 1 + 2);
}

// Random tilings are accepted. A lost, doubled, moved or resized box is refused, unless it makes no difference.
TEST(Boxes, CoverageIsExact) {
  std::mt19937 random(3);
  int refused = 0;
  for (const auto& shape : shapes)
    for (int trial = 0; trial < 300; ++trial) {
      std::vector<Box> boxes;
      divide(shape, whole_of(shape), 4, random, boxes);
      std::shuffle(boxes.begin(), boxes.end(), random);
      ASSERT_TRUE(cover(shape, boxes));
      auto& box = boxes[random() % boxes.size()];
      switch (random() % 4) {
        case 0: boxes.push_back(box); break;
        case 1: box = boxes.back(), boxes.pop_back(); break;
        case 2: box = random_box(shape, random); break;
        default: std::swap(box.start, boxes[random() % boxes.size()].start); break;
      }
      bool inside = true;
      for (const auto& b : boxes)
        for (std::size_t d = 0; d < shape.size(); ++d) inside = inside && b.start[d] + b.count[d] <= shape[d];
      if (!inside) continue;
      EXPECT_EQ(cover(shape, boxes), counted_once(shape, boxes));
      refused += cover(shape, boxes) ? 0 : 1;
    }
  EXPECT_GT(refused, 500);
  EXPECT_FALSE(cover({4, 4}, {}));
}
