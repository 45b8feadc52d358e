// Compares what queries see in the GPU's attention kernels with the CPU kernels: listed parts of tiles, both
// directions, ends of keys. Rows at odd addresses use plain units, bf16 rows at multiples of 16 bytes tensor cores. The
// Hopper kernel runs on such a device, and on the emulator where a test asks for it.
#include "kernels/attention/attention.h"
#include "kernels/dispatch.h"
#include "tests/gpu_main.h"
#include "tests/kernels/attention_case.h"
#include "tests/kernels/gpu_compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <tuple>

namespace trainyard::test {
namespace {

enum class Units { plain, tensor_cores };

// While it lives, the emulated device has this compute capability. A real device keeps its own.
class Capability {
 public:
  explicit Capability(const char* version) {
    if (const char* asked = std::getenv("TRAINYARD_HOPPER")) asked_ = asked;
    setenv("TRAINYARD_EMULATED_CAPABILITY", version, 1);
    setenv("TRAINYARD_HOPPER", std::strcmp(version, "9.0") == 0 ? "on" : "off", 1);
  }
  ~Capability() {
    unsetenv("TRAINYARD_EMULATED_CAPABILITY");
    if (asked_) setenv("TRAINYARD_HOPPER", asked_->c_str(), 1);
    else unsetenv("TRAINYARD_HOPPER");
  }
  Capability(const Capability&) = delete;
  Capability& operator=(const Capability&) = delete;

 private:
  std::optional<std::string> asked_;  // the variable's earlier value
};
constexpr auto hopper = "9.0", ampere = "8.0";

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
    kernels::attention_forward(place.exec(),
                               {.shape = s, .q = vq, .k = vk, .v = vv, .document_start = start, .out = vo, .lse = vl});
    kernels::attention_backward(place.exec(), {.shape = s,
                                               .q = vq,
                                               .k = vk,
                                               .v = vv,
                                               .document_start = start,
                                               .out = vo,
                                               .lse = vl,
                                               .dout = place(dout),
                                               .dq = place(dq),
                                               .dk = place(dk),
                                               .dv = place(dv)});
    place.fetch();
  }
  void run(Place::Kind kind) {
    Place place(kind);
    run(place);
  }
  kernels::TileView there(Place& place, AttentionLists::One& list) const {
    if (list.other.empty()) list.other.push_back(0), list.parts.push_back(0);  // memory of 0 bytes cannot be copied
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
  // Plain units multiply their operands in f32, without rounding them to bf16 first.
  const auto isa = kernels::active_isa();
  if (units == Units::plain) kernels::set_isa(kernels::base_of(isa));
  compare(
      [&](Place& place, DType t) {
        Problem p(c, t, units);
        p.run(place);
        for (std::int64_t h = 0; h < p.lse.rows; ++h)  // finite numbers, to be compared within a tolerance
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

// Queries, keys and values side by side in the rows of one buffer, as in a model, and their gradients in another
// buffer. Rows of the results have a gap behind them.
struct Fused {
  std::int64_t batch, T, heads, kv, d;
  MatrixBuffer qkv, out, lse, dout, gradients;
  std::vector<std::int32_t> start;
  Fused(std::int64_t batch, std::int64_t T, std::int64_t heads, std::int64_t kv, std::int64_t d)
      : batch(batch), T(T), heads(heads), kv(kv), d(d), qkv(DType::bf16, batch * T, (heads + 2 * kv) * d, 8),
        out(DType::bf16, batch * T, heads * d, 16), lse(DType::f32, batch * heads, T, 4),
        dout(DType::bf16, batch * T, heads * d, 8), gradients(DType::bf16, batch * T, (heads + 2 * kv) * d, 16),
        start(static_cast<std::size_t>(batch * T), 0) {
    qkv.fill(static_cast<std::uint64_t>(T + d)), dout.fill(static_cast<std::uint64_t>(T + d + 1));
  }
  // Documents of about `length` tokens, different in each sequence.
  void cut(std::int64_t length) {
    std::mt19937_64 random(static_cast<std::uint64_t>(length));
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t i = 0, begin = 0; i < T; ++i) {
        if (random() % static_cast<std::uint64_t>(length) == 0) begin = i;
        start[static_cast<std::size_t>(b * T + i)] = static_cast<std::int32_t>(begin);
      }
  }
  // The two calls, with all operands where they run.
  struct Calls {
    std::function<void()> forward, backward;
    void operator()() const { forward(), backward(); }
  };
  Calls at(Place& place) {
    const kernels::AttentionShape s{batch, T, heads, kv, d, 2 / std::sqrt(static_cast<double>(d))};
    const auto all = place(qkv), begin = place(start, {batch, T}), to = place(out), sums = place(lse),
               given = place(dout), d_all = place(gradients);
    const auto part = [this](base::View x, int which) {
      return which == 0 ? x.columns(0, heads * d) : x.columns((heads + (which - 1) * kv) * d, kv * d);
    };
    const auto q = part(all, 0), k = part(all, 1), v = part(all, 2);
    const kernels::AttentionForward forward{
        .shape = s, .q = q, .k = k, .v = v, .document_start = begin, .out = to, .lse = sums};
    const kernels::AttentionBackward backward{.shape = s,
                                              .q = q,
                                              .k = k,
                                              .v = v,
                                              .document_start = begin,
                                              .out = to,
                                              .lse = sums,
                                              .dout = given,
                                              .dq = part(d_all, 0),
                                              .dk = part(d_all, 1),
                                              .dv = part(d_all, 2)};
    return {[=, &place] { kernels::attention_forward(place.exec(), forward); },
            [=, &place] { kernels::attention_backward(place.exec(), backward); }};
  }
  Outputs run(Place& place) {
    at(place)();
    place.fetch();
    return {out, lse, gradients};
  }
  Outputs run(Place::Kind kind) {
    Place place(kind);
    return run(place);
  }
};

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
    const AttentionCase others[] = {{100, 2, 1, d, true, 0.25, 0, 0, 0, 1, false, true},  // dropout
                                    {100, 2, 1, d, true, 0, 1, 0, 0, 0.5, false, false},  // lists
                                    {100, 2, 1, d, false, 0, 0, 0, 0, 1, false, false},   // later keys
                                    {100, 2, 1, d, true, 0, 0, 0, 0, 1, true, false}};    // padding
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
