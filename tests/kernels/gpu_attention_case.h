// Problems of attention on a device, with everything that a query may see, and queries, keys and values as a model has
// them. For gpu_attention_test.cpp.
#pragma once

#include "kernels/attention/attention.h"
#include "kernels/dispatch.h"
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
#include <vector>

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
  MatrixBuffer q, k, v, dout, out, lse, dq, dk, dv, bias, d_bias;
  AttentionSpans spans;
  AttentionParts parts;
  AttentionLists lists;
  std::vector<std::uint64_t> samples{11, 5};

  Problem(const AttentionCase& c, DType t, Units units) : Problem(c, t, units, AttentionParts(c)) {}
  Problem(const AttentionCase& c, DType t, Units units, AttentionParts drawn)
      : c(c), t(t), q(t, 2 * c.T, c.heads * c.d, units == Units::plain ? 3 : 8),
        k(t, 2 * c.key_count(), c.kv * c.d, units == Units::plain ? 1 : 16), v(t, 2 * c.key_count(), c.kv * c.d),
        dout(t, 2 * c.T, c.heads * c.d), out(t, 2 * c.T, c.heads * c.d, units == Units::plain ? 2 : 8),
        lse(accumulation(t), 2 * c.heads, c.T), dq(t, 2 * c.T, c.heads * c.d, units == Units::plain ? 1 : 8),
        dk(t, 2 * c.key_count(), c.kv * c.d), dv(t, 2 * c.key_count(), c.kv * c.d),
        bias(accumulation(t), c.heads, c.distances()), d_bias(accumulation(t), c.heads, c.distances(), 3), spans(c),
        parts(std::move(drawn)), lists(parts) {
    bias.fill(c.seed + 4);
    q.fill(c.seed), k.fill(c.seed + 1), v.fill(c.seed + 2), dout.fill(c.seed + 3);
  }

  void run(Place& place) {
    kernels::AttentionShape s{2, c.T, c.heads, c.kv, c.d, c.d < 64 ? 0.5 : 0.15, c.dropout, 99, 1234};
    s.samples = place.raw(samples);
    s.visibility.causal = c.causal, s.visibility.first_head = c.first_head;
    s.visibility.window = c.window, s.softcap = c.softcap, s.key_sequence = c.keys;
    if (c.biased) s.bias = place(bias).data;
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
                                               .dv = place(dv),
                                               .d_bias = c.biased ? place(d_bias) : base::View{}});
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
  ASSERT_EQ(a.d_bias.bytes, b.d_bias.bytes);
}

void equals_the_cpu(const AttentionCase& c, Units units, const std::vector<DType>& dtypes) {
  SCOPED_TRACE(::testing::Message() << c.T << " tokens, " << c.key_count() << " keys, " << c.heads << " heads of "
                                    << c.d << (c.causal ? ", causal" : ", both ways") << ", seed " << c.seed);
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
        Outputs results{p.out, p.lse, p.dq, p.dk, p.dv};
        if (c.biased) results.push_back(p.d_bias);
        return results;
      },
      Same::tolerance, dtypes);
  kernels::set_isa(isa);
}

// Queries, keys and values side by side in the rows of one buffer, as in a model, and their gradients in another
// buffer. Rows of the results have a gap behind them.
struct Fused {
  std::int64_t batch, T, heads, kv, d;
  MatrixBuffer qkv, out, lse, dout, gradients;
  std::vector<std::int32_t> start;
  std::int64_t window = 0;
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
    kernels::AttentionShape s{batch, T, heads, kv, d, 2 / std::sqrt(static_cast<double>(d))};
    s.visibility.window = window;
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

}  // namespace
}  // namespace trainyard::test
