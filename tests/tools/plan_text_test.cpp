// The table of a plan in both of its forms.
#include "tools/common/plan_text.h"
#include "libtrain/plan/spec/presets.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace trainyard {
namespace {

plan::Plan sample(int ranks) {
  plan::Plan p;
  p.model = plan::preset("gpt2-micro");
  p.model.vocabulary = 257, p.model.lanes = 1;
  p.sequence = 256, p.micro_batch = 4, p.global_batch = 32, p.zero = 3;
  p.topology = plan::Topology({{plan::Axis::data, ranks}});
  plan::predict(p);
  return p;
}

TEST(PlanText, SizesForPeopleAndToTheByte) {
  const auto p = sample(4);
  const auto rounded = tools::plan_table(p, base::Sizes::rounded), exact = tools::plan_table(p, base::Sizes::exact);
  EXPECT_NE(rounded.find("parameters  859,008\n"), std::string::npos) << rounded;
  EXPECT_NE(rounded.find(fmt::format(" {}\n", base::size_text(p.memory.total()))), std::string::npos) << rounded;
  EXPECT_NE(exact.find(fmt::format(" {}\n", p.memory.total())), std::string::npos) << exact;
  EXPECT_EQ(rounded.find(std::to_string(p.memory.total())), std::string::npos);
  std::istringstream a(rounded), b(exact);
  for (std::string x, y; std::getline(a, x) && std::getline(b, y);)
    if (x.starts_with("  ") && x.find("textbook") == std::string::npos && x.find(" to replicas") == std::string::npos) {
      EXPECT_EQ(x.size(), y.size()) << x << "\n" << y;
    }
}

TEST(PlanText, OneIsNotMany) {
  const auto text = tools::plan_table(sample(1), base::Sizes::rounded);
  EXPECT_NE(text.find("layout      1 rank, "), std::string::npos) << text;
  EXPECT_NE(text.find("1 thread a rank"), std::string::npos) << text;
  EXPECT_NE(text.find("one rank sends nothing"), std::string::npos) << text;
}

TEST(PlanText, SaysOfWhomAndNothingOfWhatIsNotSent) {
  auto p = sample(2);
  p.model.lanes = 2;
  p.tensor = 2, p.topology = plan::replicas_of(2, 2);
  plan::predict(p);
  const auto text = tools::plan_table(p, base::Sizes::rounded);
  EXPECT_NE(text.find("\n  what each of these ranks sends a step\n  ranks       group   operation "), std::string::npos)
      << text;
  EXPECT_NE(text.find("\n  0-1         tensor  "), std::string::npos) << text;
  EXPECT_EQ(text.find(" data "), std::string::npos) << "one replica sends nothing to others: " << text;
  EXPECT_NE(text.find("\n  gathered weights "), std::string::npos) << text;
  EXPECT_EQ(text.find("gathered_units"), std::string::npos) << text;
  EXPECT_NE(text.find("by the textbook (2 ranks; no padding, no buffers): "), std::string::npos) << text;
}

// Pipeline stages that send the same share one line. A note says what ZeRO and local accumulation cost in each
// accumulation step.
TEST(PlanText, SaysWhatEachStageSends) {
  auto p = sample(8);
  p.pipeline = 4, p.topology = plan::replicas_of(8, 1, 4), p.micro_batch = 1, p.zero = 1, p.partition = "0,2,3,4";
  plan::predict(p);
  auto text = tools::plan_table(p, base::Sizes::rounded);
  EXPECT_NE(text.find("\n  stage  items "), std::string::npos) << text;
  EXPECT_NE(text.find(" tokens, 16 accumulation steps, "), std::string::npos) << text;
  EXPECT_NE(text.find("\n  a rank of stage 0, which needs most     size\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  stage  ranks       group   operation "), std::string::npos) << text;
  EXPECT_NE(text.find("\n  1-2    2-5         pipe    activations "), std::string::npos) << text;
  EXPECT_NE(text.find("\n  3      6-7         stages  all_gather "), std::string::npos) << text;
  EXPECT_NE(text.find("gradients are reduced in each of 16 accumulation steps, at every ZeRO stage: "),
            std::string::npos);
  EXPECT_NE(text.find("--local-accumulation 16 reduces less often, rounded differently: "), std::string::npos);
  const auto sent = [](const plan::Plan& q) {
    std::int64_t most = 0;
    for (const auto& t : q.traffic) {
      std::int64_t bytes = 0;
      for (const auto& o : t.operations) bytes += o.group == plan::CallGroup(plan::Axis::data) ? o.bytes : 0;
      most = std::max(most, bytes);
    }
    return base::size_text(most);
  };
  EXPECT_NE(text.find("at every ZeRO stage: " + sent(p) + " to replicas\n"), std::string::npos) << text;
  auto accumulated = p, third = p;
  accumulated.local_accumulation = 16, third.zero = 3;
  plan::predict(accumulated), plan::predict(third);
  EXPECT_NE(text.find("rounded differently: " + sent(accumulated) + " to replicas, and " +
                      base::size_text(accumulated.memory.total()) + " of memory a rank\n"),
            std::string::npos)
      << text;
  text = tools::plan_table(third, base::Sizes::rounded);
  EXPECT_NE(text.find("ZeRO 3 gathers weights for every micro-batch: " + sent(third) + " to replicas; --zero 1 sends " +
                      sent(p) + "\n"),
            std::string::npos)
      << text;
  // The same with one stage.
  auto one = p;
  one.pipeline = 1, one.topology = plan::replicas_of(8, 1, 1), one.partition = "flops",
  one.stages = plan::stages_of(one);
  plan::predict(one);
  text = tools::plan_table(one, base::Sizes::rounded);
  auto added = one;
  added.local_accumulation = one.batch().accumulation_steps();
  plan::predict(added);
  EXPECT_NE(text.find(fmt::format("--local-accumulation {} reduces less often, rounded differently: {} to replicas",
                                  added.local_accumulation, sent(added))),
            std::string::npos)
      << text;
  text = tools::plan_table(accumulated, base::Sizes::rounded);
  EXPECT_EQ(text.find("--local-accumulation"), std::string::npos) << "one round, nothing to save: " << text;
}

}  // namespace
}  // namespace trainyard
