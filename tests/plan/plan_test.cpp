// Tests plans as JSON, damaged plans, and every problem of a plan.
#include "libtrain/base/error.h"
#include "libtrain/base/number_text.h"
#include "libtrain/plan/model_file/model_problems.h"
#include "libtrain/plan/plan_json.h"
#include "libtrain/plan/problems.h"
#include "libtrain/plan/spec/presets.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

namespace trainyard::plan {

namespace plan_test {

Plan sample() {
  Plan p;
  p.model = preset("llama-nano");
  p.model.vocabulary = 257, p.model.lanes = 2;
  p.topology = Topology({{Axis::data, 3}});
  p.zero = 2;
  p.global_batch = 8, p.micro_batch = 2, p.sequence = 32;
  p.dtype = base::DType::bf16;
  predict(p);
  return p;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Plan, RoundTrips) {
  const auto p = sample();
  const auto text = to_json(p);
  const auto q = plan_from_json(text, "plan.json");
  EXPECT_EQ(to_json(q), text);
  EXPECT_EQ(q.model, p.model);
  EXPECT_EQ(q.memory, p.memory);
  EXPECT_EQ(q.traffic, p.traffic);
  EXPECT_EQ(q.traffic.size(), 2u);  // 4 micro-batches on 3 ranks: the last accumulation step is uneven
  EXPECT_TRUE(problems(q, 3).empty());
  EXPECT_NE(text.find("\"schedule\": \"one-stage\""), std::string::npos) << "as every file of version 1 says it";
}

// A plan for a GPU names it, keeps the snapshot on the host, and needs other scratch. A plan from before GPU support is
// for a CPU.
TEST(Plan, KnowsTheDevice) {
  auto p = sample();
  const auto on_cpu = p.memory;
  p.device = base::DeviceKind::cuda;
  predict(p);
  EXPECT_EQ(p.memory.on_host, on_cpu.categories[base::MemoryCategory::save_snapshot]);
  auto small = p;
  small.device_memory = 1 << 20;
  const auto on_host = fmt::format("in arenas, {} of them on the host, ", base::size_text(p.memory.on_host));
  EXPECT_NE(memory_problems(small).at(0).message.find(on_host), std::string::npos) << memory_problems(small)[0].message;
  EXPECT_EQ(p.memory.total(), p.memory.arenas() - p.memory.on_host + (std::int64_t{1280} << 20));
  EXPECT_EQ(on_cpu.on_host, 0);
  for (const auto& [c, key, label, place, reader, presence] : base::memory_categories) {
    const bool scratch = c == base::MemoryCategory::workspace;
    EXPECT_GE(p.memory.categories[c], scratch ? std::int64_t{32} << 20 : on_cpu.categories[c]) << key;
    EXPECT_TRUE(scratch || p.memory.categories[c] == on_cpu.categories[c]) << key;
  }
  const auto q = plan_from_json(to_json(p), "plan.json");
  EXPECT_EQ(q.device, base::DeviceKind::cuda);
  EXPECT_EQ(q.memory, p.memory);
  EXPECT_EQ(plan_from_json(replaced(to_json(sample()), "  \"device\": \"cpu\",\n", ""), "plan.json").device,
            base::DeviceKind::cpu);
  EXPECT_THROW(plan_from_json(replaced(to_json(p), "\"device\": \"cuda\"", "\"device\": \"tpu\""), "plan.json"),
               base::InputError);
}

TEST(Plan, EveryTruncationIsRefused) {
  const auto text = to_json(sample());
  for (std::size_t n = 0; n + 2 < text.size(); n += 7)
    EXPECT_THROW(plan_from_json(text.substr(0, n), "plan.json"), base::InputError) << n;
}

TEST(Plan, UnknownKeysNameTheNearest) {
  const auto text = to_json(sample());
  try {
    plan_from_json(replaced(text, "\"layer_slots\"", "\"layer_slot\": 1, \"layer_slots\""), "plan.json");
    FAIL();
  } catch (const base::InputError& e) {
    EXPECT_NE(std::string(e.what()).find("layer_slot'"), std::string::npos);
    EXPECT_NE(e.hint().find("'layer_slots'"), std::string::npos);
  }
  EXPECT_THROW(plan_from_json(replaced(text, "\"kv_heads\"", "\"kv_head\""), "plan.json"), base::InputError);
  EXPECT_THROW(plan_from_json(replaced(text, "\"zero\": 2", "\"zero\": \"2\""), "plan.json"), base::InputError);
  EXPECT_THROW(plan_from_json(replaced(text, "\"zero\": 2", "\"zero\": 2.5"), "plan.json"), base::InputError);
  EXPECT_THROW(plan_from_json(replaced(text, "trainyard.plan/1", "trainyard.plan/2"), "plan.json"), base::InputError);
  EXPECT_THROW(plan_from_json("[]", "plan.json"), base::InputError);
}

// A typo in an axis name would once have become an axis of its own, and the real axis would have had size 1.
TEST(Plan, UnknownAxesNameTheNearest) {
  try {
    plan_from_json(replaced(to_json(sample()), "\"axis\": \"data\"", "\"axis\": \"date\""), "plan.json");
    FAIL();
  } catch (const base::InputError& e) {
    EXPECT_NE(std::string(e.what()).find("plan.json: topology: \"date\" is no axis"), std::string::npos) << e.what();
    EXPECT_NE(e.hint().find("'data'"), std::string::npos) << e.hint();
  }
}

// Decisions that cannot be computed with are refused by name. They would otherwise divide by zero.
TEST(Plan, IsNotPredictedFromWhatCannotBeComputed) {
  const auto refused = [](auto change, const std::string& part) {
    auto p = sample();
    change(p);
    try {
      predict(p);
      ADD_FAILURE() << part;
    } catch (const std::logic_error& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  refused([](Plan& p) { p.micro_batch = 0; }, "micro-batch 0");
  refused([](Plan& p) { p.global_batch = 0; }, "global batch 0");
  refused([](Plan& p) { p.global_batch = 1; }, "global batch 1, micro-batch 2");
  refused([](Plan& p) { p.sequence = 0; }, "sequence 0");
  refused([](Plan& p) { p.local_accumulation = 0; }, "local accumulation 0");
  refused([](Plan& p) { p.virtual_stages = 0; }, "0 virtual stages");
  refused([](Plan& p) { p.expert_parallel = 0; }, "0 expert-parallel ranks");
  refused([](Plan& p) { p.expert_overlap_chunks = 0; }, "0 overlap chunks");
  refused([](Plan& p) { p.threads = 0; }, "0 threads");
  refused([](Plan& p) { p.tensor = 2, p.model.lanes = 1, p.topology = replicas_of(4, 2); },
          "2 tensor-parallel ranks do not divide 1 lanes");
}

TEST(Problems, AllAtOnce) {
  auto p = sample();
  p.zero = 4;
  p.global_batch = 9;
  p.sequence = 1000;
  p.model.heads = 5;
  EXPECT_EQ(problems(p, 2).size(), 6u);  // hidden over heads, heads over kv-heads, zero, sequence, divisibility, world
  p = sample();
  p.topology = Topology({{Axis::data, 5}});
  EXPECT_EQ(problems(p, 5).size(), 1u);  // more ranks than micro-batches
}

TEST(Problems, MemoryDeficitPricesRemedies) {
  auto p = sample();
  p.model = preset("gpt2");
  p.model.vocabulary = 50257, p.model.lanes = 1;
  p.zero = 0;
  predict(p);
  p.device_memory = p.memory.total();
  EXPECT_TRUE(problems(p, 3).empty());
  --p.device_memory;
  const auto found = problems(p, 3);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].hint.find("--zero 3 would need"), std::string::npos);
}

}  // namespace plan_test
}  // namespace trainyard::plan
