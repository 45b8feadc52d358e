// Compares attention with listed parts of tiles, both directions and ends of keys with plain double sums over the pairs
// that exist.
#include "kernels/attention/attention.h"
#include "libtrain/base/random.h"
#include "libtrain/plan/blocks/scratch.h"
#include "tests/kernels/attention_case.h"
#include "tests/kernels/matrix_buffer.h"
#include "tests/night.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

namespace trainyard::test {
namespace attention_blocks_test {

constexpr auto part = AttentionParts::part, tile = AttentionParts::tile;
const std::uint64_t samples[] = {11, 5};

using Case = AttentionCase;

struct Blocks {
  Case c;
  kernels::AttentionShape s;
  MatrixBuffer q, k, v, dout, out, lse, dq, dk, dv;
  AttentionSpans spans;
  AttentionParts parts;
  AttentionLists lists;

  Blocks(const Case& c, DType t) : Blocks(c, t, AttentionParts(c)) {}
  Blocks(const Case& c, DType t, AttentionParts drawn)
      : c(c), q(t, 2 * c.T, c.heads * c.d, 3), k(t, 2 * c.T, c.kv * c.d, 1), v(t, 2 * c.T, c.kv * c.d),
        dout(t, 2 * c.T, c.heads * c.d), out(t, 2 * c.T, c.heads * c.d, 2), lse(sums(t), 2 * c.heads, c.T),
        dq(t, 2 * c.T, c.heads * c.d), dk(t, 2 * c.T, c.kv * c.d), dv(t, 2 * c.T, c.kv * c.d), spans(c),
        parts(std::move(drawn)), lists(parts) {
    s.batch = 2, s.sequence = c.T, s.heads = c.heads, s.kv_heads = c.kv, s.head_dim = c.d, s.scale = 0.7;
    s.dropout = c.dropout, s.seed = 99, s.site = 1234, s.samples = samples;
    s.visibility.causal = c.causal, s.visibility.window = c.window, s.softcap = c.softcap;
    if (c.list_heads > 0) {
      s.visibility.by_queries = lists.by_queries.view(lists.tiles, lists.heads);
      s.visibility.by_keys = lists.by_keys.view(lists.tiles, lists.heads);
      s.visibility.first_head = c.first_head;
    }
    q.fill(c.seed), k.fill(c.seed + 1), v.fill(c.seed + 2), dout.fill(c.seed + 3);
    if (spans.ends) s.key_end = spans.end.data();
  }
  static DType sums(DType t) { return t == DType::f64 ? DType::f64 : DType::f32; }
  base::View starts() { return base::View::of(spans.start.data(), {2, s.sequence}); }
  void forward(int threads) {
    Bench b(threads);
    kernels::attention_forward(*b, {.shape = s,
                                    .q = q.view(),
                                    .k = k.view(),
                                    .v = v.view(),
                                    .document_start = starts(),
                                    .out = out.view(),
                                    .lse = lse.view()});
    const auto planned = plan::attention_forward_scratch_bytes(c.T, c.d, 2 * c.kv, threads);
    EXPECT_EQ(b.arena.peak_bytes(), planned);
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
    const auto planned = plan::attention_backward_scratch_bytes(c.T, c.d, c.heads / c.kv, 2 * c.kv, threads);
    EXPECT_EQ(b.arena.peak_bytes(), planned);
  }
  bool sees(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    const auto at = static_cast<std::size_t>(b * c.T + i);
    return (!c.causal || j <= i) && (c.window == 0 || std::abs(i - j) < c.window) && j >= spans.start[at] &&
           j < spans.end[at] && (c.list_heads == 0 || parts.has(c.first_head + h, i / part, j / part));
  }
  double mask(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    if (c.dropout == 0) return 1;
    const auto word = base::random_words(
        s.seed + samples[b] * 0x9E3779B97F4A7C15ull, s.site + static_cast<std::uint64_t>(h),
        (static_cast<std::uint64_t>(i) << 32) + static_cast<std::uint64_t>(j / 4))[static_cast<std::size_t>(j % 4)];
    return word >= static_cast<std::uint32_t>(c.dropout * 0x1p32) ? 1 / (1 - c.dropout) : 0;
  }
};

struct Wanted {
  MatrixBuffer out, dq, dk, dv;
  std::vector<double> lse;
  explicit Wanted(const Blocks& p)
      : out(DType::f64, p.q.rows, p.q.cols), dq(out), dk(DType::f64, p.k.rows, p.k.cols), dv(dk) {
    for (auto* m : {&out, &dq, &dk, &dv})
      for (std::int64_t i = 0; i < m->rows; ++i)
        for (std::int64_t j = 0; j < m->cols; ++j) m->set(i, j, 0);
    for (std::int64_t b = 0; b < 2; ++b)
      for (std::int64_t h = 0; h < p.c.heads; ++h)
        for (std::int64_t i = 0; i < p.c.T; ++i) row(p, b, h, i);
  }
  void row(const Blocks& p, std::int64_t b, std::int64_t h, std::int64_t i) {
    const auto T = p.c.T, d = p.c.d, y0 = h / (p.c.heads / p.c.kv) * d;
    std::vector<double> w(static_cast<std::size_t>(T), 0), g(w), slope(w);
    double sum = 0, mean = 0;
    for (std::int64_t j = 0; j < T; ++j) {
      if (!p.sees(b, h, i, j)) continue;
      double s = 0, dp = 0;
      for (std::int64_t c = 0; c < d; ++c)
        s += p.q(b * T + i, h * d + c) * p.k(b * T + j, y0 + c),
            dp += p.dout(b * T + i, h * d + c) * p.v(b * T + j, y0 + c);
      const auto at = static_cast<std::size_t>(j);
      const double score = s * p.s.scale, cap = p.c.softcap, share = cap == 0 ? 0 : std::tanh(score / cap);
      w[at] = std::exp(cap == 0 ? score : cap * share), g[at] = dp * p.mask(b, h, i, j);
      slope[at] = 1 - share * share;
      sum += w[at];
    }
    lse.push_back(sum == 0 ? std::numeric_limits<double>::infinity() : std::log(sum));
    if (sum == 0) return;
    for (std::size_t j = 0; j < w.size(); ++j) w[j] /= sum, mean += w[j] * g[j];
    for (std::int64_t j = 0; j < T; ++j) {
      const auto at = static_cast<std::size_t>(j);
      if (!p.sees(b, h, i, j)) continue;
      const double pm = w[at] * p.mask(b, h, i, j), ds = w[at] * (g[at] - mean) * slope[at] * p.s.scale;
      for (std::int64_t c = 0; c < d; ++c) {
        const auto x = h * d + c, y = y0 + c;
        out.set(b * T + i, x, out(b * T + i, x) + pm * p.v(b * T + j, y));
        dq.set(b * T + i, x, dq(b * T + i, x) + ds * p.k(b * T + j, y));
        dk.set(b * T + j, y, dk(b * T + j, y) + ds * p.q(b * T + i, x));
        dv.set(b * T + j, y, dv(b * T + j, y) + pm * p.dout(b * T + i, x));
      }
    }
  }
};

void close_to(const MatrixBuffer& got, const MatrixBuffer& want, double tolerance, const char* what) {
  for (std::int64_t i = 0; i < want.rows; ++i)
    for (std::int64_t j = 0; j < want.cols; ++j)
      ASSERT_LE(std::abs(got(i, j) - want(i, j)), tolerance * (1 + std::abs(want(i, j))))
          << what << " " << i << "," << j;
  ASSERT_TRUE(got.gap_untouched());
}

void equals_the_definition(const Case& c, DType t, double tolerance, int threads) {
  Blocks p(c, t);
  p.run(threads);
  const Wanted e(p);
  close_to(p.out, e.out, tolerance, "out"), close_to(p.dq, e.dq, tolerance, "dq");
  close_to(p.dk, e.dk, tolerance, "dk"), close_to(p.dv, e.dv, tolerance, "dv");
  for (std::int64_t h = 0; h < p.lse.rows; ++h)
    for (std::int64_t i = 0; i < c.T; ++i) {
      const double want = e.lse[static_cast<std::size_t>(h * c.T + i)];
      if (std::isinf(want)) ASSERT_EQ(p.lse(h, i), want);
      else ASSERT_NEAR(p.lse(h, i), want, tolerance);
    }
}

void same_bits(const Blocks& a, const Blocks& b) {
  ASSERT_EQ(a.out.bytes, b.out.bytes);
  ASSERT_EQ(a.lse.bytes, b.lse.bytes);
  ASSERT_EQ(a.dq.bytes, b.dq.bytes);
  ASSERT_EQ(a.dk.bytes, b.dk.bytes);
  ASSERT_EQ(a.dv.bytes, b.dv.bytes);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const bool causal : {true, false}) {
    all.push_back({150, 2, 1, 20, causal, 0.25, 1, 0, 0, 0.5, false, true});
    all.push_back({200, 2, 2, 40, causal, 0, 5, 2, 3, 0.3, true, false});
    all.push_back({130, 4, 2, 16, causal, 0.125, 4, 0, 1, 0.2, true, true});
    all.push_back({97, 1, 1, 64, causal, 0, 0, 0, 0, 1, true, true});
    all.push_back({70, 2, 1, 128, causal, 0, 1, 0, 0, 0.05, false, false});
  }
  return all;
}

std::vector<Case> cases_with_windows() {
  auto all = cases();
  for (std::size_t n = 1; n < all.size(); n += 2) all[n].window = n % 4 == 1 ? 70 : 200, all[n].softcap = 1;
  return all;
}

TEST(AttentionBlocks, EqualTheDefinitionOnEveryPath) {
  on_every_path([] {
    for (const auto& c : cases()) {
      SCOPED_TRACE(::testing::Message() << c.T << (c.causal ? " causal" : " both ways"));
      equals_the_definition(c, DType::f32, 3e-5, 1);
      equals_the_definition(c, DType::bf16, 6e-2, 2);
      equals_the_definition(c, DType::f64, 1e-11, 2);
      if (::testing::Test::HasFatalFailure()) return;
    }
  });
}

// Windows beside the sides of parts and tiles, longer than the sequence, and with everything else. Caps that most
// scores come near to.
std::vector<Case> windows_and_caps() {
  std::vector<Case> all;
  for (const std::int64_t window : {1, 3, 16, 63, 64, 65, 201})
    for (const bool causal : {true, false}) {
      const bool lists = window % 3 == 0, padded = window % 2 == 0;
      all.push_back({150, 2, 1, 12, causal, window == 16 ? 0.25 : 0, lists ? 1 : 0, 0, 0, 0.7, padded, !padded, 1,
                     window, window % 8 == 1 ? 1.5 : 0});
    }
  all.push_back({130, 2, 2, 16, true, 0.125, 0, 0, 0, 1, false, true, 1, 0, 0.5});
  all.push_back({130, 2, 1, 24, false, 0, 2, 0, 0, 0.6, true, false, 1, 0, 3});
  return all;
}

TEST(AttentionBlocks, WindowsAndCapsEqualTheDefinitionOnEveryPath) {
  on_every_path([] {
    for (const auto& c : windows_and_caps()) {
      SCOPED_TRACE(::testing::Message() << "window " << c.window << ", cap " << c.softcap
                                        << (c.causal ? ", causal" : ", both ways"));
      equals_the_definition(c, DType::f32, 3e-5, 2);
      equals_the_definition(c, DType::bf16, 6e-2, 1);
      equals_the_definition(c, DType::f16, 8e-3, 2);
      equals_the_definition(c, DType::f64, 1e-11, 1);
      if (::testing::Test::HasFatalFailure()) return;
    }
  });
}

// Lists use other loops, also where a window and a cap are with them.
TEST(AttentionBlocks, AListOfEverythingChangesNoBitOfAWindow) {
  on_every_path([] {
    for (const DType t : {DType::f32, DType::bf16})
      for (const std::int64_t window : {3, 64, 65, 100}) {
        const Case c{200, 2, 1, 16, true, 0.2, 0, 0, 0, 1, false, true, 1, window, 2},
            listed{200, 2, 1, 16, true, 0.2, 1, 0, 2, 1, false, true, 1, window, 2};
        Blocks dense(c, t), all(listed, t);
        dense.run(2), all.run(3);
        same_bits(dense, all);
      }
  });
}

// Keys and values of tiles before all windows are not read, nor are queries whose window begins behind a tile of keys.
TEST(AttentionBlocks, TilesOutsideOfWindowsAreNotTouched) {
  on_every_path([] {
    for (const std::int64_t lists : {0, 1})
      for (const DType t : {DType::f32, DType::bf16}) {
        const Case c{320, 2, 1, 16, true, 0, lists, 0, 0, 1, false, false, 1, tile + 1, 0};
        Blocks plain(c, t), poisoned(c, t);
        for (std::int64_t b = 0; b < 2; ++b)
          for (std::int64_t r = 0; r < tile; ++r)
            for (std::int64_t x = 0; x < 16; ++x)
              poisoned.k.set(b * 320 + r, x, NAN), poisoned.v.set(b * 320 + r, x, NAN);
        plain.run(2), poisoned.run(2);
        for (std::int64_t b = 0; b < 2; ++b)
          for (std::int64_t i = 2 * tile; i < 320; ++i)  // the first of them sees keys from 64 on
            for (std::int64_t x = 0; x < 32; ++x) {
              ASSERT_EQ(plain.out(b * 320 + i, x), poisoned.out(b * 320 + i, x)) << i;
              ASSERT_EQ(plain.dq(b * 320 + i, x), poisoned.dq(b * 320 + i, x)) << i;
            }
        ASSERT_TRUE(std::isnan(poisoned.out(2 * tile - 1, 0)));
        Blocks other(c, t);
        for (std::int64_t x = 0; x < 32; ++x) other.q.set(2 * tile, x, NAN), other.dout.set(2 * tile, x, NAN);
        other.run(2);
        for (std::int64_t j = 0; j < tile; ++j)
          for (std::int64_t x = 0; x < 16; ++x) {
            ASSERT_EQ(plain.dk(j, x), other.dk(j, x)) << j;
            ASSERT_EQ(plain.dv(j, x), other.dv(j, x)) << j;
          }
        ASSERT_TRUE(std::isnan(other.dk(2 * tile, 0)));
      }
  });
}

// Whichever thread works on a query's keys adds to the query's gradient, in the order of keys.
TEST(AttentionBlocks, SameBitsForEveryNumberOfThreads) {
  on_every_path([] {
    for (const DType t : {DType::f32, DType::bf16})
      for (auto c : cases_with_windows()) {
        c.T += 400, c.d = 16;
        Blocks one(c, t);
        one.run(1);
        for (const int threads : t == DType::bf16      ? std::vector{3}
                                 : testing::at_night() ? std::vector{2, 3, 4, 7}
                                                       : std::vector{2, 7}) {
          Blocks other(c, t);
          other.run(threads);
          same_bits(one, other);
        }
      }
  });
}

// By day 300 of the thousand.
TEST(AttentionBlocks, AThousandRandomOnes) {
  std::mt19937_64 random(7);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  for (int n = 0; n < testing::by_day_or_night(300, 1000); ++n) {
    Case c;
    c.T = 1 + below(140), c.kv = 1 + below(2), c.heads = c.kv * (1 + below(2)), c.d = 1 + below(20);
    c.causal = below(2) == 0, c.dropout = below(4) == 0 ? 0.2 : 0;
    c.first_head = below(2), c.list_heads = below(2) == 0 ? 1 : c.heads + c.first_head + below(2);
    c.beyond = below(6), c.share = static_cast<double>(below(11)) / 10, c.padded = below(3) == 0,
    c.documents = below(3) == 0, c.seed = random();
    c.window = below(3) == 0 ? 1 + below(c.T + 2) : 0, c.softcap = below(3) == 0 ? 2 : 0;
    SCOPED_TRACE(n);
    equals_the_definition(c, DType::f32, 3e-5, 1 + static_cast<int>(below(4)));
    if (HasFatalFailure()) return;
  }
}

// Rows of 16 are read in place, rows of 24 are packed, and the rows of 20 tiles are packed once for all their readers.
TEST(AttentionBlocks, AListOfEverythingChangesNoBit) {
  on_every_path([] {
    for (const DType t : {DType::f32, DType::bf16})
      for (const bool causal : {true, false})
        for (const auto& [d, T] : {std::pair<std::int64_t, std::int64_t>{16, 150}, {24, 150}, {16, 1250}, {24, 1250}}) {
          if (t == DType::bf16 && T > 150) continue;  // rows of bf16 are always packed
          const Case c{T, 2, 1, d, causal, 0.2, 0, 0, 0, 1, false, true},
              listed{T, 2, 1, d, causal, 0.2, 1, 0, 2, 1, false, true};
          Blocks dense(c, t), all(listed, t);
          dense.run(2), all.run(2);
          same_bits(dense, all);
        }
  });
}

// Parts that no query sees are left out of a whole tile. The bits equal those with zeros there.
TEST(AttentionBlocks, WhatIsLeftOutOfATileChangesNoBit) {
  on_every_path([] {
    for (const auto& [t, end] : {std::pair{DType::f32, 20},
                                 {DType::f32, 64},
                                 {DType::f32, 75},
                                 {DType::f32, 128},
                                 {DType::bf16, 20},
                                 {DType::bf16, 75}}) {
      const Case c{128, 2, 1, 16, false, 0.2, 0, 0, 0, 1, false, false};
      Blocks cut(c, t), shown(c, t);
      cut.spans.end.assign(cut.spans.end.size(), static_cast<std::int32_t>(end)), cut.s.key_end = cut.spans.end.data();
      // Keys behind the end that all queries see. Their scores are too far below the others for a probability.
      for (std::int64_t b = 0; b < 2; ++b)
        for (std::int64_t i = 0; i < 128; ++i)
          for (std::int64_t x = 0; x < 16; ++x)
            for (Blocks* p : {&cut, &shown}) {
              if (x == 0) p->q.set(b * 128 + i, 0, 1), p->q.set(b * 128 + i, 16, 1);
              if (i >= end) p->k.set(b * 128 + i, x, x == 0 ? -1000 : 0);
            }
      cut.run(2), shown.run(2);
      ASSERT_EQ(cut.out.bytes, shown.out.bytes);
      ASSERT_EQ(cut.lse.bytes, shown.lse.bytes);
      ASSERT_EQ(cut.dv.bytes, shown.dv.bytes);
      for (std::int64_t b = 0; b < 2; ++b)
        for (std::int64_t i = 0; i < end; ++i)
          for (std::int64_t x = 0; x < 16; ++x) ASSERT_EQ(cut.dk(b * 128 + i, x), shown.dk(b * 128 + i, x));
    }
  });
}

TEST(AttentionBlocks, AQueryThatSeesNothingGivesZeros) {
  on_every_path([] {
    const Case c{100, 1, 1, 8, false, 0, 1, 0, 0, 0, false, false};
    AttentionParts none(1, 7);
    for (std::int64_t j = 0; j < 7; ++j) none.at(0, 2, j) = 1;  // queries 32 .. 47 see all, other queries nothing
    for (const DType t : {DType::f32, DType::bf16, DType::f64, DType::f16}) {
      Blocks p(c, t, none);
      p.run(3);
      for (std::int64_t i = 0; i < 200; ++i)
        for (std::int64_t x = 0; x < 8; ++x) {
          const bool sees = i % 100 / part == 2;
          ASSERT_EQ(p.out(i, x) != 0, sees) << i;
          ASSERT_EQ(p.dq(i, x) != 0, sees) << i;
          ASSERT_FALSE(std::isnan(p.dk(i, x)) || std::isnan(p.dv(i, x))) << i;
        }
      for (std::int64_t i = 0; i < 100; ++i) ASSERT_EQ(std::isinf(p.lse(0, i)), i / part != 2);
    }
  });
}

// Keys and values of a tile that no query sees are not read, nor are queries that see nothing.
TEST(AttentionBlocks, AbsentTilesAreNotTouched) {
  on_every_path([] {
    const Case c{320, 2, 1, 16, false, 0, 1, 0, 0, 0, false, false};
    AttentionParts p(1, 20);
    for (std::int64_t i = 0; i < 20; ++i)
      for (std::int64_t j = 0; j < 20; ++j) p.at(0, i, j) = i / 4 != 3 && j / 4 != 1;
    for (const DType t : {DType::f32, DType::bf16}) {
      Blocks plain(c, t, p), poisoned(c, t, p);
      for (std::int64_t b = 0; b < 2; ++b)
        for (std::int64_t r = 0; r < tile; ++r)
          for (std::int64_t x = 0; x < 16; ++x)
            poisoned.k.set(b * 320 + tile + r, x, NAN), poisoned.v.set(b * 320 + tile + r, x, NAN);
      plain.run(2), poisoned.run(2);
      same_bits(plain, poisoned);
    }
  });
}

// A later key or value changes no bit of an earlier query and gets no gradient from it, whatever a list says.
TEST(AttentionBlocks, CausalToTheElement) {
  on_every_path([] {
    for (const auto& [t, T] :
         {std::pair<DType, std::int64_t>{DType::f32, 50}, {DType::f32, 64}, {DType::f32, 130}, {DType::bf16, 70}})
      for (const double share : {1.0, 0.4}) {
        const Case c{T, 2, 1, 12, true, 0, 2, 0, 1, share, false, false};
        Blocks before(c, t);
        before.forward(1);
        for (std::int64_t j = 0; j < T; j += 3) {
          Blocks after(c, t);
          for (std::int64_t x = 0; x < 12; ++x)
            after.k.set(j, x, 40.0 - 7 * static_cast<double>(x)), after.v.set(j, x, 1e5);
          after.forward(2);
          for (std::int64_t i = 0; i < j; ++i)
            for (std::int64_t x = 0; x < 24; ++x) ASSERT_EQ(before.out(i, x), after.out(i, x)) << i << " " << j;
          if (share < 1) continue;
          ASSERT_NE(before.out(j, 0), after.out(j, 0));
        }
      }
  });
}

TEST(AttentionBlocks, GradientsEqualFiniteDifferences) {
  Case c{37, 2, 1, 3, false, 0.3, 2, 0, 0, 0.6, true, false, 1, 20, 2.5};
  Blocks p(c, DType::f64);
  p.run(1);
  const auto loss = [&] {
    p.forward(1);
    double sum = 0;
    for (std::int64_t i = 0; i < p.out.rows; ++i)
      for (std::int64_t j = 0; j < p.out.cols; ++j) sum += p.out(i, j) * p.dout(i, j);
    return sum;
  };
  for (auto [x, dx] : {std::pair{&p.q, &p.dq}, {&p.k, &p.dk}, {&p.v, &p.dv}})
    for (std::int64_t i = 0; i < x->rows; i += 5)
      for (std::int64_t j = 0; j < x->cols; ++j) {
        const double old = (*x)(i, j), step = 1e-5;
        x->set(i, j, old + step);
        const double up = loss();
        x->set(i, j, old - step);
        const double down = loss();
        x->set(i, j, old);
        ASSERT_NEAR((*dx)(i, j), (up - down) / (2 * step), 1e-8) << i << "," << j;
      }
}

}  // namespace attention_blocks_test
}  // namespace trainyard::test
