// Tests bounds of plans with experts. The bound is above the prediction, and the prediction above the reference's
// formulas. So nothing overflows before a sentence refuses it.
#include "libtrain/plan/extent.h"
#include "libtrain/plan/grid/ranges.h"
#include "libtrain/plan/plan_json.h"
#include "libtrain/plan/problems.h"
#include "libtrain/plan/spec/layer_model.h"
#include "libtrain/plan/spec/presets.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace trainyard::plan {
namespace {

template <class T> T draw(std::mt19937_64& random, T low, T high) {
  if (random() % 8 == 0) return high;
  const double from = std::log(static_cast<double>(low)), to = std::log(static_cast<double>(high));
  return std::clamp(static_cast<T>(std::exp(from + (to - from) * static_cast<double>(random() % 1000) / 999)), low,
                    high);
}

double number(std::int64_t n) { return static_cast<double>(n); }

// In floating point: parameters of the experts of all layers, in elements, and activations of a micro-batch, in bytes.
// Each chosen row keeps its input, its inner values and its result; each token keeps its logits.
struct Exact {
  double parameters = 0, activations = 0;
};
Exact exact(const Plan& p) {
  const auto& m = p.model;
  const double matrices = m.activation == Activation::swiglu ? 3 : 2, width = number(expert_width(m)),
               tokens = number(p.micro_batch) * number(p.sequence);
  Exact out;
  for (std::int64_t l = 0; l < m.layers; ++l) {
    if (!layer_has_experts(m, l)) continue;
    const auto of_layer = layer_model(m, l);
    const double count = number(expert_count(of_layer)), chosen = number(m.experts.top_k) * tokens;
    out.parameters += count * matrices * number(m.hidden) * width;
    if (m.experts.capacity_factor == "none" && p.recompute == Recompute::none)
      out.activations +=
          chosen * (2 * number(m.hidden) + matrices * width) * number(base::size_of(p.dtype)) + tokens * count * 4;
  }
  return out;
}

Plan absurd(std::mt19937_64& random, int i) {
  Plan p;
  auto& m = p.model;
  m.heads = m.kv_heads = draw<std::int64_t>(random, 1, 64);
  m.hidden = m.heads * 2 * draw<std::int64_t>(random, 1, 512);
  m.layers = draw<std::int64_t>(random, 1, 20), m.ffn = draw<std::int64_t>(random, 1, 1 << 20);
  m.vocabulary = draw(random, std::int64_t{1}, ranges::vocabulary.high);
  m.context = p.sequence = draw<std::int64_t>(random, 1, i % 2 == 0 ? 1 << 20 : 4096);
  if (random() % 2 == 0) m.activation = Activation::swiglu, m.biases = Biases::off, m.tied = false;
  auto& e = m.experts;
  e.count = {draw<std::int64_t>(random, 1, i % 4 == 0 ? 4096 : 64)}, e.every = draw<std::int64_t>(random, 1, 4);
  e.top_k = draw<std::int64_t>(random, 1, e.count[0]);
  e.ffn = random() % 2 == 0 ? 0 : draw<std::int64_t>(random, 1, 1 << 20);
  if (random() % 2 == 0) e.shared = draw<std::int64_t>(random, 1, 256);
  else e.residual = random() % 2 == 0;
  if (random() % 2 == 0) e.capacity_factor = "none";
  if (random() % 4 == 0) e.capacity_factor = "999999999.999999999", e.min_capacity = 1 << 24;
  if (random() % 2 == 0) e.score = GateScore::sigmoid;
  if (random() % 4 == 0) e.noise = GateNoise::jitter;
  p.topology = Topology({{Axis::data, draw<int>(random, 1, 1 << 16)}});
  p.zero = static_cast<int>(random() % 4),
  p.micro_batch = draw(random, std::int64_t{1}, i % 3 == 0 ? ranges::micro_batch.high : 64);
  p.local_accumulation = draw<std::int64_t>(random, 1, 8);
  p.global_batch = p.local_accumulation * p.topology.world() * p.micro_batch;
  p.threads = draw(random, 1, ranges::threads.high), p.gathered_layers = draw(random, 1, ranges::gathered_layers.high);
  if (random() % 4 == 0) p.device = base::DeviceKind::cuda;
  if (random() % 3 == 0) p.dtype = base::DType::bf16;
  p.recompute = recomputations[random() % recomputations.size()];
  return p;
}

}  // namespace

TEST(ExpertExtent, LiesAboveWhatIsPredictedAndThatAboveTheFormulas) {
  std::mt19937_64 random(11);
  int accepted = 0, refused = 0;
  for (int i = 0; i < 3000; ++i) {
    auto p = absurd(random, i);
    const auto found = decision_problems(p);
    for (const auto& problem : found) refused += problem.message.find("too large") != std::string::npos ? 1 : 0;
    if (!found.empty() || expert_layers(p.model) * p.model.experts.count[0] > 2000) continue;
    ++accepted;
    predict(p);
    const auto most = extent(p);
    const auto least = exact(p);
    const double shards = p.zero == 3 ? number(p.topology.world()) : 1;
    const double parameters = number(p.memory.categories[base::MemoryCategory::parameters]),
                 activations = number(p.memory.categories[base::MemoryCategory::activations]);
    ASSERT_GE(parameters, least.parameters / shards * number(base::size_of(p.dtype))) << to_json(p);
    ASSERT_GE(activations, 0.999 * least.activations) << to_json(p);
    for (const auto bytes : p.memory.categories) ASSERT_GE(bytes, 0) << to_json(p);
    ASSERT_LE(number(p.memory.total()), most.memory) << to_json(p);
    for (const auto& t : p.traffic)
      for (const auto& o : t.operations) {
        ASSERT_GE(o.bytes, 0) << to_json(p);
        ASSERT_LE(number(o.bytes), most.traffic) << to_json(p);
      }
    ASSERT_EQ(plan_from_json(to_json(p), "plan").memory, p.memory);
  }
  EXPECT_GT(accepted, 300);
  EXPECT_GT(refused, 50);
}

// Everything but one thing is small, so that no other term hides a missing one. What experts add to a plan lies below
// what they add to the bound. The bound is not much larger than the "some dozens" that the header states.
TEST(ExpertExtent, EachTermIsThere) {
  Plan p;
  p.model = preset("gpt2-nano");
  p.model.vocabulary = 257, p.model.lanes = 1;
  p.sequence = 64, p.model.layers = 8;
  const auto grows = [&](const char* what, auto change) {
    auto q = p;
    q.model.experts.count = {4}, q.model.experts.capacity_factor = "none";
    change(q);
    ASSERT_TRUE(decision_problems(q).empty()) << what << ": " << text_of(decision_problems(q));
    auto without = q;
    without.model.experts = {};
    predict(q), predict(without);
    const double bound = extent(q).memory - extent(without).memory,
                 found = number(q.memory.total()) - number(without.memory.total());
    EXPECT_GE(bound, found) << what;
    EXPECT_LE(bound, 100 * found + 1e6) << what;
    const double sent = extent(q).traffic - extent(without).traffic;
    EXPECT_GE(sent, 8 * number(parameter_count(q.model) - parameter_count(without.model))) << what;
  };
  grows("experts", [](Plan& q) { q.model.experts.count = {4096}; });
  grows("a list", [](Plan& q) { q.model.experts.count = {4096, 1}, q.model.layers = 2; });
  grows("wide experts", [](Plan& q) { q.model.experts.ffn = 1 << 20; });
  grows("wide shared experts", [](Plan& q) { q.model.experts.ffn = 1 << 14, q.model.experts.shared = 256; });
  grows("rows", [](Plan& q) {
    q.model.experts.count = {64}, q.model.experts.top_k = 64, q.micro_batch = 1 << 12, q.global_batch = 1 << 12;
  });
  grows("wide rows", [](Plan& q) {
    q.model.experts.count = {64}, q.model.experts.top_k = 64, q.model.experts.ffn = 1 << 14;
    q.micro_batch = 1 << 8, q.global_batch = 1 << 8;
  });
  grows("logits", [](Plan& q) {
    q.model.experts.count = {4096}, q.model.experts.ffn = 1;
    q.model.context = q.sequence = 8192, q.micro_batch = q.global_batch = 32;
  });
}

TEST(ExpertExtent, WhatIsTooLargeIsRefusedWithASentence) {
  Plan p;
  p.model = preset("mixtral-8x7b");
  p.model.vocabulary = 32000, p.model.lanes = 1;
  p.sequence = 4096;
  EXPECT_TRUE(decision_problems(p).empty()) << text_of(decision_problems(p));
  p.model.experts.count = {4096}, p.model.experts.ffn = 1 << 20, p.model.hidden = 1 << 17, p.model.layers = 32;
  const auto found = decision_problems(p);
  ASSERT_GE(found.size(), 1u);
  EXPECT_NE(found[0].message.find("too large to be planned"), std::string::npos) << found[0].message;
}

}  // namespace trainyard::plan
