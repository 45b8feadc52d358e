// Compares what queries see in the GPU's attention kernels with the CPU kernels: listed parts of tiles, both
// directions, ends of keys. Rows at odd addresses use plain units, bf16 rows at multiples of 16 bytes tensor cores. The
// Hopper kernel runs on such a device, and on the emulator where a test asks for it.
#include "tests/gpu_main.h"
#include "tests/kernels/gpu_attention_case.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <tuple>

namespace trainyard::test {
namespace {

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

// Windows beside the sides of parts and tiles, with lists, documents and dropout, and caps that most scores come near
// to.
TEST(GpuAttention, WindowsAndCapsEqualTheCpu) {
  const std::int64_t windows[] = {1, 16, 64, 65, 0, 3};
  for (std::int64_t n = 0; n < std::ssize(windows); ++n) {
    const bool lists = n % 3 == 1, causal = n != 1 && n != 3;
    AttentionCase c{130, 2, 1, n == 4 ? 128 : 64, causal, n == 4 ? 0.25 : 0, lists ? 1 : 0};
    c.share = 0.7, c.documents = !lists, c.padded = lists;
    c.window = windows[n], c.softcap = n > 1 ? 1.5 : 0;
    equals_the_cpu(c, Units::tensor_cores, {DType::bf16});
    c.d = 12, c.causal = n != 2 && n != 4;
    equals_the_cpu(c, Units::plain, {n % 2 == 0 ? DType::f32 : n == 1 ? DType::f64 : DType::bf16});
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

// Lists use other loops. Compilers for devices may round differently in different kernels.
TEST(GpuAttention, AListOfEverythingChangesNoBit) {
  if (!emulated()) GTEST_SKIP() << "only where nothing is fused";
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
    for (std::int64_t j = 0; j < 7; ++j) none.at(0, 2, j) = 1;  // queries 32 .. 47 see all, other queries nothing
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

// Keys and values of a tile that no query sees are not read, nor are queries that see nothing. Each of two heads has
// its own tiles.
TEST(GpuAttention, AbsentTilesAreNotTouched) {
  constexpr std::int64_t T = 250, tile = AttentionParts::tile;
  for (const auto& [t, units, d] : every_kind) {
    if (t == DType::f64) continue;  // like f32, and slow
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

// A later key or value changes no bit of an earlier query's results. An earlier query's gradient changes no bit of a
// later key's gradient. This holds whatever a list says.
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

TEST(GpuAttention, OfHopperEqualsTheCpu) {
  const Capability capability(hopper);
  for (const auto& [batch, T, heads, kv] : {std::tuple{2, 1, 4, 2},
                                            {3, 63, 2, 1},
                                            {2, 64, 2, 2},
                                            {1, 100, 4, 1},
                                            {2, 128, 1, 1},
                                            {1, 129, 2, 1},
                                            {2, 200, 2, 2},
                                            {1, 385, 1, 1},
                                            {3, 200, 6, 2},
                                            {1, 1000, 2, 1},
                                            {3, 200, 32, 8}})  // more tiles than a device has multiprocessors
    for (const int d : {64, 128})                              // by day one of them, each with whole tiles and rests
      for (const int document : document_lengths(T, by_day(), d + T)) {
        if (emulated() && (T == 1000 || heads == 32 || (by_day() && d / 64 - 1 != (T / 64 + batch) % 2))) continue;
        SCOPED_TRACE(::testing::Message() << batch << " times " << T << " tokens, " << heads << " heads of " << d
                                          << ", documents of " << document);
        const auto one = [batch = batch, T = T, heads = heads, kv = kv, d, document](Place& place, DType) {
          Fused f(batch, T, heads, kv, d);
          if (document > 0) f.cut(document);
          return f.run(place);
        };
        compare(one, Same::tolerance, {DType::bf16});
        if (HasFatalFailure()) return;
      }
}

// Windows beside the sides of tiles of 64 and 128 keys, and of groups of 64 queries, with documents and without.
TEST(GpuAttention, OfHopperHasWindows) {
  const Capability capability(hopper);
  for (const int d : {64, 128})
    for (const std::int64_t window : {1, 63, 64, 65, 127, 128, 130, 299}) {
      if (emulated() && by_day() && (d == 64) != (window % 2 == 1)) continue;
      SCOPED_TRACE(::testing::Message() << "a window of " << window << ", heads of " << d);
      const auto one = [&](Place& place, DType) {
        Fused f(1, 300, 2, 1, d);
        f.window = window;
        if (window % 4 == 3) f.cut(90);
        return f.run(place);
      };
      compare(one, Same::tolerance, {DType::bf16});
      if (HasFatalFailure()) return;
    }
}

// The Hopper kernels round at other places than other kernels. Cases that they do not support keep their bits.
TEST(GpuAttention, OfHopperTakesWhatItHas) {
  if (!emulated()) GTEST_SKIP() << "a device is of one kind";
  for (const std::int64_t d : {64, 128}) {
    const auto on = [&](const char* forward, const char* backward) {
      Fused f(1, 300, 1, 1, d);
      Place place(Place::Kind::gpu);
      const auto calls = f.at(place);
      {
        const Capability capability(forward);
        calls.forward();
      }
      {
        const Capability capability(backward);
        calls.backward();
      }
      place.fetch();
      return Outputs{f.out, f.gradients};
    };
    const auto old = on(ampere, ampere), now = on(hopper, ampere), other = on(ampere, hopper);
    EXPECT_NE(now[0].bytes, old[0].bytes) << d;
    EXPECT_EQ(other[0].bytes, old[0].bytes) << d;
    EXPECT_NE(other[1].bytes, old[1].bytes) << d;
    const AttentionCase others[] = {{100, 2, 1, d, true, 0.25, 0, 0, 0, 1, false, true},          // dropout
                                    {100, 2, 1, d, true, 0, 1, 0, 0, 0.5, false, false},          // lists
                                    {100, 2, 1, d, false, 0, 0, 0, 0, 1, false, false},           // later keys
                                    {100, 2, 1, d, true, 0, 0, 0, 0, 1, true, false},             // padding
                                    {100, 2, 1, d, true, 0, 0, 0, 0, 1, false, false, 1, 0, 2}};  // a cap
    for (const auto& c : others) {
      Problem old(c, DType::bf16, Units::tensor_cores), now(c, DType::bf16, Units::tensor_cores);
      {
        const Capability capability(ampere);
        old.run(Place::Kind::gpu);
      }
      const Capability capability(hopper);
      now.run(Place::Kind::gpu);
      same_bits(old, now);
    }
    for (const Units units : {Units::plain, Units::tensor_cores}) {  // rows at odd addresses, another type
      const DType t = units == Units::plain ? DType::bf16 : DType::f32;
      const AttentionCase c{100, 2, 1, d, true, 0, 0, 0, 0, 1, false, true};
      Problem old(c, t, units), now(c, t, units);
      {
        const Capability capability(ampere);
        old.run(Place::Kind::gpu);
      }
      const Capability capability(hopper);
      now.run(Place::Kind::gpu);
      same_bits(old, now);
    }
  }
}

// A later key, or a key of another document, changes no bit of a query. Such a query changes no bit of a key's
// gradients. The order in which blocks take tiles changes no bit either.
TEST(GpuAttention, OfHopperToTheElement) {
  const Capability capability(hopper);
  constexpr std::int64_t T = 300, from = 131;
  for (const std::int64_t d : {64, 128}) {
    Fused before(2, T, 2, 1, d), again = before;
    for (std::int64_t i = from; i < T; ++i)
      for (std::int64_t b = 0; b < 2; ++b) before.start[static_cast<std::size_t>(b * T + i)] = from;
    again.start = before.start;
    Place place(Place::Kind::gpu);  // what the first call left in the scratch does not matter
    const auto want = before.run(place);
    const auto more = again.run(place);
    for (std::size_t n = 0; n < want.size(); ++n) EXPECT_EQ(more[n].bytes, want[n].bytes) << n;
    for (const std::int64_t j : {0, 63, 64, 127, 128, 130, 131, 132, 256, 299}) {
      if (by_day() && !(d == 64 ? j == 0 || j == 128 || j == 131 : j == 64 || j == 130 || j == 299)) continue;
      // Changes key and value j in the first sequence, and the output gradient of query j in the second sequence.
      Fused after(2, T, 2, 1, d);
      after.start = before.start;
      for (std::int64_t x = 0; x < d; ++x) {
        after.qkv.set(j, 2 * d + x, 9.0 - static_cast<double>(x % 7));
        after.qkv.set(j, 3 * d + x, 1e3);
        for (std::int64_t h = 0; h < 2; ++h) after.dout.set(T + j, h * d + x, 1e3 - static_cast<double>(x));
      }
      const auto got = after.run(Place::Kind::gpu);
      for (std::int64_t i = 0; i < 2 * T; ++i) {
        SCOPED_TRACE(::testing::Message() << "token " << i << ", changed " << j << ", heads of " << d);
        const auto same = [&](std::size_t what, std::int64_t first, std::int64_t columns) {
          bool all = true;
          for (std::int64_t x = first; x < first + columns; ++x) all = all && got[what](i, x) == want[what](i, x);
          return all;
        };
        const bool changed = i >= j && i < T && (i < from || j >= from);  // queries that see the key
        ASSERT_EQ(same(0, 0, 2 * d), !changed);
        for (std::int64_t h = 0; h < 2; ++h)
          ASSERT_EQ(got[1](i / T * 2 + h, i % T) == want[1](i / T * 2 + h, i % T), !changed);
        ASSERT_TRUE(changed || i == T + j || same(2, 0, 2 * d));
        if (i < T) continue;
        const bool seen = i - T <= j && (j < from || i - T >= from);  // keys that the query sees
        ASSERT_EQ(same(2, 2 * d, d) && same(2, 3 * d, d), !seen);
        ASSERT_TRUE(i != T + j || j == 0 || j == from || !same(2, 0, 2 * d));  // with a single key dq is about 0
      }
    }
  }
}

// Calls on two streams, and a captured call that is launched repeatedly, count their tiles separately.
TEST(GpuAttention, OfHopperBesideItself) {
  const Capability capability(hopper);
  const auto& runtime = *tensor::gpu_module().runtime;
  Fused alone(2, 200, 2, 1, 64), one = alone, other = alone, captured = alone;
  const auto want = alone.run(Place::Kind::gpu);
  Place first(Place::Kind::gpu), second(Place::Kind::gpu), third(Place::Kind::gpu);
  const auto here = one.at(first), there = other.at(second), later = captured.at(third);
  third.exec().synchronize();
  const auto stream = third.exec().stream();
  void* graph = nullptr;
  ASSERT_EQ(runtime.begin_capture(stream), nullptr);
  later();
  ASSERT_EQ(runtime.end_capture(stream, &graph), nullptr);
  for (int again = 0; again < 3; ++again) {
    here(), there();
    ASSERT_EQ(runtime.launch_graph(graph, stream), nullptr);
  }
  for (Place* place : {&first, &second, &third}) place->fetch();
  runtime.drop_graph(graph);
  for (const Fused* f : {&one, &other, &captured}) {
    EXPECT_EQ(f->out.bytes, want[0].bytes);
    EXPECT_EQ(f->lse.bytes, want[1].bytes);
    EXPECT_EQ(f->gradients.bytes, want[2].bytes);
  }
}

}  // namespace
}  // namespace trainyard::test

int main(int argc, char** argv) { return trainyard::testing::run_on_gpu(argc, argv); }
