// Compares Adafactor with a double-precision reference over many steps, and tests that its sums are exact and its bits
// are the same however a matrix is cut.
#include "kernels/adafactor/adafactor.h"
#include "kernels/square_sum/square_sum.h"
#include "kernels/update/trust_ratio.h"
#include "tests/kernels/sweep.h"

namespace trainyard::test {
namespace adafactor_test {

using kernels::square_sum_limbs;
using Limbs = std::vector<std::int64_t>;

base::View lines_view(Limbs& limbs) {
  return base::View::of(limbs.data(), {static_cast<std::int64_t>(limbs.size()) / square_sum_limbs, square_sum_limbs});
}
base::View flat_view(std::vector<float>& x) { return base::View::of(x.data(), {static_cast<std::int64_t>(x.size())}); }

struct Factored {
  std::int64_t rows, cols;
  bool vector = false;
  std::vector<float> p = std::vector<float>(base::size(rows * cols)), row_var = std::vector<float>(base::size(rows)),
                     column_var = std::vector<float>(base::size(cols));
  std::vector<std::uint16_t> working = std::vector<std::uint16_t>(p.size());
  bool operator==(const Factored&) const = default;
};

// How a matrix is cut: into slices of columns, and each slice into pieces of so many elements.
struct Cut {
  std::int64_t slices = 1, piece = 1 << 30;
};

// Slice s of a matrix, row by row.
template <class T> std::vector<T> slice_of(const std::vector<T>& x, std::int64_t cols, const Cut& cut, std::int64_t s) {
  std::vector<T> out;
  const auto width = cols / cut.slices;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (static_cast<std::int64_t>(i) % cols / width == s) out.push_back(x[i]);
  return out;
}
template <class T>
void put_slice(std::vector<T>& x, std::int64_t cols, const Cut& cut, std::int64_t s, const std::vector<T>& slice) {
  const auto width = cols / cut.slices;
  std::size_t at = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (static_cast<std::int64_t>(i) % cols / width == s) x[i] = slice[at++];
}

struct Sums {
  Limbs rows, columns, norms;
  bool operator==(const Sums&) const = default;
};

// All passes of a step.
Sums take_step(tensor::Exec& exec, const kernels::Adafactor& rule, const std::vector<float>& gradient, Factored& x,
               const Cut& cut, bool decays) {
  Sums sums{Limbs(base::size(x.rows * square_sum_limbs)), Limbs(base::size(x.cols * square_sum_limbs)),
            Limbs(2 * square_sum_limbs)};
  std::vector<float> row_factors(base::size(x.rows)), column_factors(base::size(x.cols));
  const auto width = x.cols / cut.slices;
  const auto each_piece = [&](auto&& f) {
    for (std::int64_t s = 0; s < cut.slices; ++s) {
      auto g = slice_of(gradient, x.cols, cut, s), p = slice_of(x.p, x.cols, cut, s);
      auto working = slice_of(x.working, x.cols, cut, s);
      for (std::int64_t from = 0; from < x.rows * width; from += cut.piece) {
        const auto n = std::min(cut.piece, x.rows * width - from);
        const kernels::AdafactorPart part{.gradient = flat_view(g).elements(from, n),
                                          .held = {from, width},
                                          .row_factors = flat_view(row_factors),
                                          .column_factors = flat_view(column_factors).elements(s * width, width)};
        f(part, s, flat_view(p).elements(from, n),
          base::View(working.data(), DType::bf16, {x.rows * width}).elements(from, n));
      }
      put_slice(x.p, x.cols, cut, s, p), put_slice(x.working, x.cols, cut, s, working);
    }
  };
  each_piece([&](const kernels::AdafactorPart& part, std::int64_t s, base::View, base::View) {
    kernels::add_line_squares(exec, {.rule = rule,
                                     .gradient = part.gradient,
                                     .held = part.held,
                                     .rows = lines_view(sums.rows),
                                     .columns = lines_view(sums.columns).row_range(s * width, width)});
  });
  kernels::carry_squares(exec, lines_view(sums.rows)), kernels::carry_squares(exec, lines_view(sums.columns));
  kernels::update_lines(exec, {.rule = rule,
                               .row_squares = lines_view(sums.rows),
                               .column_squares = lines_view(sums.columns),
                               .row_var = flat_view(x.row_var),
                               .column_var = flat_view(x.column_var),
                               .row_factors = flat_view(row_factors),
                               .column_factors = flat_view(column_factors),
                               .vector = x.vector});
  const auto norms = base::View::of(sums.norms.data(), {1, 2 * square_sum_limbs});
  each_piece([&](const kernels::AdafactorPart& part, std::int64_t, base::View p, base::View) {
    kernels::add_adafactor_squares(exec, rule, part, p, norms);
  });
  kernels::carry_squares(exec, norms);
  each_piece([&](const kernels::AdafactorPart& part, std::int64_t, base::View p, base::View working) {
    kernels::adafactor_update(exec, {.rule = rule,
                                     .part = part,
                                     .parameter = p,
                                     .working = working,
                                     .squares = norms,
                                     .count = x.rows * x.cols,
                                     .decays = decays});
  });
  return sums;
}

std::vector<float> numbers(std::int64_t n, std::uint64_t seed) {
  MatrixBuffer x(DType::f32, 1, n);
  x.fill(seed);
  std::vector<float> out;
  for (std::int64_t i = 0; i < n; ++i) out.push_back(static_cast<float>(x(0, i)));
  return out;
}

// Shazeer and Stern 2018, algorithms 4 and 5, with decoupled weight decay.
struct PlainAdafactor {
  std::int64_t rows, cols;
  bool vector;
  std::vector<double> p, r = std::vector<double>(base::size(rows)), c = std::vector<double>(base::size(cols));

  static double rms(const std::vector<double>& x) {
    double sum = 0;
    for (const double v : x) sum += v * v;
    return std::sqrt(sum / static_cast<double>(x.size()));
  }
  void step(const kernels::Adafactor& h, const std::vector<float>& gradient, bool decays) {
    const double w = std::pow(h.step, -h.beta2_decay);
    std::vector<double> g, row(r.size()), column(c.size()), u(p.size());
    for (const float v : gradient) g.push_back(static_cast<double>(v) * static_cast<double>(h.gradient_scale));
    const auto n = static_cast<std::size_t>(cols);
    for (std::size_t i = 0; i < g.size(); ++i) row[i / n] += g[i] * g[i], column[i % n] += g[i] * g[i];
    double mean = 0;
    for (std::size_t i = 0; i < r.size(); ++i) {
      r[i] = (1 - w) * r[i] + w * (row[i] / static_cast<double>(cols) + 1e-30);
      mean += r[i] / static_cast<double>(rows);
    }
    for (std::size_t j = 0; j < n; ++j) c[j] = (1 - w) * c[j] + w * (column[j] / static_cast<double>(rows) + 1e-30);
    for (std::size_t i = 0; i < g.size(); ++i) u[i] = g[i] / std::sqrt(vector ? r[i] : r[i / n] * c[i % n] / mean);
    const double rate = static_cast<double>(h.learning_rate), rho = std::min(rate, 1 / std::sqrt(h.step));
    const double size = rho * (h.scale_parameter ? std::max(1e-3, rms(p)) : 1) / std::max(1.0, rms(u));
    for (std::size_t i = 0; i < p.size(); ++i)
      p[i] = p[i] * (decays ? 1 - rate * static_cast<double>(h.weight_decay) : 1) - size * u[i];
  }
};

kernels::Adafactor rule_of_step(int step) {
  kernels::Adafactor h;
  h.learning_rate = 0.4f, h.weight_decay = 0.02f, h.step = step, h.beta2_decay = 0.7, h.gradient_scale = 0.037f;
  return h;
}

template <class T> void expect_near(const std::vector<float>& got, const std::vector<double>& want, const T& what) {
  const double size = PlainAdafactor::rms(want);
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(static_cast<double>(got[i]), want[i], 2e-5 * size) << what << " " << i;
}

// A rate of 0.4 is above 1 / sqrt(step) from the seventh step on. The first step of the second kind has the least root
// mean square of a parameter.
TEST(Adafactor, FollowsTheReferenceForManySteps) {
  for (const auto& [rows, cols, vector] :
       {std::tuple{7, 5, false}, {1, 9, false}, {9, 1, false}, {130, 33, false}, {300, 17, false}, {64, 1, true}})
    for (const bool zeros : {false, true}) {
      Bench bench(2);
      Factored x{rows, cols, vector};
      if (!zeros) x.p = numbers(rows * cols, 1);
      PlainAdafactor plain{rows, cols, vector, std::vector<double>(x.p.begin(), x.p.end())};
      for (int step = 1; step <= 12; ++step) {
        auto h = rule_of_step(step);
        h.scale_parameter = step % 5 != 0;
        const auto g = numbers(rows * cols, static_cast<std::uint64_t>(step) + 2);
        take_step(*bench, h, g, x, {}, step % 2 == 0);
        plain.step(h, g, step % 2 == 0);
        const auto what = fmt::format("{} x {} step {}:", rows, cols, step);
        expect_near(x.row_var, plain.r, what + " row"), expect_near(x.p, plain.p, what + " weight");
        if (!vector) expect_near(x.column_var, plain.c, what + " column");
        for (std::size_t i = 0; i < x.p.size(); ++i)
          ASSERT_EQ(x.working[i], std::bit_cast<std::uint16_t>(base::bf16(x.p[i]))) << what << i;
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
}

// The sums are those of kernels/square_sum, whatever the cut, the path and the threads.
TEST(Adafactor, HasTheSameBitsHoweverAMatrixIsCut) {
  for (const auto& [rows, cols] : {std::pair{37, 24}, {300, 48}, {3, 5000}, {5000, 4}}) {
    auto g = numbers(rows * cols, 7);
    for (int j = 0; j < cols; ++j) g[base::size(2 * cols + j)] = 0;                // a row of zeros
    g[1] = 3e18f, g[base::size(cols)] = 1e-30f, g[base::size(cols + 1)] = 1e-42f;  // beyond the window of a block
    auto h = rule_of_step(3);
    h.gradient_scale = 1;
    Factored before{rows, cols};
    before.p = numbers(rows * cols, 1);
    for (auto& v : before.row_var) v = 0.25f;
    for (auto& v : before.column_var) v = 0.5f;
    Limbs by_row, by_column;
    const auto add = [](Limbs& limbs, std::vector<float> line) {
      Bench bench(1);
      kernels::FixedPointSum sum;
      kernels::square_sum(*bench, flat_view(line), sum);
      limbs.insert(limbs.end(), sum.limbs.begin(), sum.limbs.end());
    };
    for (int r = 0; r < rows; ++r) add(by_row, {g.begin() + r * cols, g.begin() + (r + 1) * cols});
    for (int c = 0; c < cols; ++c) add(by_column, slice_of(g, cols, {cols}, c));
    Factored first = before;
    Sums first_sums;
    on_every_path([&, rows = rows, cols = cols] {
      for (const auto& cut : {Cut{}, Cut{2}, Cut{1, 1000}, Cut{4, 311}, Cut{1, cols}})
        for (int threads = 1; threads <= 3; ++threads) {
          Bench bench(threads);
          auto x = before;
          const auto sums = take_step(*bench, h, g, x, cut, true);
          if (first_sums.rows.empty()) first = x, first_sums = sums;
          const auto what =
              fmt::format("{} x {}, {} slices, pieces of {}, {} threads", rows, cols, cut.slices, cut.piece, threads);
          ASSERT_EQ(sums.rows, by_row) << what;
          ASSERT_EQ(sums.columns, by_column) << what;
          ASSERT_EQ(sums, first_sums) << what;
          ASSERT_EQ(x, first) << what;
        }
    });
    EXPECT_NE(first.p, before.p);
  }
}

TEST(Adafactor, AStepThatIsNotFiniteChangesNothing) {
  Bench bench(2);
  kernels::StepNumbers now;
  now.gradient_scale = 0.5f, now.finite = 0;
  auto h = rule_of_step(2);
  h.numbers = &now;
  Factored x{40, 30};
  x.p = numbers(1200, 1), x.row_var.assign(40, 1.5f), x.column_var.assign(30, 2.5f);
  const auto before = x;
  auto g = numbers(1200, 3);
  g[77] = std::numeric_limits<float>::quiet_NaN();
  const auto sums = take_step(*bench, h, g, x, {}, true);
  EXPECT_EQ(x, before);
  for (const auto* limbs : {&sums.rows, &sums.columns, &sums.norms})
    EXPECT_EQ(*std::max_element(limbs->begin(), limbs->end()), 0);
  now.finite = 1;
  g[77] = 1;
  auto by_value = rule_of_step(2);
  by_value.gradient_scale = 0.5f;
  auto y = before;
  take_step(*bench, h, g, x, {}, true), take_step(*bench, by_value, g, y, {}, true);
  EXPECT_EQ(x, y) << "the scale of the step is the numbers'";
  EXPECT_NE(x, before);
}

TEST(Adafactor, RefusesElementsBeyondTheMatrix) {
  Bench bench(1);
  std::vector<float> g(8);
  Limbs rows(2 * square_sum_limbs), columns(3 * square_sum_limbs);
  const auto add = [&](std::int64_t first, std::int64_t count) {
    kernels::add_line_squares(*bench, {.rule = {},
                                       .gradient = flat_view(g).elements(0, count),
                                       .held = {first, 3},
                                       .rows = lines_view(rows),
                                       .columns = lines_view(columns)});
  };
  EXPECT_NO_THROW(add(0, 6));
  EXPECT_NO_THROW(add(6, 0));
  EXPECT_THROW(add(1, 6), std::logic_error);
  EXPECT_THROW(add(-1, 2), std::logic_error);
}

}  // namespace adafactor_test
}  // namespace trainyard::test
