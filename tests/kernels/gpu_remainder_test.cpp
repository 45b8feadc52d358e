// Compares the GPU's kernels on masters of working copy and remainder with the CPU's, bit by bit.
#include "kernels/even_load/even_load.h"
#include "tests/gpu_main.h"
#include "tests/kernels/gpu_place.h"
#include "tests/kernels/remainder_case.h"

#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

namespace trainyard::test {
namespace {

// A part of the elements begins inside of a byte of marks, which its neighbours keep.
constexpr auto shapes = {std::pair<std::int64_t, std::int64_t>{1000, 0}, {1000, 16}, {1003, 3}, {5, 2}, {1, 7}};

struct PlacedSplit {
  SplitWeights split;
  base::View working;
  kernels::Remainder remainder;
  PlacedSplit(Place& place, std::int64_t n, std::int64_t first) : split(n, first) {
    working = place(split.working, {n}), working.dtype = DType::bf16;
    remainder = {place(split.low, {std::ssize(split.low)}), place(split.marks, {std::ssize(split.marks)}), first};
  }
};
using Result = std::tuple<std::vector<std::uint16_t>, std::vector<std::uint16_t>, std::vector<std::uint8_t>, Bits,
                          std::vector<char>, std::vector<char>>;

// NaNs have one working copy on a GPU, and are tested alone.
bool is_a_number(std::uint32_t bits) { return (bits & 0x7fffffffu) <= 0x7f800000u; }

Bits numbers_alone(Bits bits) {
  for (auto& b : bits)
    if (!is_a_number(b)) b &= 0xff800000u;
  return bits;
}

void expect_on_both(const std::function<Result(Place&)>& run) {
  Place host(Place::Kind::host), gpu(Place::Kind::gpu);
  EXPECT_TRUE(run(gpu) == run(host));
}

}  // namespace

TEST(GpuRemainder, SplitAndJoinedAsOnTheCpu) {
  for (const auto& [n, first] : shapes)
    expect_on_both([n = n, first = first](Place& place) -> Result {
      const auto bits = numbers_alone(masters(n, false));
      auto master = floats(bits);
      std::vector<float> back(master.size(), 7);
      PlacedSplit parts(place, n, first);
      kernels::split_master(place.exec(), place(master, {n}), parts.working, parts.remainder);
      kernels::join_master(place.exec(), parts.working, parts.remainder, place(back, {n}));
      place.fetch();
      EXPECT_TRUE(bits_of(back) == bits);
      EXPECT_TRUE(parts.split.rest_is_untouched());
      return {parts.split.working, parts.split.low, parts.split.marks, bits_of(back), {}, {}};
    });
}

TEST(GpuRemainder, NaNsStay) {
  Place place(Place::Kind::gpu);
  std::vector<float> master, back;
  for (const auto b : masters(1000, false))
    if (!is_a_number(b)) master.push_back(std::bit_cast<float>(b));
  const auto n = std::ssize(master);
  ASSERT_GT(n, 10);
  back.assign(master.size(), 7);
  PlacedSplit parts(place, n, 0);
  kernels::split_master(place.exec(), place(master, {n}), parts.working, parts.remainder);
  kernels::join_master(place.exec(), parts.working, parts.remainder, place(back, {n}));
  place.fetch();
  for (const auto v : back) EXPECT_TRUE(std::isnan(v));
}

TEST(GpuRemainder, UpdatesHaveTheBitsOfTheCpu) {
  for (const int finite : {1, 0})
    for (const auto dtype : {DType::f32, DType::bf16})
      for (std::size_t r = 0; r < rules_of_elements(nullptr).size(); ++r)
        for (const auto& [n, first] : shapes)
          expect_on_both([=, n = n, first = first](Place& place) -> Result {
            std::vector<kernels::StepNumbers> numbers(1);
            numbers[0].gradient_scale = 0.37f, numbers[0].finite = finite;
            const auto [rule, states] = rules_of_elements(place.raw(numbers))[r];
            auto master = floats(masters(n, true));
            std::vector<float> back(master.size(), 7);
            PlacedSplit parts(place, n, first);
            std::vector<MatrixBuffer> state;
            for (std::size_t s = 0; s < states; ++s) {
              state.emplace_back(dtype, 1, n).fill(s + 3);
              for (std::int64_t i = 0; i < n; ++i) state[s].set(0, i, std::abs(state[s](0, i)));
            }
            MatrixBuffer gradient(DType::f32, 1, n);
            gradient.fill(2);
            const std::vector<kernels::Range> decayed{{0, n / 5}, {n / 3, n / 2}, {n - 1, n}};
            kernels::Update u{.rule = rule, .gradient = place(gradient), .working = parts.working, .decayed = decayed};
            u.remainder = parts.remainder;
            for (std::size_t s = 0; s < states; ++s) u.states[s] = place(state[s]);
            kernels::split_master(place.exec(), place(master, {n}), parts.working, parts.remainder);
            for (int step = 0; step < 2; ++step) kernels::update(place.exec(), u);
            kernels::join_master(place.exec(), parts.working, parts.remainder, place(back, {n}));
            place.fetch();
            EXPECT_EQ(bits_of(back) == bits_of(master), finite == 0);
            EXPECT_TRUE(parts.split.rest_is_untouched());
            return {parts.split.working,
                    parts.split.low,
                    parts.split.marks,
                    bits_of(back),
                    states > 0 ? state[0].bytes : std::vector<char>(),
                    states > 1 ? state[1].bytes : std::vector<char>()};
          });
}

TEST(GpuRemainder, BiasesMoveAsOnTheCpu) {
  for (const auto& [n, first] : shapes)
    expect_on_both([n = n, first = first](Place& place) -> Result {
      auto master = floats(masters(n, true));
      std::vector<float> loads, back(master.size(), 7);
      for (std::int64_t i = 0; i < n; ++i) loads.push_back(static_cast<float>(i % 11));
      PlacedSplit parts(place, n, first);
      kernels::split_master(place.exec(), place(master, {n}), parts.working, parts.remainder);
      kernels::even_load_update(place.exec(), {parts.working, parts.remainder}, place(loads, {n}), 5, 0x1.8p-7f,
                                nullptr);
      kernels::join_master(place.exec(), parts.working, parts.remainder, place(back, {n}));
      place.fetch();
      EXPECT_FALSE(bits_of(back) == bits_of(master));
      return {parts.split.working, parts.split.low, parts.split.marks, bits_of(back), {}, {}};
    });
}

}  // namespace trainyard::test

int main(int argc, char** argv) { return trainyard::testing::run_on_gpu(argc, argv); }
