// Compares attention with plain double sums and finite differences. Also documents, dropout, threads and memory.
#include "kernels/attention/attention.h"
#include "libtrain/base/random.h"
#include "libtrain/plan/blocks/scratch.h"
#include "tests/kernels/matrix_buffer.h"

#include <gtest/gtest.h>

namespace trainyard::test {
namespace attention_test {

const std::uint64_t samples[] = {11, 5};

struct Problem {
  kernels::AttentionShape s;
  MatrixBuffer q, k, v, dout, out, lse, dq, dk, dv;
  std::vector<std::int32_t> start;

  Problem(DType t, std::int64_t T, std::int64_t heads, std::int64_t kv, std::int64_t d, double dropout = 0)
      : q(t, 2 * T, heads * d, 3), k(t, 2 * T, kv * d, 1), v(t, 2 * T, kv * d), dout(t, 2 * T, heads * d),
        out(t, 2 * T, heads * d, 2), lse(accumulation(t), 2 * heads, T), dq(t, 2 * T, heads * d), dk(t, 2 * T, kv * d),
        dv(t, 2 * T, kv * d), start(static_cast<std::size_t>(2 * T), 0) {
    s.batch = 2, s.sequence = T, s.heads = heads, s.kv_heads = kv, s.head_dim = d, s.scale = 0.7, s.dropout = dropout;
    s.seed = 99, s.site = 1234, s.samples = samples;
    q.fill(1), k.fill(2), v.fill(3), dout.fill(4);
    for (std::int64_t i = T / 3; i < T; ++i) start[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(T / 3);
  }
  base::View starts() { return base::View::of(start.data(), {2, s.sequence}); }
  void forward(int threads) {
    Bench b(threads);
    kernels::attention_forward(*b, {.shape = s,
                                    .q = q.view(),
                                    .k = k.view(),
                                    .v = v.view(),
                                    .document_start = starts(),
                                    .out = out.view(),
                                    .lse = lse.view()});
  }
  void run(int threads) {
    forward(threads);
    Bench b(threads);
    kernels::attention_backward(*b, {.shape = s,
                                     .q = q.view(),
                                     .k = k.view(),
                                     .v = v.view(),
                                     .document_start = starts(),
                                     .out = out.view(),
                                     .lse = lse.view(),
                                     .dout = dout.view(),
                                     .dq = dq.view(),
                                     .dk = dk.view(),
                                     .dv = dv.view()});
  }
};

// The scale of a kept pair, or 0 for a dropped one, by the formula in the header.
double mask(const Problem& p, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
  if (p.s.dropout == 0) return 1;
  const auto word = base::random_words(
      p.s.seed + samples[b] * 0x9E3779B97F4A7C15ull, p.s.site + static_cast<std::uint64_t>(h),
      (static_cast<std::uint64_t>(i) << 32) + static_cast<std::uint64_t>(j / 4))[static_cast<std::size_t>(j % 4)];
  return word >= static_cast<std::uint32_t>(p.s.dropout * 0x1p32) ? 1 / (1 - p.s.dropout) : 0;
}

// out, dq, dk, dv by the definition: a softmax over the visible keys, one row at a time.
struct Expected {
  MatrixBuffer out, dq, dk, dv;
  explicit Expected(const Problem& p)
      : out(DType::f64, p.q.rows, p.q.cols), dq(out), dk(DType::f64, p.k.rows, p.k.cols), dv(dk) {
    for (auto* m : {&out, &dq, &dk, &dv})
      for (std::int64_t i = 0; i < m->rows; ++i)
        for (std::int64_t j = 0; j < m->cols; ++j) m->set(i, j, 0);
    const auto T = p.s.sequence, d = p.s.head_dim;
    for (std::int64_t b = 0; b < 2; ++b)
      for (std::int64_t h = 0; h < p.s.heads; ++h)
        for (std::int64_t i = 0; i < T; ++i) row(p, b, h, i, T, d);
  }
  void row(const Problem& p, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t T, std::int64_t d) {
    const auto kv = h / (p.s.heads / p.s.kv_heads) * d,
               from = static_cast<std::int64_t>(p.start[static_cast<std::size_t>(b * T + i)]);
    std::vector<double> w, g;
    double sum = 0, mean = 0;
    for (auto j = from; j <= i; ++j) {
      double s = 0, dp = 0;
      for (std::int64_t c = 0; c < d; ++c)
        s += p.q(b * T + i, h * d + c) * p.k(b * T + j, kv + c),
            dp += p.dout(b * T + i, h * d + c) * p.v(b * T + j, kv + c);
      w.push_back(std::exp(s * p.s.scale)), g.push_back(dp * mask(p, b, h, i, j));
      sum += w.back();
    }
    for (std::size_t r = 0; r < w.size(); ++r) w[r] /= sum, mean += w[r] * g[r];
    for (auto j = from; j <= i; ++j) {
      const auto r = static_cast<std::size_t>(j - from);
      const double pm = w[r] * mask(p, b, h, i, j), ds = w[r] * (g[r] - mean) * p.s.scale;
      for (std::int64_t c = 0; c < d; ++c) {
        const auto x = h * d + c, y = kv + c;
        out.set(b * T + i, x, out(b * T + i, x) + pm * p.v(b * T + j, y));
        dq.set(b * T + i, x, dq(b * T + i, x) + ds * p.k(b * T + j, y));
        dk.set(b * T + j, y, dk(b * T + j, y) + ds * p.q(b * T + i, x));
        dv.set(b * T + j, y, dv(b * T + j, y) + pm * p.dout(b * T + i, x));
      }
    }
  }
};

void near(const MatrixBuffer& got, const MatrixBuffer& want, double tolerance, const char* what) {
  for (std::int64_t i = 0; i < want.rows; ++i)
    for (std::int64_t j = 0; j < want.cols; ++j)
      ASSERT_LE(std::abs(got(i, j) - want(i, j)), tolerance * (1 + std::abs(want(i, j))))
          << what << " " << i << "," << j;
  ASSERT_TRUE(got.gap_untouched());
}

TEST(Attention, EqualsTheDefinitionOnEveryPath) {
  const struct {
    DType t;
    double tolerance;
  } table[] = {{DType::f32, 2e-5}, {DType::bf16, 6e-2}, {DType::f16, 8e-3}, {DType::f64, 1e-11}};
  const std::int64_t shapes[][4] = {{1, 1, 1, 1}, {7, 2, 1, 5}, {67, 4, 2, 16}, {130, 1, 1, 40}};
  on_every_path([&] {
    for (const auto& t : table)
      for (const auto& s : shapes)
        for (double dropout : {0.0, 0.25}) {
          Problem p(t.t, s[0], s[1], s[2], s[3], dropout);
          p.run(1);
          const Expected e(p);
          near(p.out, e.out, t.tolerance, "out"), near(p.dq, e.dq, t.tolerance, "dq");
          near(p.dk, e.dk, t.tolerance, "dk"), near(p.dv, e.dv, t.tolerance, "dv");
          for (int threads = 2; threads <= 4; ++threads) {
            Problem other(t.t, s[0], s[1], s[2], s[3], dropout);
            other.run(threads);
            ASSERT_EQ(other.out.bytes, p.out.bytes);
            ASSERT_EQ(other.lse.bytes, p.lse.bytes);
            ASSERT_EQ(other.dq.bytes, p.dq.bytes);
            ASSERT_EQ(other.dk.bytes, p.dk.bytes);
            ASSERT_EQ(other.dv.bytes, p.dv.bytes);
          }
        }
  });
}

// Scores differ by millions: all exponentials but the greatest are zero, so the output is its value bit for bit.
TEST(Attention, OneKeyTakesAllWhereScoresLieFarApart) {
  on_every_path([] {
    for (const auto type : {DType::f32, DType::bf16}) {
      Problem p(type, 130, 2, 2, 16);
      p.s.scale = 1e7;
      p.run(2);
      std::int64_t far = 0;
      for (std::int64_t row = 0; row < 260; ++row)
        for (std::int64_t h = 0; h < 2; ++h) {
          const auto T = p.s.sequence, b = row / T, i = row % T;
          double best = -1e300, second = -1e300;
          std::int64_t winner = 0;
          for (std::int64_t j = p.start[static_cast<std::size_t>(row)]; j <= i; ++j) {
            double score = 0;
            for (std::int64_t c = 0; c < 16; ++c) score += p.q(row, 16 * h + c) * p.k(b * T + j, 16 * h + c);
            if (score > best) second = best, best = score, winner = j;
            else if (score > second) second = score;
          }
          if ((best - second) * p.s.scale < 1e4) continue;  // f32 cannot show which is greater
          ++far;
          for (std::int64_t c = 0; c < 16; ++c)
            ASSERT_EQ(p.out(row, 16 * h + c), p.v(b * T + winner, 16 * h + c)) << row << "," << h << "," << c;
        }
      ASSERT_GE(far, 400);
    }
  });
}

TEST(Attention, WhatIsNoNumberShows) {
  on_every_path([] {
    for (const auto type : {DType::f32, DType::bf16}) {
      Problem p(type, 130, 2, 2, 16), sound(type, 130, 2, 2, 16);
      p.q.set(77, 3, std::nan(""));
      p.forward(2), sound.forward(2);
      for (std::int64_t row = 0; row < 260; ++row)
        for (std::int64_t c = 0; c < 32; ++c) {
          if (row == 77 && c < 16) ASSERT_TRUE(std::isnan(p.out(row, c))) << c;
          else ASSERT_EQ(p.out(row, c), sound.out(row, c)) << row << "," << c;
        }
    }
  });
}

// Eight query heads share a key-value head. Their sum is rounded to bf16 once, so it is within half a unit of the exact
// sum. Paths with pairs or tiles round each probability first, so this bound does not hold there.
TEST(Attention, SharedHeadsAreRoundedOnce) {
  on_every_path([] {
    if (kernels::base_of(kernels::active_isa()) != kernels::active_isa()) return;
    Problem p(DType::bf16, 130, 8, 1, 16);
    p.run(2);
    const Expected e(p);
    for (std::int64_t i = 0; i < e.dv.rows; ++i)
      for (std::int64_t j = 0; j < e.dv.cols; ++j)
        ASSERT_LE(std::abs(p.dv(i, j) - e.dv(i, j)), std::abs(e.dv(i, j)) * 0x1.02p-8 + 1e-4) << i << "," << j;
  });
}

TEST(Attention, GradientsEqualFiniteDifferences) {
  Problem p(DType::f64, 9, 2, 1, 3, 0.3);
  p.run(1);
  const auto loss = [&] {
    p.forward(1);
    double sum = 0;
    for (std::int64_t i = 0; i < p.out.rows; ++i)
      for (std::int64_t j = 0; j < p.out.cols; ++j) sum += p.out(i, j) * p.dout(i, j);
    return sum;
  };
  for (auto [x, dx] : {std::pair{&p.q, &p.dq}, {&p.k, &p.dk}, {&p.v, &p.dv}})
    for (std::int64_t i = 0; i < x->rows; ++i)
      for (std::int64_t j = 0; j < x->cols; ++j) {
        const double old = (*x)(i, j), step = 1e-5;
        x->set(i, j, old + step);
        const double up = loss();
        x->set(i, j, old - step);
        const double down = loss();
        x->set(i, j, old);
        ASSERT_NEAR((*dx)(i, j), (up - down) / (2 * step), 1e-8);
      }
}

TEST(Attention, AnotherDocumentChangesNoBit) {
  on_every_path([] {
    for (const DType t : {DType::f32, DType::bf16}) {
      Problem p(t, 150, 2, 1, 24), edited(t, 150, 2, 1, 24);
      for (std::int64_t i = 0; i < 50; ++i)
        for (std::int64_t c = 0; c < 24; ++c)
          edited.k.set(i, c, 50.0 * (i - c)), edited.v.set(i, c, -1e6 * c), edited.q.set(i, c, 9),
              edited.dout.set(i, c, 1e5);
      p.run(2), edited.run(3);
      for (std::int64_t i = 50; i < 300; ++i)
        for (std::int64_t c = 0; c < 48; ++c) {
          ASSERT_EQ(p.out(i, c), edited.out(i, c));
          ASSERT_EQ(p.dq(i, c), edited.dq(i, c));
          if (c >= 24) continue;
          ASSERT_EQ(p.dk(i, c), edited.dk(i, c));
          ASSERT_EQ(p.dv(i, c), edited.dv(i, c));
        }
      ASSERT_NE(p.out(49, 0), edited.out(49, 0));
    }
  });
}

TEST(Attention, KeepsTheStatedShare) {
  // With v = 1 and q = 0, out is the kept share of i + 1 visible keys, over 1 - p. Its mean is 1.
  Problem p(DType::f32, 200, 2, 2, 1, 0.25);
  for (std::int64_t i = 0; i < p.q.rows; ++i)
    for (std::int64_t j = 0; j < 2; ++j) p.q.set(i, j, 0), p.v.set(i, j, 1);
  std::fill(p.start.begin(), p.start.end(), 0);
  p.forward(2);
  double kept = 0, pairs = 0;
  for (std::int64_t i = 0; i < p.q.rows; ++i)
    for (std::int64_t j = 0; j < 2; ++j)
      kept += p.out(i, j) * 0.75 * static_cast<double>(i % 200 + 1), pairs += static_cast<double>(i % 200 + 1);
  EXPECT_NEAR(kept / pairs, 0.75, 5 * std::sqrt(0.75 * 0.25 / pairs));
}

TEST(Attention, MemoryIsLinearInTheSequence) {
  const auto at = [](std::int64_t T) { return plan::attention_backward_scratch_bytes(T, 64, 2, 8, 4); };
  EXPECT_EQ(at(4096) - at(2048), 2 * (at(2048) - at(1024)));
  for (std::int64_t T : {256, 1024}) {
    Problem p(DType::f32, T, 2, 1, 16);
    Bench b(2);
    kernels::attention_forward(*b, {.shape = p.s,
                                    .q = p.q.view(),
                                    .k = p.k.view(),
                                    .v = p.v.view(),
                                    .document_start = p.starts(),
                                    .out = p.out.view(),
                                    .lse = p.lse.view()});
    EXPECT_LE(b.arena.peak_bytes(), plan::attention_forward_scratch_bytes(T, 16, 2, 2));
  }
}

}  // namespace attention_test
}  // namespace trainyard::test
