// What queries see, in the GPU kernels of attention: listed parts of tiles, both directions, ends of keys, against the
// CPU kernels. Rows at odd places take plain units, rows of bf16 at multiples of 16 bytes tensor cores.
#include "kernels/attention/attention.h"
#include "kernels/cached_attention/cached_attention.h"
#include "kernels/dispatch.h"
#include "tests/gpu_main.h"
#include "tests/kernels/attention_case.h"
#include "tests/kernels/gpu_compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>

namespace trainyard::test {
namespace {

enum class Units { plain, tensor_cores };

struct Problem {
  AttentionCase c;
  DType t;
  MatrixBuffer q, k, v, dout, out, lse, dq, dk, dv;
  AttentionSpans spans;
  AttentionParts parts;
  AttentionLists lists;
  std::vector<std::uint64_t> samples{11, 5};

  Problem(const AttentionCase& c, DType t, Units units) : Problem(c, t, units, AttentionParts(c)) {}
  Problem(const AttentionCase& c, DType t, Units units, AttentionParts drawn)
      : c(c), t(t), q(t, 2 * c.T, c.heads * c.d, units == Units::plain ? 3 : 8),
        k(t, 2 * c.T, c.kv * c.d, units == Units::plain ? 1 : 16), v(t, 2 * c.T, c.kv * c.d),
        dout(t, 2 * c.T, c.heads * c.d), out(t, 2 * c.T, c.heads * c.d, units == Units::plain ? 2 : 8),
        lse(accumulation(t), 2 * c.heads, c.T), dq(t, 2 * c.T, c.heads * c.d, units == Units::plain ? 1 : 8),
        dk(t, 2 * c.T, c.kv * c.d), dv(t, 2 * c.T, c.kv * c.d), spans(c), parts(std::move(drawn)), lists(parts) {
    q.fill(c.seed), k.fill(c.seed + 1), v.fill(c.seed + 2), dout.fill(c.seed + 3);
  }

  void run(Place& place) {
    kernels::AttentionShape s{2, c.T, c.heads, c.kv, c.d, c.d < 64 ? 0.5 : 0.15, c.dropout, 99, 1234};
    s.samples = place.raw(samples);
    s.visibility.causal = c.causal, s.visibility.first_head = c.first_head;
    if (spans.ends) s.key_end = place.raw(spans.end);
    if (c.list_heads > 0) {
      s.visibility.by_queries = there(place, lists.by_queries);
      s.visibility.by_keys = there(place, lists.by_keys);
    }
    const auto vq = place(q), vk = place(k), vv = place(v), start = place(spans.start, {2, c.T}), vo = place(out),
               vl = place(lse);
    kernels::attention_forward(place.exec(), s, vq, vk, vv, start, vo, vl);
    kernels::attention_backward(place.exec(), s, vq, vk, vv, start, vo, vl, place(dout), place(dq), place(dk),
                                place(dv));
    place.fetch();
  }
  void run(Place::Kind kind) {
    Place place(kind);
    run(place);
  }
  kernels::TileView there(Place& place, AttentionLists::One& list) const {
    if (list.other.empty()) list.other.push_back(0), list.parts.push_back(0);  // memory of no bytes is none
    return {place.raw(list.begin), place.raw(list.other), place.raw(list.parts), lists.tiles, lists.heads};
  }
};

void same_bits(const Problem& a, const Problem& b) {
  ASSERT_EQ(a.out.bytes, b.out.bytes);
  ASSERT_EQ(a.lse.bytes, b.lse.bytes);
  ASSERT_EQ(a.dq.bytes, b.dq.bytes);
  ASSERT_EQ(a.dk.bytes, b.dk.bytes);
  ASSERT_EQ(a.dv.bytes, b.dv.bytes);
}

void equals_the_cpu(const AttentionCase& c, Units units, const std::vector<DType>& dtypes) {
  SCOPED_TRACE(::testing::Message() << c.T << " tokens, " << c.heads << " heads of " << c.d
                                    << (c.causal ? ", causal" : ", both ways") << ", seed " << c.seed);
  // Plain units multiply what they have in f32, without rounding it to bf16 first.
  const auto isa = kernels::active_isa();
  if (units == Units::plain) kernels::set_isa(kernels::base_of(isa));
  compare(
      [&](Place& place, DType t) {
        Problem p(c, t, units);
        p.run(place);
        for (std::int64_t h = 0; h < p.lse.rows; ++h)  // numbers that can be compared within a tolerance
          for (std::int64_t i = 0; i < c.T; ++i)
            if (p.lse(h, i) == std::numeric_limits<double>::infinity()) p.lse.set(h, i, 1e6);
        return Outputs{p.out, p.lse, p.dq, p.dk, p.dv};
      },
      Same::tolerance, dtypes);
  kernels::set_isa(isa);
}

TEST(GpuAttention, EqualsTheCpu) {
  for (const bool causal : {true, false})
    for (const AttentionCase& c : {AttentionCase{150, 2, 1, 20, causal, 0.25, 1, 0, 0, 0.5, false, true},
                                   {200, 2, 2, 40, causal, 0, 5, 2, 3, 0.3, true, false},
                                   {130, 4, 2, 16, causal, 0.125, 4, 0, 1, 0.2, true, true},
                                   {97, 1, 1, 64, causal, 0.2, 0, 0, 0, 1, true, true},
                                   {70, 2, 1, 128, causal, 0, 1, 0, 0, 0.05, false, false}}) {
      equals_the_cpu(c, Units::plain, all);
      if (HasFatalFailure()) return;
    }
}

TEST(GpuAttention, EqualsTheCpuOnTensorCores) {
  for (const bool causal : {true, false})
    for (const AttentionCase& c : {AttentionCase{150, 2, 1, 64, causal, 0.25, 1, 0, 0, 0.5, false, true},
                                   {200, 4, 2, 64, causal, 0, 5, 1, 3, 0.1, true, true},
                                   {200, 1, 1, 64, causal, 0, 0, 0, 0, 1, true, true},
                                   {130, 2, 1, 128, causal, 0, 3, 1, 1, 0.2, true, true},
                                   {97, 2, 1, 128, causal, 0.2, 0, 0, 0, 1, true, true}}) {
      equals_the_cpu(c, Units::tensor_cores, {DType::bf16});
      if (HasFatalFailure()) return;
    }
}

TEST(GpuAttention, RandomOnes) {
  std::mt19937_64 random(11);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  for (int n = 0; n < 32; ++n) {
    const bool tensor_cores = n % 4 == 0;
    AttentionCase c;
    c.T = 1 + below(140), c.kv = 1 + below(2), c.heads = c.kv * (1 + below(2));
    c.d = tensor_cores ? 64 : 1 + below(20);
    c.causal = below(2) == 0, c.dropout = below(4) == 0 ? 0.2 : 0;
    c.first_head = below(2), c.list_heads = below(2) == 0 ? 1 : c.heads + c.first_head + below(2);
    c.beyond = below(6), c.share = static_cast<double>(below(11)) / 10, c.padded = below(3) == 0,
    c.documents = below(3) == 0, c.seed = random();
    if (tensor_cores) equals_the_cpu(c, Units::tensor_cores, {DType::bf16});
    else equals_the_cpu(c, Units::plain, {n % 4 == 1 ? DType::f64 : n % 4 == 2 ? DType::bf16 : DType::f32});
    if (HasFatalFailure()) return;
  }
}

TEST(GpuAttention, TwoRunsGiveTheSameBits) {
  for (const Units units : {Units::plain, Units::tensor_cores}) {
    const AttentionCase c{130, 4, 2, 64, false, 0.25, 4, 0, 0, 0.4, true, true};
    Problem once(c, DType::bf16, units), again(c, DType::bf16, units);
    once.run(Place::Kind::gpu), again.run(Place::Kind::gpu);
    same_bits(once, again);
  }
}

// By other loops. Compilers for devices may round otherwise in other kernels.
TEST(GpuAttention, AListOfEverythingChangesNoBit) {
  if (std::string(tensor::gpu_module().runtime->name) != "emulated") GTEST_SKIP() << "only where nothing is fused";
  for (const bool causal : {true, false})
    for (const auto& [t, units, d] : {std::tuple{DType::f32, Units::plain, 12},
                                      {DType::bf16, Units::tensor_cores, 64},
                                      {DType::bf16, Units::tensor_cores, 128}}) {
      const AttentionCase dense{130, 1, 1, d, causal, 0.2, 0, 0, 0, 1, false, true},
          listed{130, 1, 1, d, causal, 0.2, 1, 0, 2, 1, false, true};
      Problem a(dense, t, units), b(listed, t, units);
      a.run(Place::Kind::gpu), b.run(Place::Kind::gpu);
      same_bits(a, b);
    }
}

const std::tuple<DType, Units, int> every_kind[] = {{DType::f32, Units::plain, 8},
                                                    {DType::bf16, Units::plain, 8},
                                                    {DType::f64, Units::plain, 8},
                                                    {DType::bf16, Units::tensor_cores, 64},
                                                    {DType::bf16, Units::tensor_cores, 128}};

TEST(GpuAttention, AQueryThatSeesNothingGivesZeros) {
  for (const auto& [t, units, d] : every_kind) {
    const AttentionCase c{100, 1, 1, d, false, 0, 1, 0, 0, 0, false, false};
    AttentionParts none(1, 7);
    for (std::int64_t j = 0; j < 7; ++j) none.at(0, 2, j) = 1;  // queries 32 .. 47 see everything, the others nothing
    Problem p(c, t, units, none);
    p.run(Place::Kind::gpu);
    for (std::int64_t i = 0; i < 200; ++i) {
      const bool sees = i % 100 / AttentionParts::part == 2;
      double out = 0, dq = 0;
      for (std::int64_t x = 0; x < d; ++x) {
        out += std::abs(p.out(i, x)), dq += std::abs(p.dq(i, x));
        ASSERT_FALSE(std::isnan(p.dk(i, x)) || std::isnan(p.dv(i, x))) << i;
      }
      ASSERT_FALSE(std::isnan(out) || std::isnan(dq)) << i;
      ASSERT_EQ(out != 0, sees) << i;
      ASSERT_EQ(dq != 0, sees) << i;
      const double lse = p.lse(i / 100, i % 100);
      ASSERT_TRUE(sees ? std::isfinite(lse) : lse == std::numeric_limits<double>::infinity()) << i << ": " << lse;
    }
  }
}

// Keys and values of a tile that no query sees are not read, nor queries that see nothing; of two heads each has tiles
// of its own.
TEST(GpuAttention, AbsentTilesAreNotTouched) {
  constexpr std::int64_t T = 250, tile = AttentionParts::tile;
  for (const auto& [t, units, d] : every_kind) {
    if (t == DType::f64) continue;  // as f32, and slow
    const AttentionCase c{T, 2, 1, d, false, 0, 2, 0, 0, 0, false, false};
    AttentionParts p(2, 16);
    for (std::int64_t h = 0; h < 2; ++h)
      for (std::int64_t i = 0; i < 16; ++i)
        for (std::int64_t j = 0; j < 16; ++j) p.at(h, i, j) = i / 4 != 3 && j / 4 != 1 && (h == 0 || j / 4 != 0);
    Problem plain(c, t, units, p), poisoned(c, t, units, p);
    for (std::int64_t b = 0; b < 2; ++b)
      for (std::int64_t r = 0; r < tile; ++r)
        for (std::int64_t x = 0; x < d; ++x) {
          poisoned.k.set(b * T + tile + r, x, NAN), poisoned.v.set(b * T + tile + r, x, NAN);
          if (3 * tile + r >= T) continue;
          for (std::int64_t h = 0; h < 2; ++h)
            poisoned.q.set(b * T + 3 * tile + r, h * d + x, NAN),
                poisoned.dout.set(b * T + 3 * tile + r, h * d + x, NAN);
        }
    plain.run(Place::Kind::gpu), poisoned.run(Place::Kind::gpu);
    same_bits(plain, poisoned);
  }
}

// A later key or value changes no bit of an earlier query's results, nor an earlier query's gradient one of a later
// key's, whatever a list says.
TEST(GpuAttention, CausalToTheElement) {
  constexpr std::int64_t T = 70;
  for (const auto& [t, units, d] : every_kind) {
    const AttentionCase c{T, 1, 1, d, true, 0, 1, 0, 1, 1, false, false};
    Problem before(c, t, units);
    before.run(Place::Kind::gpu);
    for (const std::int64_t j : {1, 16, 37, 63, 64}) {
      Problem after(c, t, units), other(c, t, units);
      for (std::int64_t x = 0; x < d; ++x) {
        after.k.set(j, x, 9.0 - static_cast<double>(x % 7)), after.v.set(j, x, 1e3);
        other.dout.set(j - 1, x, 1e3);
      }
      after.run(Place::Kind::gpu), other.run(Place::Kind::gpu);
      for (std::int64_t x = 0; x < d; ++x) {
        for (std::int64_t i = 0; i < j; ++i) {
          ASSERT_EQ(before.out(i, x), after.out(i, x)) << i << " " << j;
          ASSERT_EQ(before.dq(i, x), after.dq(i, x)) << i << " " << j;
        }
        for (std::int64_t i = j; i < T; ++i) {
          ASSERT_EQ(before.dk(i, x), other.dk(i, x)) << i << " " << j;
          ASSERT_EQ(before.dv(i, x), other.dv(i, x)) << i << " " << j;
        }
        ASSERT_NE(before.out(j, x), after.out(j, x));
        ASSERT_NE(before.dv(j - 1, x), other.dv(j - 1, x));
      }
    }
  }
}

TEST(GpuAttention, OfACache) {
  compare(
      [](Place& place, DType t) {
        const std::int64_t n = 50, heads = 4, kv = 2, d = 24;
        MatrixBuffer q(t, 1, heads * d), k(t, n, kv * d, 1), v(t, n, kv * d), out(t, 1, heads * d);
        q.fill(1), k.fill(2), v.fill(3);
        kernels::cached_attention(place.exec(), heads, kv, 0.4, place(q), place(k), place(v), place(out));
        place.fetch();
        return Outputs{out};
      },
      Same::tolerance, all);
}

}  // namespace
}  // namespace trainyard::test

int main(int argc, char** argv) { return trainyard::testing::run_on_gpu(argc, argv); }
