// Compares the optimizers' GPU kernels with their CPU kernels, bit by bit; and the rounding of sums before an update.
#include "kernels/adafactor/adafactor.h"
#include "kernels/cast/cast.h"
#include "kernels/muon/muon.h"
#include "kernels/newton_schulz/newton_schulz.h"
#include "kernels/update/trust_ratio.h"
#include "kernels/update/update.h"
#include "tests/gpu_main.h"
#include "tests/kernels/gpu_compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace trainyard::test {
namespace {

void compare_adamw(bool decay_in_gradient, DType states = DType::f32) {
  compare(
      [decay_in_gradient, states](Place& place, DType t) {
        MatrixBuffer p(DType::f32, 1, 1000), g(DType::f32, 1, 1000), m(states, 1, 1000), v(states, 1, 1000),
            working(base::is_narrow(t) ? t : DType::bf16, 1, 1000);
        p.fill(1), g.fill(2), m.fill(3), v.fill(4);
        for (std::int64_t i = 0; i < 1000; ++i) v.set(0, i, std::abs(v(0, i)));
        kernels::AdamW h;
        h.decay_in_gradient = decay_in_gradient;
        h.learning_rate = 1e-3f, h.weight_decay = 0.1f, h.bias1 = 0.3, h.bias2 = 0.02, h.gradient_scale = 0.37f;
        const auto narrow = base::is_narrow(t) ? place(working) : base::View{};
        const std::vector<kernels::Range> decayed{{0, 10}, {64, 500}, {900, 1000}};
        kernels::update(place.exec(), {.rule = h,
                                       .gradient = place(g),
                                       .parameter = place(p),
                                       .states = {place(m), place(v)},
                                       .working = narrow,
                                       .decayed = decayed});
        place.fetch();
        Outputs out{p, m, v};
        if (base::is_narrow(t)) out.push_back(working);
        return out;
      },
      Same::bits, {DType::f32, DType::bf16, DType::f16});
}

TEST(GpuUpdate, AdamWGivesTheBitsOfTheCpu) { compare_adamw(false); }
TEST(GpuUpdate, AdamGivesTheBitsOfTheCpu) { compare_adamw(true); }
TEST(GpuUpdate, StatesInBf16HaveTheBitsOfTheCpu) { compare_adamw(false, DType::bf16); }

// Where moment and gradient are zero, the sign is, too.
TEST(GpuUpdate, LionGivesTheBitsOfTheCpu) {
  for (const auto states : {DType::f32, DType::bf16})
    compare(
        [states](Place& place, DType t) {
          MatrixBuffer p(DType::f32, 1, 1000), g(DType::f32, 1, 1000), m(states, 1, 1000),
              working(base::is_narrow(t) ? t : DType::bf16, 1, 1000);
          p.fill(1), g.fill(2), m.fill(3);
          for (std::int64_t i = 5; i < 1000; i += 50) g.set(0, i, 0), m.set(0, i, 0);
          kernels::Lion h;
          h.learning_rate = 1e-3f, h.weight_decay = 0.1f, h.gradient_scale = 0.37f;
          const auto narrow = base::is_narrow(t) ? place(working) : base::View{};
          const std::vector<kernels::Range> decayed{{0, 10}, {64, 500}, {900, 1000}};
          kernels::update(place.exec(), {.rule = h,
                                         .gradient = place(g),
                                         .parameter = place(p),
                                         .states = {place(m)},
                                         .working = narrow,
                                         .decayed = decayed});
          place.fetch();
          Outputs out{p, m};
          if (base::is_narrow(t)) out.push_back(working);
          return out;
        },
        Same::bits, {DType::f32, DType::bf16, DType::f16});
}

// All passes. The parts of the parameter are odd, so that one of them takes no whole vectors. Another row is zero.
TEST(GpuUpdate, LambGivesTheBitsOfTheCpu) {
  for (const auto& [states, finite] : {std::pair{DType::f32, 1}, {DType::f32, 0}, {DType::bf16, 1}, {DType::bf16, 0}})
    compare(
        [states = states, finite = finite](Place& place, DType t) {
          MatrixBuffer p(DType::f32, 1, 1003), g(DType::f32, 1, 1003), m(states, 1, 1003), v(states, 1, 1003),
              working(base::is_narrow(t) ? t : DType::bf16, 1, 1003), ratios(DType::f32, 1, 2),
              digits(DType::f64, 1, 84);
          p.fill(1), g.fill(2), m.fill(3), v.fill(4), working.fill(5);
          for (std::int64_t i = 0; i < 1003; ++i) v.set(0, i, std::abs(v(0, i)));
          p.set(0, 7, 3e-30), p.set(0, 8, 4e20);  // beyond the window of a thread
          std::vector<std::int64_t> squares(84);
          std::vector<kernels::StepNumbers> numbers(1);
          numbers[0].gradient_scale = 0.37f, numbers[0].finite = finite;
          kernels::Lamb h;
          h.learning_rate = 1e-3f, h.weight_decay = 0.1f, h.bias1 = 0.3, h.bias2 = 0.02;
          h.numbers = place.raw(numbers);
          const auto narrow = base::is_narrow(t) ? place(working) : base::View{};
          const auto weights = place(p), first = place(m), second = place(v), sums = place(squares, {2, 42}),
                     all_ratios = place(ratios);
          const std::vector<kernels::Range> decayed{{0, 10}, {64, 500}, {900, 1003}};
          kernels::Update u{.rule = kernels::LambMoments{h},
                            .gradient = place(g),
                            .parameter = weights,
                            .states = {first, second},
                            .working = narrow,
                            .decayed = decayed};
          kernels::update(place.exec(), u);
          for (const auto& [from, to] : {std::pair<std::int64_t, std::int64_t>{0, 501}, {501, 1003}})
            kernels::add_update_squares(place.exec(), {.rule = h,
                                                       .parameter = weights.elements(from, to - from),
                                                       .m = first.elements(from, to - from),
                                                       .v = second.elements(from, to - from),
                                                       .decays = from == 0,
                                                       .squares = sums.row_range(0, 1)});
          kernels::carry_squares(place.exec(), sums);
          kernels::trust_ratios(place.exec(), sums, all_ratios.elements(0, 2));
          h.rate_factor = all_ratios.ptr<float>();
          u.rule = h;
          kernels::update(place.exec(), u);
          place.fetch();
          EXPECT_TRUE(ratios(0, 0) != 1 && ratios(0, 0) > 0);
          EXPECT_EQ(ratios(0, 1), 1);
          for (std::int64_t i = 0; i < 84; ++i)
            digits.set(0, i, static_cast<double>(squares[static_cast<std::size_t>(i)]));
          Outputs out{p, m, v, ratios, digits};
          if (base::is_narrow(t)) out.push_back(working);
          return out;
        },
        Same::bits, {DType::f32, DType::bf16, DType::f16});
}

// All passes of a matrix and of a vector, in pieces that end in the middle of a row. Of the first width, a thread takes
// four elements at a time, although the column factors are not aligned, as they seldom are.
TEST(GpuUpdate, AdafactorGivesTheBitsOfTheCpu) {
  for (const auto& [cols, finite] : {std::pair{68, 1}, {67, 1}, {1, 1}, {67, 0}})
    compare(
        [cols = cols, finite = finite](Place& place, DType t) {
          constexpr std::int64_t rows = 70;
          const auto n = rows * cols;
          MatrixBuffer p(DType::f32, 1, n), g(DType::f32, 1, n), working(base::is_narrow(t) ? t : DType::bf16, 1, n),
              row_var(DType::f32, 1, rows), column_var(DType::f32, 1, cols), row_factors(DType::f32, 1, rows),
              column_factors(DType::f32, 1, cols + 1), digits(DType::f64, 1, 21 * (rows + cols) + 42);
          p.fill(1), g.fill(2), working.fill(3), row_var.fill(4), column_var.fill(5), row_factors.fill(6),
              column_factors.fill(7);
          for (std::int64_t i = 0; i < rows; ++i) row_var.set(0, i, std::abs(row_var(0, i)));
          for (std::int64_t i = 0; i < cols; ++i) column_var.set(0, i, std::abs(column_var(0, i)));
          g.set(0, 7, 3e-30), g.set(0, 8, 4e18), g.set(0, 9, 1e-42);  // beyond the window of a thread
          std::vector<std::int64_t> lines(base::size(21 * (rows + cols))), squares(42);
          std::vector<kernels::StepNumbers> numbers(1);
          numbers[0].gradient_scale = 0.37f, numbers[0].finite = finite;
          kernels::Adafactor h;
          h.weight_decay = 0.1f, h.step = 3, h.numbers = place.raw(numbers);
          const auto narrow = base::is_narrow(t) ? place(working) : base::View{};
          const auto weights = place(p), gradient = place(g), of_lines = place(lines, {rows + cols, 21}),
                     norms = place(squares, {1, 42}), row_moments = place(row_var), column_moments = place(column_var),
                     by_row = place(row_factors), by_column = place(column_factors).elements(1, cols);
          const auto of_rows = of_lines.row_range(0, rows), of_columns = of_lines.row_range(rows, cols);
          const auto each_piece = [&](auto&& f) {
            for (const auto& [from, to] : {std::pair<std::int64_t, std::int64_t>{0, n / 2}, {n / 2, n}})
              f(from, to - from,
                kernels::AdafactorPart{.gradient = gradient.elements(from, to - from),
                                       .held = {from, cols},
                                       .row_factors = by_row.elements(0, rows),
                                       .column_factors = by_column});
          };
          each_piece([&](auto, auto, const auto& part) {
            kernels::add_line_squares(
                place.exec(),
                {.rule = h, .gradient = part.gradient, .held = part.held, .rows = of_rows, .columns = of_columns});
          });
          kernels::carry_squares(place.exec(), of_lines);
          kernels::update_lines(place.exec(), {.rule = h,
                                               .row_squares = of_rows,
                                               .column_squares = of_columns,
                                               .row_var = row_moments.elements(0, rows),
                                               .column_var = column_moments.elements(0, cols),
                                               .row_factors = by_row.elements(0, rows),
                                               .column_factors = by_column,
                                               .vector = cols == 1});
          each_piece([&](std::int64_t from, std::int64_t count, const auto& part) {
            kernels::add_adafactor_squares(place.exec(), h, part, weights.elements(from, count), norms);
          });
          kernels::carry_squares(place.exec(), norms);
          each_piece([&](std::int64_t from, std::int64_t count, const auto& part) {
            kernels::adafactor_update(place.exec(), {.rule = h,
                                                     .part = part,
                                                     .parameter = weights.elements(from, count),
                                                     .working = narrow ? narrow.elements(from, count) : base::View{},
                                                     .squares = norms,
                                                     .count = n,
                                                     .decays = from == 0});
          });
          place.fetch();
          std::int64_t at = 0;
          for (const auto* limbs : {&lines, &squares})
            for (const auto limb : *limbs) digits.set(0, at++, static_cast<double>(limb));
          Outputs out{p, row_var, column_var, digits};
          if (finite != 0) out.push_back(row_factors), out.push_back(column_factors);
          if (base::is_narrow(t)) out.push_back(working);
          return out;
        },
        Same::bits, {DType::f32, DType::bf16, DType::f16});
}

TEST(GpuUpdate, SgdGivesTheBitsOfTheCpu) {
  for (const bool nesterov : {false, true})
    compare(
        [nesterov](Place& place, DType t) {
          MatrixBuffer p(DType::f32, 1, 1000), g(DType::f32, 1, 1000), b(DType::f32, 1, 1000),
              working(base::is_narrow(t) ? t : DType::bf16, 1, 1000);
          p.fill(1), g.fill(2), b.fill(3);
          kernels::Sgd h;
          h.learning_rate = 1e-2f, h.weight_decay = 0.1f, h.gradient_scale = 0.37f, h.nesterov = nesterov;
          const auto narrow = base::is_narrow(t) ? place(working) : base::View{};
          const std::vector<kernels::Range> decayed{{0, 10}, {64, 500}, {900, 1000}};
          kernels::update(place.exec(), {.rule = h,
                                         .gradient = place(g),
                                         .parameter = place(p),
                                         .states = {place(b)},
                                         .working = narrow,
                                         .decayed = decayed});
          place.fetch();
          Outputs out{p, b};
          if (base::is_narrow(t)) out.push_back(working);
          return out;
        },
        Same::bits, {DType::f32, DType::bf16, DType::f16});
}

TEST(GpuUpdate, AMovingAverageGivesTheBitsOfTheCpu) {
  for (const int finite : {1, 0})
    compare(
        [&](Place& place, DType) {
          MatrixBuffer average(DType::f32, 1, 1000), weight(DType::f32, 1, 1000);
          average.fill(1), weight.fill(2);
          kernels::StepNumbers n;
          n.gradient_scale = 0.37f, n.finite = finite;
          std::vector<kernels::StepNumbers> numbers{n};
          kernels::Average rule;
          rule.learning_rate = 1e-2f, rule.numbers = place.raw(numbers);
          const auto before = average.bytes;
          kernels::update(place.exec(), {.rule = rule, .gradient = place(weight), .parameter = place(average)});
          place.fetch();
          EXPECT_EQ(average.bytes == before, finite == 0);
          return Outputs{average};
        },
        Same::bits, {DType::f32});
}

TEST(GpuUpdate, MuonGivesTheBitsOfTheCpu) {
  for (const bool nesterov : {false, true})
    for (const int finite : {1, 0})
      compare(
          [&](Place& place, DType t) {
            MatrixBuffer p(DType::f32, 1, 1000), g(DType::f32, 1, 1000), m(t, 1, 1000),
                working(base::is_narrow(t) ? t : DType::bf16, 1, 1000);
            p.fill(1), g.fill(2), m.fill(3), working.fill(4);
            kernels::StepNumbers n;
            n.gradient_scale = 0.37f, n.finite = finite;
            std::vector<kernels::StepNumbers> numbers{n};
            kernels::Muon h;
            h.learning_rate = 1e-2f, h.weight_decay = 0.1f, h.gradient_scale = 1e9f, h.nesterov = nesterov;
            h.numbers = place.raw(numbers);
            const auto before = p.bytes;
            const auto narrow = base::is_narrow(t) ? place(working) : base::View{};
            const auto gradient = place(g);
            const std::vector<kernels::Range> decayed{{0, 10}, {64, 500}, {900, 1000}};
            kernels::muon_direction(place.exec(), {.hyper = h, .gradient = gradient, .m = place(m)});
            kernels::update(
                place.exec(),
                {.rule = h, .gradient = gradient, .parameter = place(p), .working = narrow, .decayed = decayed});
            place.fetch();
            EXPECT_EQ(p.bytes == before, finite == 0);
            Outputs out{p, g, m};
            if (base::is_narrow(t)) out.push_back(working);
            return out;
          },
          Same::bits, {DType::f32, DType::bf16, DType::f16});
}

// Its products are those of the device's library. Small singular values grow by 500, and rounding with them.
TEST(GpuUpdate, NewtonSchulzAgreesWithTheCpu) {
  for (const auto& [rows, cols] : {std::pair(24, 40), std::pair(40, 24), std::pair(16, 16), std::pair(1, 8)}) {
    Outputs out;
    for (const auto kind : {Place::Kind::host, Place::Kind::gpu}) {
      Place place(kind);
      MatrixBuffer x(DType::f32, rows, cols);
      kernels::newton_schulz(place.exec(), place(x.fill(7)), 0.5f);
      place.fetch();
      out.push_back(x);
    }
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < cols; ++j)
        ASSERT_NEAR(out[1](i, j), out[0](i, j), 1e-4) << rows << " x " << cols << " at " << i << "," << j;
  }
}

TEST(GpuUpdate, AdamWTakesTheScaleOfTheStep) {
  for (int finite : {1, 0})
    compare(
        [finite](Place& place, DType) {
          MatrixBuffer p(DType::f32, 1, 100), g(DType::f32, 1, 100), m(DType::f32, 1, 100), v(DType::f32, 1, 100);
          p.fill(1), g.fill(2), m.fill(3), v.fill(4);
          for (std::int64_t i = 0; i < 100; ++i) v.set(0, i, std::abs(v(0, i)));
          std::vector<double> before;
          for (std::int64_t i = 0; i < 100; ++i) before.push_back(p(0, i));
          kernels::StepNumbers n;
          n.gradient_scale = 0.25f, n.finite = finite;
          std::vector<kernels::StepNumbers> numbers{n};
          kernels::AdamW h;
          h.learning_rate = 1e-3f, h.gradient_scale = 1e9f;  // not used
          h.numbers = place.raw(numbers);
          kernels::update(place.exec(),
                          {.rule = h, .gradient = place(g), .parameter = place(p), .states = {place(m), place(v)}});
          place.fetch();
          for (std::int64_t i = 0; i < 100; ++i)
            EXPECT_EQ(p(0, i) == before[static_cast<std::size_t>(i)], finite == 0) << i;
          return Outputs{p, m, v};
        },
        Same::bits);
}

TEST(GpuUpdate, LionTakesTheScaleOfTheStep) {
  for (int finite : {1, 0})
    compare(
        [finite](Place& place, DType) {
          MatrixBuffer p(DType::f32, 1, 101), g(DType::f32, 1, 101), m(DType::f32, 1, 101);
          p.fill(1), g.fill(2), m.fill(3);
          std::vector<double> before;
          for (std::int64_t i = 0; i < 101; ++i) before.push_back(m(0, i));
          kernels::StepNumbers n;
          n.gradient_scale = 0.25f, n.finite = finite;
          std::vector<kernels::StepNumbers> numbers{n};
          kernels::Lion h;
          h.learning_rate = 0.1f, h.gradient_scale = 1e9f;  // not used
          h.numbers = place.raw(numbers);
          kernels::update(place.exec(), {.rule = h, .gradient = place(g), .parameter = place(p), .states = {place(m)}});
          place.fetch();
          for (std::int64_t i = 0; i < 101; ++i)
            EXPECT_EQ(m(0, i) == before[static_cast<std::size_t>(i)], finite == 0) << i;
          return Outputs{p, m};
        },
        Same::bits);
}

TEST(GpuUpdate, SgdTakesTheScaleOfTheStep) {
  for (int finite : {1, 0})
    compare(
        [finite](Place& place, DType) {
          MatrixBuffer p(DType::f32, 1, 101), g(DType::f32, 1, 101), b(DType::f32, 1, 101);
          p.fill(1), g.fill(2), b.fill(3);
          std::vector<double> before;
          for (std::int64_t i = 0; i < 101; ++i) before.push_back(p(0, i));
          kernels::StepNumbers n;
          n.gradient_scale = 0.25f, n.finite = finite;
          std::vector<kernels::StepNumbers> numbers{n};
          kernels::Sgd h;
          h.learning_rate = 0.1f, h.gradient_scale = 1e9f;  // not used
          h.numbers = place.raw(numbers);
          kernels::update(place.exec(), {.rule = h, .gradient = place(g), .parameter = place(p), .states = {place(b)}});
          place.fetch();
          for (std::int64_t i = 0; i < 101; ++i)
            EXPECT_EQ(p(0, i) == before[static_cast<std::size_t>(i)], finite == 0) << i;
          return Outputs{p, b};
        },
        Same::bits);
}

// Ties, subnormals, infinities and a NaN, in rows of groups and of single elements.
TEST(Gpu, SumsAreRoundedAsOnTheCpu) {
  for (const std::int64_t cols : {4096, 4095})
    compare(
        [cols](Place& place, DType) {
          MatrixBuffer x(DType::f32, 1, cols), pitched(DType::f32, 3, cols, 4);
          for (std::int64_t i = 0; i < cols; ++i) {
            const auto bits = static_cast<std::uint32_t>(i) * 2654435761u & (i % 3 == 0 ? 0xffff8000u : 0xffffffffu);
            reinterpret_cast<std::uint32_t*>(x.bytes.data())[i] =
                (bits & 0x7fffffffu) > 0x7f800000u ? bits & 0xff800000u : bits;
          }
          pitched.fill(4), pitched.set(1, 6, NAN);
          kernels::round_to_bf16(place.exec(), place(x));
          kernels::round_to_bf16(place.exec(), place(pitched));
          place.fetch();
          EXPECT_TRUE(std::isnan(pitched(1, 6)));
          pitched.set(1, 6, 0);
          return Outputs{x, pitched};
        },
        Same::bits, {DType::f32});
}

}  // namespace
}  // namespace trainyard::test

int main(int argc, char** argv) { return trainyard::testing::run_on_gpu(argc, argv); }
