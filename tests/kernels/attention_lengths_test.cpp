// Compares attention to the keys of another sequence, and attention with a bias of positions, with plain double sums,
// finite differences and PyTorch.
#include "kernels/attention/attention.h"
#include "kernels/attention/attention_args.h"
#include "libtrain/base/random.h"
#include "libtrain/plan/blocks/scratch.h"
#include "tests/golden/attention_golden.h"
#include "tests/kernels/attention_case.h"
#include "tests/kernels/matrix_buffer.h"
#include "tests/night.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

namespace trainyard::test {
namespace attention_lengths_test {

const std::uint64_t samples[] = {11, 5};

struct Pair {
  AttentionCase c;
  kernels::AttentionShape s;
  MatrixBuffer q, k, v, dout, bias, out, lse, dq, dk, dv, d_bias;
  AttentionSpans spans;
  AttentionParts parts;
  AttentionLists lists;
  bool wants_bias = true;  // the gradient of the bias

  Pair(const AttentionCase& c, DType t)
      : c(c), q(t, 2 * c.T, c.heads * c.d, 3), k(t, 2 * c.key_count(), c.kv * c.d, 1),
        v(t, 2 * c.key_count(), c.kv * c.d), dout(t, 2 * c.T, c.heads * c.d),
        bias(accumulation(t), c.heads, c.distances()), out(t, 2 * c.T, c.heads * c.d, 2),
        lse(accumulation(t), 2 * c.heads, c.T), dq(t, 2 * c.T, c.heads * c.d), dk(t, 2 * c.key_count(), c.kv * c.d, 2),
        dv(t, 2 * c.key_count(), c.kv * c.d), d_bias(accumulation(t), c.heads, c.distances(), 3), spans(c), parts(c),
        lists(parts) {
    s.batch = 2, s.sequence = c.T, s.key_sequence = c.keys, s.heads = c.heads, s.kv_heads = c.kv, s.head_dim = c.d;
    s.scale = 0.7, s.dropout = c.dropout, s.seed = 99, s.site = 1234, s.samples = samples;
    s.visibility.causal = c.causal, s.visibility.window = c.window, s.softcap = c.softcap;
    if (c.list_heads > 0) {
      s.visibility.by_queries = lists.by_queries.view(lists.tiles, lists.heads);
      s.visibility.by_keys = lists.by_keys.view(lists.tiles, lists.heads);
      s.visibility.first_head = c.first_head;
    }
    q.fill(c.seed), k.fill(c.seed + 1), v.fill(c.seed + 2), dout.fill(c.seed + 3), bias.fill(c.seed + 4);
    if (spans.ends) s.key_end = spans.end.data();
    if (c.biased) s.bias = bias.bytes.data();
  }
  base::View starts() { return base::View::of(spans.start.data(), {2, c.T}); }
  void forward(int threads) {
    Bench b(threads);
    kernels::attention_forward(*b, {.shape = s,
                                    .q = q.view(),
                                    .k = k.view(),
                                    .v = v.view(),
                                    .document_start = starts(),
                                    .out = out.view(),
                                    .lse = lse.view()});
    ASSERT_EQ(b.arena.peak_bytes(), plan::attention_forward_scratch_bytes(c.key_count(), c.d, 2 * c.kv, threads));
  }
  void run(int threads) {
    forward(threads);
    Bench b(threads);
    const bool wanted = c.biased && wants_bias;
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
                                     .dv = dv.view(),
                                     .d_bias = wanted ? d_bias.view() : base::View{}});
    ASSERT_EQ(b.arena.peak_bytes(), plan::attention_backward_scratch_bytes(c.T, c.d, c.heads / c.kv, 2 * c.kv, threads,
                                                                           wanted ? c.distances() : 0));
  }
  bool sees(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    const auto at = static_cast<std::size_t>(b * c.T + i);
    constexpr auto part = AttentionParts::part;
    return (!c.causal || j <= i) && (c.window == 0 || std::abs(i - j) < c.window) && j >= spans.start[at] &&
           j < spans.end[at] && (c.list_heads == 0 || parts.has(c.first_head + h, i / part, j / part));
  }
  // The scale of a kept pair, or 0 for a dropped one, by the formula in the header.
  double mask(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    if (c.dropout == 0) return 1;
    const auto words =
        base::random_words(s.seed + samples[b] * 0x9E3779B97F4A7C15ull, s.site + static_cast<std::uint64_t>(h),
                           (static_cast<std::uint64_t>(i) << 32) + static_cast<std::uint64_t>(j / 4));
    const auto word = words[static_cast<std::size_t>(j % 4)];
    return word >= static_cast<std::uint32_t>(c.dropout * 0x1p32) ? 1 / (1 - c.dropout) : 0;
  }
  std::vector<const MatrixBuffer*> results() const {
    std::vector<const MatrixBuffer*> all{&out, &lse, &dq, &dk, &dv};
    if (c.biased && wants_bias) all.push_back(&d_bias);
    return all;
  }
};

// The results by the definition, one query at a time.
struct ByDefinition {
  MatrixBuffer out, lse, dq, dk, dv, d_bias;
  explicit ByDefinition(const Pair& p)
      : out(DType::f64, p.q.rows, p.q.cols), lse(DType::f64, p.lse.rows, p.lse.cols), dq(out),
        dk(DType::f64, p.k.rows, p.k.cols), dv(dk), d_bias(DType::f64, p.bias.rows, p.bias.cols) {
    for (auto* m : {&out, &lse, &dq, &dk, &dv, &d_bias})
      for (std::int64_t i = 0; i < m->rows; ++i)
        for (std::int64_t j = 0; j < m->cols; ++j) m->set(i, j, 0);
    for (std::int64_t b = 0; b < 2; ++b)
      for (std::int64_t h = 0; h < p.c.heads; ++h)
        for (std::int64_t i = 0; i < p.c.T; ++i) query(p, b, h, i);
  }
  static void add(MatrixBuffer& m, std::int64_t i, std::int64_t j, double x) { m.set(i, j, m(i, j) + x); }
  void query(const Pair& p, std::int64_t b, std::int64_t h, std::int64_t i) {
    const auto T = p.c.T, K = p.c.key_count(), d = p.c.d, y0 = h / (p.c.heads / p.c.kv) * d, row = b * T + i;
    struct Seen {
      std::int64_t j;
      double weight, gradient, slope;
    };
    std::vector<Seen> keys;
    double sum = 0, mean = 0;
    for (std::int64_t j = 0; j < K; ++j) {
      if (!p.sees(b, h, i, j)) continue;
      double score = 0, gradient = 0, slope = 1;
      for (std::int64_t x = 0; x < d; ++x) {
        score += p.q(row, h * d + x) * p.k(b * K + j, y0 + x) * p.s.scale;
        gradient += p.dout(row, h * d + x) * p.v(b * K + j, y0 + x);
      }
      if (p.c.softcap > 0) {
        const double share = std::tanh(score / p.c.softcap);
        score = p.c.softcap * share, slope = 1 - share * share;
      }
      if (p.c.biased) score += p.bias(h, j - i + T - 1);
      keys.push_back({j, std::exp(score), gradient * p.mask(b, h, i, j), slope});
      sum += keys.back().weight;
    }
    lse.set(b * p.c.heads + h, i, keys.empty() ? std::numeric_limits<double>::infinity() : std::log(sum));
    for (auto& key : keys) key.weight /= sum, mean += key.weight * key.gradient;
    for (const auto& key : keys) {
      const double kept = key.weight * p.mask(b, h, i, key.j), ds = key.weight * (key.gradient - mean),
                   dx = ds * key.slope * p.s.scale;
      add(d_bias, h, key.j - i + T - 1, ds);
      for (std::int64_t x = 0; x < d; ++x) {
        add(out, row, h * d + x, kept * p.v(b * K + key.j, y0 + x));
        add(dq, row, h * d + x, dx * p.k(b * K + key.j, y0 + x));
        add(dk, b * K + key.j, y0 + x, dx * p.q(row, h * d + x));
        add(dv, b * K + key.j, y0 + x, kept * p.dout(row, h * d + x));
      }
    }
  }
  std::vector<const MatrixBuffer*> results() const { return {&out, &lse, &dq, &dk, &dv, &d_bias}; }
};

const char* const names[] = {"out", "lse", "dq", "dk", "dv", "d_bias"};
struct Tolerance {
  DType t;
  double of;
};
const Tolerance tolerances[] = {{DType::f32, 3e-5}, {DType::bf16, 6e-2}, {DType::f16, 8e-3}, {DType::f64, 1e-11}};

void near_definition(const Pair& p, double tolerance) {
  const ByDefinition wanted(p);
  const auto got = p.results(), want = wanted.results();
  for (std::size_t m = 0; m < got.size(); ++m) {
    ASSERT_TRUE(got[m]->gap_untouched()) << names[m];
    for (std::int64_t i = 0; i < got[m]->rows; ++i)
      for (std::int64_t j = 0; j < got[m]->cols; ++j) {
        const double g = (*got[m])(i, j), w = (*want[m])(i, j);
        if (std::isinf(w)) ASSERT_EQ(g, w) << names[m] << " " << i << "," << j;
        else ASSERT_LE(std::abs(g - w), tolerance * (1 + std::abs(w))) << names[m] << " " << i << "," << j;
      }
  }
}

void same_bits(const Pair& p, const Pair& other) {
  const auto a = p.results(), b = other.results();
  for (std::size_t m = 0; m < a.size(); ++m) ASSERT_EQ(a[m]->bytes, b[m]->bytes) << names[m];
}

// A case in a dtype: near the definition, and with the same bits for 1, 2 and 3 threads.
void equals_the_definition(const AttentionCase& c, const Tolerance& t) {
  const auto isa = kernels::active_isa();
  if (t.t != DType::bf16 && kernels::base_of(isa) != isa) return;  // the kernels of its base
  SCOPED_TRACE(::testing::Message() << c.T << " queries, " << c.key_count() << " keys, " << base::name_of(t.t)
                                    << (c.biased ? ", biased, " : ", ") << kernels::name_of(isa));
  Pair p(c, t.t);
  p.run(1);
  near_definition(p, t.of);
  for (int threads = 2; threads <= 3 && !::testing::Test::HasFatalFailure(); ++threads) {
    Pair other(c, t.t);
    other.run(threads);
    same_bits(p, other);
  }
}

AttentionCase pair_of(std::int64_t T, std::int64_t keys, bool biased) {
  AttentionCase c;
  c.T = T, c.keys = keys, c.causal = false, c.biased = biased;
  c.seed = static_cast<std::uint64_t>(1000 * T + keys);
  return c;
}

// Lengths beside the side of a tile, with grouped heads, dropout, several ranges of keys, and queries that see nothing.
TEST(AttentionLengths, EqualsTheDefinitionOnEveryPath) {
  const std::int64_t lengths[][2] = {{1, 17}, {17, 1}, {63, 65}, {65, 63}, {64, 130}, {130, 64}, {130, 17}, {1, 130}};
  on_every_path([&] {
    for (std::int64_t n = 0; n < std::ssize(lengths); ++n)
      for (const auto& t : tolerances) {
        auto c = pair_of(lengths[n][0], lengths[n][1], n % 2 == 1);
        c.kv = 1 + n % 3 % 2, c.heads = c.kv * (1 + n % 2), c.d = n % 2 == 0 ? 16 : 5;
        c.dropout = n % 4 == 2 ? 0.25 : 0, c.documents = n % 3 != 0, c.padded = n % 2 == 0;
        equals_the_definition(c, t);
        if (::testing::Test::HasFatalFailure()) return;
      }
  });
}

TEST(AttentionLengths, RandomOnes) {
  std::mt19937_64 random(7);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  const int cases = testing::at_night() ? 400 : 24;
  for (int n = 0; n < cases; ++n) {
    const auto T = 1 + below(140);
    auto c = pair_of(T, below(4) == 0 ? 0 : 1 + below(140), below(2) == 0);
    c.kv = 1 + below(2), c.heads = c.kv * (1 + below(3)), c.d = 1 + below(24), c.seed = random();
    c.dropout = below(3) == 0 ? 0.25 : 0, c.documents = below(2) == 0, c.padded = below(2) == 0;
    if (c.keys == 0) {
      c.causal = below(2) == 0, c.window = below(3) == 0 ? 1 + below(static_cast<std::uint64_t>(T)) : 0;
      c.list_heads = below(3) == 0 ? c.heads : 0;
    }
    c.softcap = below(4) == 0 ? 1.5 : 0;
    on_every_path([&] {
      if (!::testing::Test::HasFatalFailure()) equals_the_definition(c, tolerances[n % 4]);
    });
    if (HasFatalFailure()) return;
  }
}

// A decoder's own attention: causal, with documents, a window, lists and a cap.
TEST(AttentionLengths, ABiasGoesWithWhatAQuerySees) {
  on_every_path([] {
    for (int n = 0; n < 6; ++n) {
      auto c = pair_of(n % 2 == 0 ? 130 : 65, 0, true);
      c.causal = n != 2, c.heads = 2, c.kv = 1 + n % 2, c.d = 8, c.documents = n % 3 == 1, c.padded = n == 5;
      c.window = n == 3 ? 40 : 0, c.list_heads = n == 4 ? 2 : 0, c.softcap = n >= 4 ? 1.5 : 0;
      c.dropout = n == 1 || n == 4 ? 0.25 : 0;
      for (const auto& t : tolerances) {
        equals_the_definition(c, t);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  });
}

TEST(AttentionLengths, GradientsEqualFiniteDifferences) {
  for (const double softcap : {0.0, 1.5}) {
    auto c = pair_of(5, 7, true);
    c.heads = 2, c.d = 3, c.dropout = 0.3, c.softcap = softcap, c.documents = true;
    Pair p(c, DType::f64);
    p.run(1);
    const auto loss = [&] {
      p.forward(1);
      double sum = 0;
      for (std::int64_t i = 0; i < p.out.rows; ++i)
        for (std::int64_t j = 0; j < p.out.cols; ++j) sum += p.out(i, j) * p.dout(i, j);
      return sum;
    };
    for (auto [x, dx] : {std::pair{&p.q, &p.dq}, {&p.k, &p.dk}, {&p.v, &p.dv}, {&p.bias, &p.d_bias}})
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
}

// tests/golden/attention_golden.py computes the same two sequences with PyTorch.
TEST(AttentionLengths, EqualsPyTorch) {
  for (const auto& g : attention_golden) {
    SCOPED_TRACE(g.name);
    auto c = pair_of(g.queries, g.keys, g.biased);
    c.causal = g.causal, c.heads = g.heads, c.kv = g.kv_heads, c.d = g.head_dim, c.seed = 50;
    Pair p(c, DType::f64);
    for (std::size_t i = 0; i < p.spans.start.size(); ++i) p.spans.start[i] = g.start[i], p.spans.end[i] = g.end[i];
    p.s.key_end = p.spans.end.data();
    p.run(2);
    const std::vector<double>* const want[] = {&g.out, &g.lse, &g.dq, &g.dk, &g.dv, &g.d_bias};
    const auto got = p.results();
    for (std::size_t m = 0; m < got.size(); ++m) {
      ASSERT_EQ(std::ssize(*want[m]), got[m]->rows * got[m]->cols) << names[m];
      for (std::int64_t i = 0; i < got[m]->rows; ++i)
        for (std::int64_t j = 0; j < got[m]->cols; ++j) {
          const double w = (*want[m])[static_cast<std::size_t>(i * got[m]->cols + j)];
          ASSERT_NEAR((*got[m])(i, j), w, 1e-12 * (1 + std::abs(w))) << names[m] << " " << i << "," << j;
        }
    }
  }
}

TEST(AttentionLengths, AsManyKeysAsQueriesChangesNoBit) {
  on_every_path([] {
    for (const DType t : {DType::f32, DType::bf16, DType::f64})
      for (const bool causal : {true, false}) {
        AttentionCase c = pair_of(130, 0, false);
        c.causal = causal, c.heads = 2, c.d = 20, c.documents = true, c.window = causal ? 50 : 0, c.dropout = 0.2;
        Pair usual(c, t), said(c, t);
        said.s.key_sequence = 130;
        usual.run(2), said.run(3);
        same_bits(usual, said);
      }
  });
}

// Nobody may want the gradient of a bias, and what else there is has the same bits.
TEST(AttentionLengths, WithoutTheGradientOfABias) {
  on_every_path([] {
    for (const auto& t : tolerances) {
      auto c = pair_of(70, 100, true);
      c.heads = 2;
      Pair with(c, t.t), without(c, t.t);
      without.wants_bias = false;
      with.run(2), without.run(2);
      same_bits(without, with);
    }
  });
}

TEST(AttentionLengths, WithoutQueriesTheSumsAreZero) {
  for (const auto& t : tolerances)
    for (const std::int64_t batch : {0, 2}) {
      Pair p(pair_of(1, 5, true), t.t);
      p.s.batch = batch, p.s.sequence = batch == 0 ? 1 : 0;
      const auto distances = batch == 0 ? 5 : 4;
      Bench b(2);
      auto d_bias = p.d_bias.view();
      d_bias.shape[1] = distances;
      const auto none = [&](MatrixBuffer& m) { return m.view().row_range(0, 0); };
      const auto keys = [&](MatrixBuffer& m) { return m.view().row_range(0, batch * 5); };
      auto lse = p.lse.view().row_range(0, batch);
      lse.shape[1] = batch == 0 ? 1 : 0;
      kernels::attention_backward(*b, {.shape = p.s,
                                       .q = none(p.q),
                                       .k = keys(p.k),
                                       .v = keys(p.v),
                                       .document_start = p.starts().row_range(0, 0),
                                       .out = none(p.out),
                                       .lse = lse,
                                       .dout = none(p.dout),
                                       .dq = none(p.dq),
                                       .dk = keys(p.dk),
                                       .dv = keys(p.dv),
                                       .d_bias = d_bias});
      for (std::int64_t j = 0; j < distances; ++j) ASSERT_EQ(p.d_bias(0, j), 0) << j;
      for (std::int64_t i = 0; i < batch * 5; ++i)
        for (std::int64_t x = 0; x < p.c.d; ++x) ASSERT_TRUE(p.dk(i, x) == 0 && p.dv(i, x) == 0) << i;
    }
}

// What goes with as many keys as queries alone is refused before anything is written.
TEST(AttentionLengths, OtherLengthsAreNeitherCausalNorSparse) {
  const auto refusal = [](const std::function<void(Pair&)>& change) -> std::string {
    AttentionCase c = pair_of(20, 30, false);
    c.list_heads = 1;
    Pair p(c, DType::f32);
    p.s.visibility.by_queries = p.s.visibility.by_keys = {};
    change(p);
    try {
      p.forward(1);
    } catch (const std::logic_error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal([](Pair&) {}), "");
  EXPECT_NE(refusal([](Pair& p) { p.s.visibility.causal = true; }).find("20 queries and 30 keys: causal true"),
            std::string::npos);
  EXPECT_NE(refusal([](Pair& p) { p.s.visibility.window = 4; }).find("window 4"), std::string::npos);
  EXPECT_NE(refusal([](Pair& p) { p.s.visibility.by_keys = p.lists.by_keys.view(1, 1); }).find("lists true"),
            std::string::npos);
  EXPECT_NE(refusal([](Pair& p) { p.s.key_sequence = 31; }).find("k: expected 62 x 8, found 60 x 8"),
            std::string::npos);
}

// Every pair of a query and a key is work, whichever is longer.
TEST(AttentionLengths, WorkIsOfAllPairs) {
  kernels::AttentionForwardArgs a;
  a.batch = 2, a.sequence = 20, a.keys = 30, a.heads = 4, a.head_dim = 8, a.visibility.causal = false, a.products = 2;
  EXPECT_EQ(kernels::work_of(a).operations, 2.0 * 2 * 2 * 4 * 20 * 30 * 8);
}

}  // namespace attention_lengths_test
}  // namespace trainyard::test
