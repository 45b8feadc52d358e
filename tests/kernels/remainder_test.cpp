// A master weight as working copy and remainder: every f32 comes back, and updates have the bits of those with an f32
// master.
#include "kernels/even_load/even_load.h"
#include "tests/kernels/matrix_buffer.h"
#include "tests/kernels/operand_types.h"
#include "tests/kernels/remainder_case.h"
#include "tests/night.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace trainyard::test {
namespace remainder_test {

// A tie that is rounded down, or a signalling NaN.
bool has_mark(std::uint32_t bits) {
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return nan ? (bits & 0x400000u) == 0 : (bits & 0x1ffffu) == 0x8000u;
}

void expect_same(const Bits& got, const Bits& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  const auto [at, other] = std::mismatch(got.begin(), got.end(), want.begin());
  if (at != got.end())
    FAIL() << what << ": element " << at - got.begin() << " of " << got.size() << " is " << std::hex << *at << ", not "
           << *other;
}

// Splits and joins, and compares both with what the definition says.
void expect_round_trip(tensor::Exec& exec, const Bits& bits, std::int64_t first = 0) {
  const auto n = std::ssize(bits);
  SplitWeights split(n, first);
  const auto master = floats(bits);
  std::vector<float> back(master.size(), 7);
  kernels::split_master(exec, base::View::of(master.data(), {n}), split.working_view(), split.remainder());
  kernels::join_master(exec, split.working_view(), split.remainder(), base::View::of(back.data(), {n}));
  expect_same(bits_of(back), bits, "joined");
  EXPECT_TRUE(split.rest_is_untouched()) << n << " elements from " << first;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool same = split.working[at] == base::bf16::narrow(master[at]) && split.mark(i) == has_mark(bits[at]) &&
                      split.low[static_cast<std::size_t>(first) + at] == (bits[at] & 0xffffu);
    if (same) continue;  // an assertion takes long, and there are many elements
    ASSERT_EQ(split.working[at], base::bf16::narrow(master[at])) << std::hex << bits[at];
    ASSERT_EQ(split.low[static_cast<std::size_t>(first) + at], bits[at] & 0xffffu) << std::hex << bits[at];
    ASSERT_EQ(split.mark(i), has_mark(bits[at])) << std::hex << bits[at];
  }
}

// An update with an f32 master, and the same with a remainder.
class TwoUpdates {
 public:
  TwoUpdates(std::int64_t n, std::int64_t first, std::size_t states, DType dtype, bool finite)
      : n_(n), master_(floats(masters(n, finite))), working_(DType::bf16, 1, n), split_(n, first), states_(states) {
    Bench bench(1);
    kernels::split_master(*bench, base::View::of(master_.data(), {n}), split_.working_view(), split_.remainder());
    for (std::size_t s = 0; s < states; ++s)
      for (auto* all : {&of_f32_, &of_split_}) {
        auto& state = all->emplace_back(dtype, 1, n);
        for (std::int64_t i = 0; i < n; ++i) state.set(0, i, i % 5 == 0 ? 0 : 1e-3 * static_cast<double>(i % 7));
      }
  }

  void step(const kernels::UpdateRule& rule, int threads, std::uint64_t seed) {
    Bench bench(threads);
    MatrixBuffer gradient(DType::f32, 1, n_);
    gradient.fill(seed);
    for (std::int64_t i = 0; i < n_; i += 5) gradient.set(0, i, 0);  // these stay as they are where nothing decays
    const std::vector<kernels::Range> decayed{{0, n_ / 3}, {n_ / 2, n_}};
    kernels::Update u{.rule = rule,
                      .gradient = gradient.view(),
                      .parameter = base::View::of(master_.data(), {n_}),
                      .working = working_.view(),
                      .decayed = decayed};
    for (std::size_t s = 0; s < states_; ++s) u.states[s] = of_f32_[s].view();
    kernels::update(*bench, u);
    u.parameter = {}, u.working = split_.working_view(), u.remainder = split_.remainder();
    for (std::size_t s = 0; s < states_; ++s) u.states[s] = of_split_[s].view();
    kernels::update(*bench, u);
  }
  Bits joined() {
    Bench bench(1);
    std::vector<float> out(static_cast<std::size_t>(n_));
    kernels::join_master(*bench, split_.working_view(), split_.remainder(), base::View::of(out.data(), {n_}));
    return bits_of(out);
  }
  Bits master() const { return bits_of(master_); }
  void expect_equal(bool has_working) {
    expect_same(joined(), master(), "master");
    EXPECT_TRUE(split_.rest_is_untouched());
    for (std::size_t s = 0; s < states_; ++s) EXPECT_EQ(of_split_[s].bytes, of_f32_[s].bytes) << "state " << s;
    if (!has_working) return;
    EXPECT_EQ(std::memcmp(split_.working.data(), working_.bytes.data(), working_.bytes.size()), 0);
  }
  std::int64_t marks() const {
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < n_; ++i) count += split_.mark(i);
    return count;
  }

 private:
  std::int64_t n_;
  std::vector<float> master_;
  MatrixBuffer working_;
  SplitWeights split_;
  std::size_t states_;
  std::vector<MatrixBuffer> of_f32_, of_split_;
};

// At night all of f32.
TEST(Remainder, EveryF32ComesBack) {
  on_every_path([] {
    Bench bench(2);
    Bits bits(1 << 16);
    for (const auto upper : special_upper_halves()) {
      std::iota(bits.begin(), bits.end(), upper << 16);
      expect_round_trip(*bench, bits);
      if (::testing::Test::HasFailure()) return;
    }
  });
  if (!testing::at_night()) return;
  Bench bench(2);
  constexpr std::int64_t n = 1 << 16;
  SplitWeights split(n);
  std::vector<float> master(n), back(n);
  for (std::uint32_t upper = 0; upper < 1 << 16; ++upper) {
    for (std::uint32_t low = 0; low < 1 << 16; ++low) master[low] = std::bit_cast<float>(upper << 16 | low);
    kernels::split_master(*bench, base::View::of(master.data(), {n}), split.working_view(), split.remainder());
    kernels::join_master(*bench, split.working_view(), split.remainder(), base::View::of(back.data(), {n}));
    ASSERT_EQ(std::memcmp(back.data(), master.data(), 4 * n), 0) << std::hex << upper;
    for (std::size_t i = 0; i < n; ++i)
      if (split.working[i] != base::bf16::narrow(master[i])) FAIL() << std::hex << upper << " " << i;
  }
}

TEST(Remainder, NeighboursInAByteOfMarksStay) {
  on_every_path([] {
    for (std::int64_t first = 0; first < 10; ++first)
      for (const std::int64_t n : {0, 1, 2, 7, 8, 9, 15, 16, 17, 40, 1030, 8192 * 3 + 5})
        for (const int threads : {1, 3}) {
          Bench bench(threads);
          expect_round_trip(*bench, masters(n, false), first);
        }
  });
}

TEST(Remainder, UpdatesHaveTheBitsOfAnF32Master) {
  kernels::StepNumbers numbers;
  numbers.gradient_scale = 0.37f;
  on_every_path([&] {
    for (const auto& [rule, states] : rules_of_elements(&numbers))
      for (const auto dtype : {DType::f32, DType::bf16})
        for (const auto& [n, first] : {std::pair<std::int64_t, std::int64_t>{17, 0}, {1024, 3}, {8192 * 3 + 5, 5}}) {
          TwoUpdates both(n, first, states, dtype, true);
          for (int step = 0; step < 6; ++step) {
            numbers.finite = step != 3;
            const auto before = both.master();
            both.step(rule, step % 2 == 0 ? 3 : 1, static_cast<std::uint64_t>(step) + 2);
            both.expect_equal(step > 0);
            EXPECT_EQ(both.master() == before, step == 3);
            if (::testing::Test::HasFailure()) return;
          }
          EXPECT_TRUE(n < 100 || both.marks() > n / 1000) << both.marks() << " ties";
        }
  });
}

// Infinities and NaNs, too, which are the same where the first operand decides which NaN comes out.
TEST(Remainder, UpdatesKeepWhatIsNotFinite) {
  kernels::Sgd sgd;
  sgd.learning_rate = 0.5f, sgd.momentum = 0;
  TwoUpdates both(4000, 1, 1, DType::f32, false);
  for (int step = 0; step < 3; ++step) {
    both.step(sgd, 1, static_cast<std::uint64_t>(step) + 2);
    both.expect_equal(true);
  }
}

TEST(Remainder, BiasesMoveAsInF32) {
  Bench bench(1);
  auto bias = floats(masters(300, true));
  SplitWeights split(300, 3);
  std::vector<float> loads, back(300);
  for (int i = 0; i < 300; ++i) loads.push_back(static_cast<float>(i % 11));
  const auto f32 = base::View::of(bias.data(), {300}), load = base::View::of(loads.data(), {300});
  kernels::split_master(*bench, f32, split.working_view(), split.remainder());
  for (int step = 0; step < 5; ++step) {
    kernels::even_load_update(*bench, f32, load, 5, 0x1.8p-7f, nullptr);
    kernels::even_load_update(*bench, {split.working_view(), split.remainder()}, load, 5, 0x1.8p-7f, nullptr);
    kernels::join_master(*bench, split.working_view(), split.remainder(), base::View::of(back.data(), {300}));
    expect_same(bits_of(back), bits_of(bias), "biases");
    for (std::size_t i = 0; i < 300; ++i) ASSERT_EQ(split.working[i], base::bf16::narrow(bias[i]));
  }
  EXPECT_TRUE(split.rest_is_untouched());
}

TEST(Remainder, Types) {
  const auto f = DType::f32;
  const std::vector<Operand> parts{
      {"working", {16}, DType::bf16}, {"low", {16}, DType::u16}, {"marks", {16}, DType::u8}};
  const auto with = [&](std::vector<Operand> first) {
    first.insert(first.begin(), parts.begin(), parts.end());
    return first;
  };
  expect_types("join_master", with({{"master", {16}, f}}), [](auto& e, const auto& v) {
    kernels::join_master(e, v[0], {v[1], v[2]}, v[3]);
  });
  expect_types("split_master", with({{"master", {16}, f}}), [](auto& e, const auto& v) {
    kernels::split_master(e, v[3], v[0], {v[1], v[2]});
  });
  expect_types("update", with({{"gradient", {16}, f}, {"m", {16}, f, {DType::bf16}}}), [](auto& e, const auto& v) {
    kernels::update(
        e, {.rule = kernels::Lion{}, .gradient = v[3], .states = {v[4]}, .working = v[0], .remainder = {v[1], v[2]}});
  });
  expect_types("even_load_update", with({{"loads", {16}, f}}), [](auto& e, const auto& v) {
    kernels::even_load_update(e, {v[0], {v[1], v[2]}}, v[3], 1, 1, nullptr);
  });
}

TEST(Remainder, WhatDoesNotFitIsRefused) {
  Bench bench(1);
  SplitWeights split(16);
  std::vector<float> f32(16, 1);
  const auto view = base::View::of(f32.data(), {16});
  auto short_of_marks = split.remainder();
  short_of_marks.marks = short_of_marks.marks.elements(0, 1);
  EXPECT_THROW(kernels::split_master(*bench, view, split.working_view(), short_of_marks), std::logic_error);
  EXPECT_THROW(kernels::split_master(*bench, view, split.working_view(), split.remainder().from(12)), std::logic_error);
  EXPECT_THROW(kernels::update(*bench, {.rule = kernels::Muon{},
                                        .gradient = view,
                                        .parameter = view,
                                        .working = split.working_view(),
                                        .remainder = split.remainder()}),
               std::logic_error);
  EXPECT_THROW(kernels::update(*bench, {.rule = kernels::Muon{}, .gradient = view, .remainder = split.remainder()}),
               std::logic_error);
}

}  // namespace remainder_test
}  // namespace trainyard::test
