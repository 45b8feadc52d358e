// Compares products of groups on a GPU with the CPU; nothing else is written, and scratch is as planned.
#include "kernels/grouped_linear/grouped_linear.h"
#include "libtrain/plan/blocks/scratch.h"
#include "tests/gpu_main.h"
#include "tests/kernels/gpu_compare.h"
#include "tests/kernels/grouped_setup.h"

#include <gtest/gtest.h>

namespace trainyard::test {
namespace {

// Tensor cores take only widths and pitches that are multiples of eight; other shapes go to plain units.
struct Widths {
  std::int64_t in, out, gap, lanes;
};
const Widths widths[] = {{136, 40, 8, 1}, {24, 136, 8, 1}, {32, 40, 8, 4}, {48, 24, 8, 3},
                         {40, 33, 3, 1},  {40, 67, 8, 2},  {24, 41, 8, 1}};
Stack gpu_stack(DType t, const Groups& groups, std::int64_t rows, std::int64_t cols, std::int64_t gap,
                std::int64_t each = 2) {
  return {t, groups.count(), rows, cols, each, gap};
}

struct Uploaded {
  Groups groups;
  std::vector<std::int32_t> ranges;
  explicit Uploaded(const std::vector<int>& n) : groups(n, 7), ranges(groups.ranges) {}
  kernels::RowGroups operator()(Place& place) { return {place(ranges, {groups.count(), 2})}; }
};

void compare_everywhere(const std::function<Outputs(Place&, DType, Uploaded&, const Widths&)>& body) {
  const auto run = [&](const std::vector<int>& n, const Widths& s, const std::vector<DType>& dtypes) {
    compare(
        [&](Place& place, DType t) {
          Uploaded u(n);
          return body(place, t, u, s);
        },
        Same::tolerance, dtypes);
  };
  // Few rows in a group, so that tiles are low.
  for (const auto& s : widths) run({3, 0, 40, 1, 0}, s, {DType::f32, DType::bf16, DType::f16});
  run({3, 0, 40, 1, 0}, widths[5], {DType::f64});
  // Many rows, in several tiles.
  run({130, 0}, widths[0], {DType::bf16});
  run({130, 0}, widths[1], {DType::bf16});
  run({130, 0}, widths[4], {DType::f32, DType::bf16, DType::f16});
  // More groups than a warp has lanes, and groups without rows.
  run(std::vector<int>(40, 2), {16, 24, 8, 1}, {DType::f32, DType::bf16, DType::f16});
  run({0, 0}, {16, 24, 8, 1}, {DType::f32, DType::bf16, DType::f16});
  // Groups that are left alone.
  run({-1, 3, -1, 0, 40, -1}, {16, 24, 8, 1}, {DType::f32, DType::bf16, DType::f64, DType::f16});
  run({-1, 3}, widths[4], {DType::f32, DType::bf16, DType::f16});
}

// Replaces NaN, which marks what was not written on either side, by 2, so that it is compared.
MatrixBuffer with_untouched(MatrixBuffer m) {
  for (std::int64_t i = 0; i < m.rows; ++i)
    for (std::int64_t j = 0; j < m.cols; ++j)
      if (std::isnan(m(i, j))) m.set(i, j, 2);
  return m;
}

TEST(GpuGrouped, Forward) {
  compare_everywhere([](Place& place, DType t, Uploaded& u, const Widths& s) {
    const auto& groups = u.groups;
    MatrixBuffer x(t, groups.rows, s.in, s.gap), y(t, groups.rows, s.out, 5), wide(accumulation(t), groups.rows, s.out);
    auto w = gpu_stack(t, groups, s.out, s.in, s.gap), b = gpu_stack(t, groups, 1, s.out, 1);
    groups.fill(x, 1), w.fill(2, groups.count()), b.fill(3, groups.count());
    const auto ranges = u(place);
    const auto vx = place(x);
    const auto vw = w.all(place(w.memory)), vb = b.all(place(b.memory));
    kernels::grouped_linear_forward(
        place.exec(), {.groups = ranges, .x = vx, .weight = vw, .bias = vb, .lanes = s.lanes, .y = place(y)});
    // For f32 and f64 this would be the same call again.
    if (base::is_narrow(t))
      kernels::grouped_linear_forward(place.exec(),
                                      {.groups = ranges, .x = vx, .weight = vw, .lanes = s.lanes, .y = place(wide)});
    place.fetch();
    return Outputs{with_untouched(y), with_untouched(wide)};
  });
}

TEST(GpuGrouped, InputGradient) {
  compare_everywhere([](Place& place, DType t, Uploaded& u, const Widths& s) {
    const auto& groups = u.groups;
    MatrixBuffer dy(t, groups.rows, 2 * s.in, 2 * s.gap), dx(t, groups.rows, s.out, 5),
        wide(accumulation(t), groups.rows, s.out);
    auto w = gpu_stack(t, groups, s.in, s.out, s.gap), v = gpu_stack(t, groups, s.in, s.out, s.gap);
    groups.fill(dy, 1), w.fill(2, groups.count()), v.fill(3, groups.count());
    const auto ranges = u(place);
    const auto vdy = place(dy);
    const kernels::GroupedPart both[] = {{vdy.columns(0, s.in), w.all(place(w.memory))},
                                         {vdy.columns(s.in, s.in), v.all(place(v.memory))}};
    kernels::grouped_linear_backward_input(place.exec(), ranges, both, s.lanes, place(dx));
    if (base::is_narrow(t))
      kernels::grouped_linear_backward_input(place.exec(), ranges, {both, 1}, s.lanes, place(wide));
    place.fetch();
    return Outputs{with_untouched(dx), with_untouched(wide)};
  });
}

TEST(GpuGrouped, WeightGradient) {
  compare_everywhere([](Place& place, DType t, Uploaded& u, const Widths& s) {
    const auto& groups = u.groups;
    MatrixBuffer dy(t, groups.rows, s.out + s.gap, 8), x(t, groups.rows, s.in, s.gap);
    auto dw = gpu_stack(accumulation(t), groups, s.out, s.in, s.gap, groups.count());
    auto db = gpu_stack(accumulation(t), groups, 1, s.out, 1, groups.count());
    groups.fill(dy, 1), groups.fill(x, 2);
    const auto ranges = u(place);
    const auto vdy = place(dy), vx = place(x);
    const auto vdb = db.all(place(db.memory));
    kernels::grouped_linear_backward_weight(place.exec(), ranges, vdy.columns(s.gap, s.out), vx,
                                            dw.all(place(dw.memory)), vdb);
    place.fetch();
    return Outputs{with_untouched(dw.memory), with_untouched(db.memory)};
  });
}

// Bias gradients are added as the CPU adds them.
TEST(GpuGrouped, BiasGradientHasTheBitsOfTheCpu) {
  compare(
      [](Place& place, DType t) {
        Uploaded u({70, 0, 1, 300});
        MatrixBuffer dy(t, u.groups.rows, 21, 3), x(t, u.groups.rows, 5);
        u.groups.fill(dy, 1), u.groups.fill(x, 2);
        const auto g = u.groups.count();
        auto dw = gpu_stack(accumulation(t), u.groups, 21, 5, 0, g),
             db = gpu_stack(accumulation(t), u.groups, 1, 21, 0, g);
        const auto ranges = u(place);
        const auto vdy = place(dy), vx = place(x);
        kernels::grouped_linear_backward_weight(place.exec(), ranges, vdy, vx, dw.all(place(dw.memory)),
                                                db.all(place(db.memory)));
        place.fetch();
        return Outputs{db.memory};
      },
      Same::bits, all);
}

TEST(GpuGrouped, ScratchIsAsPlanned) {
  for (auto t : all)
    for (const std::int64_t lanes : {1, 2, 3, 8}) {
      Place place(Place::Kind::gpu);
      Uploaded u({7, 0, 90});
      MatrixBuffer x(t, u.groups.rows, 96), y(t, u.groups.rows, 40), dx(t, u.groups.rows, 96);
      auto w = gpu_stack(t, u.groups, 40, 96, 8),
           dw = gpu_stack(accumulation(t), u.groups, 40, 96, 0, u.groups.count());
      const auto ranges = u(place);
      kernels::grouped_linear_forward(
          place.exec(),
          {.groups = ranges, .x = place(x), .weight = w.all(place(w.memory)), .lanes = lanes, .y = place(y)});
      place.exec().synchronize();
      EXPECT_EQ(place.exec().scratch().peak_bytes(),
                plan::gpu_grouped_linear_scratch_bytes(u.groups.rows, 40, lanes, base::size_of(accumulation(t))));
      kernels::grouped_linear_backward_weight(place.exec(), ranges, place(y), place(x), dw.all(place(dw.memory)), {});
      place.exec().synchronize();
    }
}

}  // namespace
}  // namespace trainyard::test

int main(int argc, char** argv) { return trainyard::testing::run_on_gpu(argc, argv); }
