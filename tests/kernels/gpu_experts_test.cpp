// Compares gates and rows of experts on a GPU with the CPU: equal integers, copies and sums bit for bit, the rest
// within a tolerance. Scratch is as planned.
#include "kernels/even_load/even_load.h"
#include "kernels/expert_mix/expert_mix.h"
#include "kernels/expert_rounds/expert_rounds.h"
#include "kernels/expert_rows/expert_rows.h"
#include "kernels/gate_record/gate_record.h"
#include "kernels/slot_groups/slot_groups.h"
#include "libtrain/plan/blocks/expert_scratch.h"
#include "tests/gpu_main.h"
#include "tests/kernels/gate_case.h"
#include "tests/kernels/gpu_compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

namespace trainyard::test {
namespace {

// Forward and backward in both places.
void compare_gates(GateCase c) {
  auto here = c, there = std::move(c);
  Host host(2);
  Place gpu(Place::Kind::gpu);
  here.forward(host), there.forward(gpu);
  ASSERT_EQ(there.chosen, here.chosen);
  ASSERT_EQ(there.loads, here.loads);
  ASSERT_EQ(there.groups, here.groups);
  ASSERT_EQ(there.rows, here.rows);
  ASSERT_EQ(there.sources, here.sources);
  for (std::size_t i = 0; i < 3; ++i) ASSERT_NEAR(there.losses[i], here.losses[i], 1e-11) << "loss " << i;
  here.scale.balance = there.scale.balance = 0.01, here.scale.z = there.scale.z = 0.003;
  here.fill_slopes(3), there.fill_slopes(3);
  here.backward(host), there.backward(gpu);
  ASSERT_TRUE(there.d_logits.gap_untouched());
  const double bound = here.t == DType::f64 ? 1e-13 : 2e-7;
  for (std::int64_t s = 0; s < here.tokens; ++s) {
    for (std::int64_t j = 0; j < here.k; ++j)
      ASSERT_NEAR(there.weights(s, j), here.weights(s, j), bound) << "token " << s << " choice " << j;
    for (std::int64_t e = 0; e < here.experts; ++e)
      ASSERT_NEAR(there.d_logits(s, e), here.d_logits(s, e), bound * (1 + std::abs(here.d_logits(s, e))))
          << "token " << s << " expert " << e;
  }
}

TEST(GpuExperts, GatesOfEveryKind) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE("case " + std::to_string(seed));
    compare_gates(random_gate(seed, seed % 2 == 0 ? DType::f32 : DType::f64, 40));
    if (::testing::Test::HasFailure()) return;
  }
}

// More experts than a block has threads, more tokens of an expert than threads, several blocks of tokens.
TEST(GpuExperts, GatesOfManyExpertsAndTokens) {
  using plan::Overflow;
  struct Shape {
    std::int64_t tokens, experts, k;
    std::vector<Overflow> rules;
  };
  const Shape shapes[] = {{70, 270, 2, {Overflow::random}},
                          {700, 2, 1, {Overflow::probability}},
                          {600, 3, 2, {Overflow::random, Overflow::position}}};
  for (const auto& [tokens, experts, k, rules] : shapes)
    for (auto rule : rules) {
      SCOPED_TRACE(fmt::format("{} tokens, {} experts, rule {}", tokens, experts, static_cast<int>(rule)));
      kernels::Gate g;
      g.capacity = (k * tokens + experts - 1) / experts, g.overflow = rule, g.noise = plan::GateNoise::gumbel;
      g.slot_rows = rule == Overflow::position ? g.capacity + 1 : 0, g.overflow_site = 1, g.noise_site = 2;
      GateCase c(DType::f32, tokens, experts, k, g, 2);
      c.samples_in_sequences_of(10);
      compare_gates(c.fill(4));
      if (::testing::Test::HasFailure()) return;
    }
}

TEST(GpuExperts, GatesOfNoNumbersChooseAsTheCpuDoes) {
  for (auto score : {plan::GateScore::softmax, plan::GateScore::sigmoid}) {
    kernels::Gate g;
    g.capacity = 7, g.overflow = plan::Overflow::position, g.score = score;
    GateCase c(DType::f32, 20, 40, 3, g);
    c.fill(2);
    for (std::int64_t s = 0; s < 20; s += 2)
      for (std::int64_t e = 2 * s; e < 40; ++e) c.logits.set(s, e, std::numeric_limits<double>::quiet_NaN());
    auto there = c;
    Host host(1);
    Place gpu(Place::Kind::gpu);
    c.forward(host), there.forward(gpu);
    EXPECT_EQ(there.chosen, c.chosen);
    EXPECT_EQ(there.rows, c.rows);
    EXPECT_TRUE(std::isnan(there.losses[0]) && std::isnan(there.losses[1]));
  }
}

TEST(GpuExperts, ScratchIsWhatTheFormulaSays) {
  for (auto t : {DType::f32, DType::f64})
    for (std::int64_t tokens : {1, 65}) {
      kernels::Gate g;
      g.capacity = 20, g.overflow = plan::Overflow::probability;
      GateCase c(t, tokens, 7, 3, g);
      c.fill(1);
      const auto bytes = plan::gpu_gate_scratch_bytes(tokens, 7, 3, base::size_of(t));
      Place gpu(Place::Kind::gpu);
      c.forward(gpu);
      EXPECT_EQ(gpu.exec().scratch().peak_bytes(), bytes);
    }
}

TEST(GpuExperts, MixesWithinATolerance) {
  for (const std::int64_t h : {1, 70, 300})
    compare(
        [h](Place& place, DType t) {
          const auto g = accumulation(t);
          MatrixBuffer logits(g, 7, 2, 1), a(t, 7, h, 2), b(t, 7, h, 1), out(t, 7, h), dout(t, 7, h),
              d_logits(g, 7, 2, 1), da(t, 7, h), db(t, 7, h);
          logits.fill(1), a.fill(2), b.fill(3), dout.fill(4);
          const auto vl = place(logits), va = place(a), vb = place(b);
          kernels::expert_mix(place.exec(), vl, va, vb, place(out));
          kernels::expert_mix_backward(place.exec(), {.logits = vl,
                                                      .a = va,
                                                      .b = vb,
                                                      .dout = place(dout),
                                                      .d_logits = place(d_logits),
                                                      .da = place(da),
                                                      .db = place(db)});
          place.fetch();
          return Outputs{out, d_logits, da, db};
        },
        Same::tolerance, all);
}

// Whole numbers, and values that move by a fixed amount, are equal on both.
TEST(GpuExperts, RecordsLoadsBiasesAndSlotsAreThoseOfTheCpu) {
  const auto run = [](Place::Kind kind) {
    Place place(kind);
    const std::int64_t experts = 300;
    std::vector<std::int32_t> groups, loads, slots;
    for (std::int32_t e = 0; e < experts; ++e) {
      groups.push_back(e), groups.push_back(e % 7);
      slots.push_back(e * 5), slots.push_back(e % 3);
      loads.push_back(e % 11);
    }
    for (std::int32_t e = 0; e < experts; ++e) loads.push_back(e % 2);
    std::vector<double> losses{1.5, 1.0 / 3, std::nan("")}, targets{77}, wide(experts, -1);
    std::vector<std::int64_t> record(static_cast<std::size_t>(kernels::gate_record_sums + experts), 1);
    std::vector<float> bias(experts, 0.25f), narrow(experts, -1);
    std::vector<kernels::StepNumbers> numbers(1);
    numbers[0].finite = 1;
    const auto vg = place(groups, {experts, 2}), vl = place(loads, {2, experts}), vn = place(narrow, {experts}),
               vb = place(bias, {experts}), vs = place(slots, {experts, 2});
    kernels::gate_record(place.exec(), vg, vl, place(losses, {3}), place.raw(targets),
                         place(record, {kernels::gate_record_sums + experts}));
    kernels::gate_loads(place.exec(), vl, vn);
    kernels::gate_loads(place.exec(), vl, place(wide, {experts}));
    kernels::even_load_update(place.exec(), vb, vn, 5, 0.001f, place.raw(numbers));
    kernels::slot_groups(place.exec(), vs, 9);
    place.fetch();
    return std::tuple(record, narrow, wide, bias, slots);
  };
  EXPECT_EQ(run(Place::Kind::gpu), run(Place::Kind::host));
}

// More destinations than a block has threads, groups of more rows than threads, and empty groups.
TEST(GpuExperts, RoundsAreThoseOfTheCpu) {
  struct Shape {
    std::int64_t destinations, held, room;
  };
  for (const auto& [destinations, held, room] : {Shape{2, 5, 400}, Shape{300, 2, 9}, Shape{3, 40, 7}}) {
    const auto run = [&, d = destinations, h = held, most = room](Place::Kind kind) {
      Place place(kind);
      const auto n = d * h;
      std::vector<std::int32_t> groups, places(static_cast<std::size_t>(2 * n), -7), rounds{-7};
      std::int32_t rows = 0;
      for (std::int64_t g = 0; g < n; ++g) {
        const auto size = g % 3 == 1 ? 0 : static_cast<std::int32_t>((g * 37 + 5) % (most + 1));
        groups.insert(groups.end(), {rows, size});
        rows += size;
      }
      std::vector<std::int32_t> sources(static_cast<std::size_t>(rows) + 4, -1);
      for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i) sources[i] = static_cast<std::int32_t>(7 * i);
      const auto vg = place(groups, {n, 2}), vp = place(places, {n, 2}), vr = place(rounds, {1}),
                 vs = place(sources, {static_cast<std::int64_t>(sources.size())});
      kernels::expert_rounds(place.exec(), vg, d, most, vp, vr);
      std::vector<std::vector<std::int32_t>> sent(3, places), tokens(3), back(3, sources);
      tokens.assign(3, std::vector<std::int32_t>(static_cast<std::size_t>(d * most), -7));
      auto here = tokens;
      for (std::size_t r = 0; r < 3; ++r)
        kernels::expert_round(place.exec(), {d, most, 1, static_cast<std::int64_t>(r)}, vg, vp, vs,
                              {place(sent[r], {n, 2}), place(tokens[r], {d * most}), place(here[r], {d * most}),
                               place(back[r], {static_cast<std::int64_t>(back[r].size())})});
      place.fetch();
      return std::tuple(places, rounds, sent, tokens, here, back);
    };
    EXPECT_EQ(run(Place::Kind::gpu), run(Place::Kind::host));
  }
}

TEST(GpuExperts, JitterGivesTheBitsOfTheCpu) {
  for (const std::int64_t h : {1, 70})
    compare(
        [h](Place& place, DType t) {
          MatrixBuffer x(t, 12, h, 3), y(t, 12, h, 1);
          x.fill(4);
          kernels::Gate g;
          std::vector<std::uint64_t> samples{3, 8, std::uint64_t{1} << 29};
          g.seed = 3, g.noise_site = 9, g.sequence = 4, g.samples = place(samples, {3}).ptr<std::uint64_t>();
          const auto both = place(x);
          kernels::gate_jitter(place.exec(), g, both, place(y));
          kernels::gate_jitter(place.exec(), g, both, both);
          place.fetch();
          return Outputs{y, x};
        },
        Same::bits, all);
}

// Rows with and without whole groups of 16 bytes. Some rows belong to no token, and some choices have no row.
TEST(GpuExperts, RowsGiveTheBitsOfTheCpu) {
  for (const std::int64_t h : {72, 71})
    for (const std::int64_t k : {1, 3})
      for (auto same : {Same::bits, Same::tolerance})
        compare(
            [=](Place& place, DType t) {
              const std::int64_t tokens = 13, gap = h == 72 ? 8 : 1, row_count = tokens * k + 3;
              std::vector<std::int32_t> rows, sources(static_cast<std::size_t>(row_count), -1);
              for (std::int64_t i = 0; i < tokens * k; ++i) {
                rows.push_back(i % 5 == 0 ? -1 : static_cast<std::int32_t>((i * 7 + 2) % (tokens * k)));
                if (rows.back() >= 0) sources[static_cast<std::size_t>(rows.back())] = static_cast<std::int32_t>(i);
              }
              const auto g = accumulation(t);
              MatrixBuffer x(t, tokens, h, gap), y(t, row_count, h, gap), weights(g, tokens, k, 1),
                  add(g, tokens, h, gap), there(t, row_count, h), dx(t, tokens, h, gap), bare(t, tokens, h),
                  out(t, tokens, h), dy(t, row_count, h, gap), slopes(g, tokens, k, 2), again(g, tokens, k);
              x.fill(1), y.fill(2), weights.fill(3), add.fill(4), there.fill(5), dy.fill(6);
              const auto vx = place(x), vy = place(y), vw = place(weights), vr = place(rows, {tokens, k}),
                         vs = place(sources, {row_count});
              kernels::expert_dispatch(place.exec(), vx, vs, k, place(there));
              kernels::expert_dispatch_backward(place.exec(), vy, vr, place(add), place(dx));
              kernels::expert_dispatch_backward(place.exec(), vy, vr, {}, place(bare));
              kernels::expert_combine(place.exec(), vy, vr, vw, place(out));
              kernels::expert_combine_backward(place.exec(), {.dout = vx,
                                                              .y = vy,
                                                              .rows = vr,
                                                              .sources = vs,
                                                              .weights = vw,
                                                              .dy = place(dy),
                                                              .d_weights = place(slopes)});
              kernels::expert_combine_backward(
                  place.exec(),
                  {.dout = vx, .y = vy, .rows = vr, .sources = vs, .weights = vw, .dy = vy, .d_weights = place(again)});
              place.fetch();
              if (same == Same::tolerance) return Outputs{slopes, again};
              return Outputs{there, dx, bare, out, dy, y};
            },
            same, all);
}

}  // namespace
}  // namespace trainyard::test

int main(int argc, char** argv) { return trainyard::testing::run_on_gpu(argc, argv); }
