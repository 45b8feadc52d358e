// Tests what a plan says of masters that are kept as remainders: bytes, keys, and what is refused.
#include "libtrain/plan/decision_problems.h"
#include "libtrain/plan/plan.h"
#include "libtrain/plan/plan_json.h"
#include "libtrain/plan/spec/presets.h"

#include <gtest/gtest.h>

namespace trainyard::plan {

namespace {

using base::MemoryCategory;

Plan plan_of_masters(MasterFormat master, int zero, const char* optimizer = "adamw") {
  Plan p;
  p.model = preset("llama-nano");
  p.model.vocabulary = 257, p.model.lanes = 2;
  p.topology = Topology({{Axis::data, 3}});
  p.zero = zero, p.dtype = base::DType::bf16, p.optimizer = optimizer, p.master = master;
  p.global_batch = 6, p.micro_batch = 2, p.sequence = 32;
  predict(p);
  return p;
}

}  // namespace

// Two bytes an element, and a bit, which fills whole 64 bytes of each flat group.
TEST(MasterFormat, TakesTwoBytesAndABit) {
  for (const char* optimizer : {"adamw", "lion", "muon"})
    for (int zero = 0; zero < 4; ++zero) {
      const auto f32 = plan_of_masters(MasterFormat::f32, zero, optimizer),
                 split = plan_of_masters(MasterFormat::remainder, zero, optimizer);
      std::int64_t elements = 0, marks = 0;
      for (const auto& group : flat_groups(f32.model)) {
        const auto l = layout(group, 3);
        const auto n = zero == 0 ? l.padded : l.shard;
        elements += n, marks += (n / 8 + 63) / 64 * 64;
      }
      EXPECT_EQ(f32.memory.categories[MemoryCategory::optimizer] - split.memory.categories[MemoryCategory::optimizer],
                4 * elements - 2 * elements - marks)
          << optimizer << " " << zero;
      EXPECT_LT(marks, elements / 7);
      auto others = f32.memory.categories;
      others[MemoryCategory::optimizer] = split.memory.categories[MemoryCategory::optimizer];
      for (const auto& entry : base::memory_categories)
        EXPECT_EQ(split.memory.categories[entry.category], others[entry.category]) << entry.label;
      EXPECT_EQ(split.traffic, f32.traffic);
    }
}

// Plans with f32 masters are written as before there was a choice, and plans from before have them.
TEST(MasterFormat, IsAKeyOfPlansWithRemainders) {
  const auto f32 = to_json(plan_of_masters(MasterFormat::f32, 1)),
             split = to_json(plan_of_masters(MasterFormat::remainder, 1));
  EXPECT_EQ(f32.find("\"master\""), std::string::npos) << f32;
  EXPECT_NE(split.find("\"master\": \"remainder\""), std::string::npos) << split;
  EXPECT_EQ(plan_from_json(f32, "it").master, MasterFormat::f32);
  EXPECT_EQ(plan_from_json(split, "it").master, MasterFormat::remainder);
  EXPECT_EQ(to_json(plan_from_json(split, "it")), split);
}

TEST(MasterFormat, IsForBf16AndUpdatesOfElements) {
  auto p = plan_of_masters(MasterFormat::remainder, 1);
  EXPECT_TRUE(decision_problems(p).empty());
  for (const auto dtype : {base::DType::f32, base::DType::f16}) {
    auto other = p;
    other.dtype = dtype;
    ASSERT_EQ(decision_problems(other).size(), 1u);
    EXPECT_NE(decision_problems(other)[0].message.find("for weights in bf16"), std::string::npos);
    other.master = MasterFormat::f32;
    EXPECT_TRUE(decision_problems(other).empty());
  }
  for (const char* optimizer : {"lamb", "adafactor"}) {
    p.optimizer = optimizer;
    ASSERT_EQ(decision_problems(p).size(), 1u);
    EXPECT_NE(decision_problems(p)[0].message.find("takes norms of f32 masters"), std::string::npos);
  }
}

}  // namespace trainyard::plan
