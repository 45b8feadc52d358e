// Compares the parts around a gate with scalar replays: the mix with a part beside the experts, records of gates,
// biases that move towards an even load, groups in slots.
#include "kernels/even_load/even_load.h"
#include "kernels/expert_mix/expert_mix.h"
#include "kernels/expert_rounds/expert_rounds.h"
#include "kernels/gate_record/gate_record.h"
#include "kernels/slot_groups/slot_groups.h"
#include "tests/kernels/sweep.h"

#include <cmath>
#include <limits>

namespace trainyard::test {
namespace expert_parts_test {

TEST(ExpertMix, WeighsByASoftmaxOfTwoAndItsGradientsAreItsDerivatives) {
  for (std::int64_t h : {1, 7, 64, 300})
    sweep(
        [&](tensor::Exec& exec, DType t) {
          const auto g = accumulation(t);
          MatrixBuffer logits(g, 9, 2, 1), a(t, 9, h, 2), b(t, 9, h, 1), out(t, 9, h, 1), dout(t, 9, h, 3),
              d_logits(g, 9, 2, 1), da(t, 9, h, 1), db(t, 9, h, 2);
          logits.fill(1), a.fill(2), b.fill(3), dout.fill(4);
          kernels::expert_mix(exec, logits.view(), a.view(), b.view(), out.view());
          kernels::expert_mix_backward(exec, {.logits = logits.view(),
                                              .a = a.view(),
                                              .b = b.view(),
                                              .dout = dout.view(),
                                              .d_logits = d_logits.view(),
                                              .da = da.view(),
                                              .db = db.view()});
          // In place: the gradients overwrite what was mixed.
          MatrixBuffer d_again(g, 9, 2, 1);
          kernels::expert_mix_backward(exec, {.logits = logits.view(),
                                              .a = a.view(),
                                              .b = b.view(),
                                              .dout = dout.view(),
                                              .d_logits = d_again.view(),
                                              .da = a.view(),
                                              .db = b.view()});
          EXPECT_EQ(d_again.bytes, d_logits.bytes);
          for (std::int64_t r = 0; r < 9; ++r)
            for (std::int64_t c = 0; c < h; ++c) {
              EXPECT_EQ(a(r, c), da(r, c));
              EXPECT_EQ(b(r, c), db(r, c));
            }
          return std::vector{out, d_logits, da, db};
        },
        [&](DType t, const std::vector<MatrixBuffer>& out) {
          const auto g = accumulation(t);
          MatrixBuffer logits(g, 9, 2), a(t, 9, h), b(t, 9, h), dout(t, 9, h);
          logits.fill(1), a.fill(2), b.fill(3), dout.fill(4);
          for (std::int64_t r = 0; r < 9; ++r) {
            const double x = std::exp(logits(r, 0)), y = std::exp(logits(r, 1)), c0 = x / (x + y), c1 = y / (x + y);
            double of_a = 0, of_b = 0, size = 0;
            for (std::int64_t c = 0; c < h; ++c) {
              ASSERT_TRUE(near(t, out[0](r, c), c0 * a(r, c) + c1 * b(r, c), std::abs(a(r, c)) + std::abs(b(r, c))));
              ASSERT_TRUE(near(t, out[2](r, c), c0 * dout(r, c), std::abs(dout(r, c))));
              ASSERT_TRUE(near(t, out[3](r, c), c1 * dout(r, c), std::abs(dout(r, c))));
              of_a += dout(r, c) * a(r, c), of_b += dout(r, c) * b(r, c);
              size += std::abs(dout(r, c)) * (std::abs(a(r, c)) + std::abs(b(r, c)));
            }
            ASSERT_TRUE(near(g, out[1](r, 0), c0 * c1 * (of_a - of_b), size));
            ASSERT_EQ(out[1](r, 1), -out[1](r, 0));
          }
        });
}

TEST(GateRecord, AddsWholeNumbers) {
  const auto exec = tensor::Exec::caller(nullptr, 1);
  std::vector<std::int32_t> groups{0, 3, 3, 0, 3, 5}, loads{4, 0, 5, 9, 9, 9};
  std::vector<double> losses{1.25, 0.5, 1.0 / 3}, targets{40};
  std::vector<std::int64_t> record(kernels::gate_record_sums + 4, 100);
  const auto add = [&] {
    kernels::gate_record(*exec, base::View::of(groups.data(), {3, 2}), base::View::of(loads.data(), {2, 3}),
                         base::View::of(losses.data(), {3}), targets.data(),
                         base::View::of(record.data(), {static_cast<std::int64_t>(record.size())}));
  };
  add();
  const auto third = std::llround(40.0 / 3 * (1 << 20));
  const std::int64_t unit = 1 << 20;
  EXPECT_EQ(record,
            (std::vector<std::int64_t>{108, 100 + 50 * unit, 100 + 20 * unit, 100 + third, 140, 104, 100, 105, 100}));
  losses[1] = std::numeric_limits<double>::quiet_NaN(), losses[2] = std::numeric_limits<double>::infinity();
  add();
  EXPECT_EQ(record,
            (std::vector<std::int64_t>{116, 100 + 100 * unit, 100 + 20 * unit, 100 + third, 180, 108, 100, 110, 100}));
}

TEST(GateRecord, LoadsAreNumbers) {
  const auto exec = tensor::Exec::caller(nullptr, 1);
  std::vector<std::int32_t> loads{4, 0, 1 << 23, 9, 9, 9};
  std::vector<float> narrow(3, -1);
  std::vector<double> wide(3, -1);
  kernels::gate_loads(*exec, base::View::of(loads.data(), {2, 3}), base::View::of(narrow.data(), {3}));
  kernels::gate_loads(*exec, base::View::of(loads.data(), {2, 3}), base::View::of(wide.data(), {3}));
  EXPECT_EQ(narrow, (std::vector<float>{4, 0, 8388608}));
  EXPECT_EQ(wide, (std::vector<double>{4, 0, 8388608}));
}

TEST(EvenLoad, MovesByTheRateTowardsTheMean) {
  const auto exec = tensor::Exec::caller(nullptr, 1);
  std::vector<float> bias{0.5f, 0.5f, 0.5f, -1.0f}, loads{3, 5, 4, 0};
  const auto move = [&](double mean, const kernels::StepNumbers* numbers) {
    kernels::even_load_update(*exec, base::View::of(bias.data(), {4}), base::View::of(loads.data(), {4}), mean, 0.125f,
                              numbers);
  };
  move(4, nullptr);
  EXPECT_EQ(bias, (std::vector<float>{0.625f, 0.375f, 0.5f, -0.875f}));
  kernels::StepNumbers numbers;
  numbers.finite = 0;
  move(4, &numbers);
  EXPECT_EQ(bias, (std::vector<float>{0.625f, 0.375f, 0.5f, -0.875f}));
  numbers.finite = 1;
  move(4.5, &numbers);
  EXPECT_EQ(bias, (std::vector<float>{0.75f, 0.25f, 0.625f, -0.75f}));
}

TEST(SlotGroups, BeginWhereTheirSlotsDo) {
  const auto exec = tensor::Exec::caller(nullptr, 1);
  std::vector<std::int32_t> groups{70, 3, 80, 0, 90, 5};
  kernels::slot_groups(*exec, base::View::of(groups.data(), {3, 2}), 6);
  EXPECT_EQ(groups, (std::vector<std::int32_t>{0, 3, 6, 0, 12, 5}));
}

// Six groups for two destinations, five rows at most. The first one gets 3 and 2, then 4; the second 0 and 5, then 1.
TEST(ExpertRounds, GroupsGoWholeInTheirOrder) {
  std::vector<std::int32_t> groups{0, 3, 3, 2, 5, 4, 9, 0, 9, 5, 14, 1}, places(12, -7), rounds(1, -7);
  std::vector<std::int32_t> sources(18);
  for (std::size_t i = 0; i < 18; ++i) sources[i] = i < 15 ? static_cast<std::int32_t>(100 + i) : -1;
  const auto exec = tensor::Exec::caller(nullptr, 1);
  const auto vg = base::View::of(groups.data(), {6, 2}), vp = base::View::of(places.data(), {6, 2});
  kernels::expert_rounds(*exec, vg, 2, 5, vp, base::View::of(rounds.data(), {1}));
  EXPECT_EQ(places, (std::vector<std::int32_t>{0, 0, 0, 3, 1, 0, 0, 0, 0, 0, 1, 0}));
  EXPECT_EQ(rounds[0], 2);
  std::vector<std::int32_t> sent(12, -7), tokens(10, -7), here(10, -7), back(18, -7);
  const kernels::RoundRows rows{base::View::of(sent.data(), {6, 2}), base::View::of(tokens.data(), {10}),
                                base::View::of(here.data(), {10}), base::View::of(back.data(), {18})};
  const auto lay_out = [&](std::int64_t round) {
    kernels::expert_round(*exec, {2, 5, 1, round}, vg, vp, base::View::of(sources.data(), {18}), rows);
  };
  using Numbers = std::vector<std::int32_t>;
  lay_out(0);
  EXPECT_EQ(sent, (Numbers{5, 3, 8, 2, 0, -1, 5, 0, 5, 5, 0, -1}));
  EXPECT_EQ(here, (Numbers{0, 1, 2, 3, 4, 9, 10, 11, 12, 13}));
  EXPECT_EQ(tokens, (Numbers{100, 101, 102, 103, 104, 109, 110, 111, 112, 113}));
  EXPECT_EQ(back, (Numbers{0, 1, 2, 3, 4, -1, -1, -1, -1, 5, 6, 7, 8, 9, -1, -1, -1, -1}));
  lay_out(1);
  EXPECT_EQ(sent, (Numbers{0, -1, 0, -1, 5, 4, 0, -1, 0, -1, 5, 1}));
  EXPECT_EQ(here, (Numbers{5, 6, 7, 8, -1, 14, -1, -1, -1, -1}));
  EXPECT_EQ(tokens, (Numbers{105, 106, 107, 108, -1, 114, -1, -1, -1, -1}));
  EXPECT_EQ(back, (Numbers{-1, -1, -1, -1, -1, 0, 1, 2, 3, -1, -1, -1, -1, -1, 5, -1, -1, -1}));
  lay_out(2);  // a round of other ranks
  EXPECT_EQ(sent, (Numbers{0, -1, 0, -1, 0, -1, 0, -1, 0, -1, 0, -1}));
  EXPECT_EQ(back, Numbers(18, -1));
}

// Without rows there is one round, which contains every group.
TEST(ExpertRounds, NoRowsTakeOneRound) {
  std::vector<std::int32_t> groups(8, 0), places(8, -7), rounds(1, -7);
  const auto exec = tensor::Exec::caller(nullptr, 1);
  kernels::expert_rounds(*exec, base::View::of(groups.data(), {4, 2}), 2, 3, base::View::of(places.data(), {4, 2}),
                         base::View::of(rounds.data(), {1}));
  EXPECT_EQ(places, std::vector<std::int32_t>(8, 0));
  EXPECT_EQ(rounds[0], 1);
}

}  // namespace expert_parts_test
}  // namespace trainyard::test
