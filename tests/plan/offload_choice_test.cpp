// What --offload auto takes: nothing where everything fits, and else the least that does, in the order of what it
// moves.
#include "libtrain/plan/offload_choice.h"

#include "libtrain/base/error.h"
#include "libtrain/base/number_text.h"
#include "libtrain/plan/auto_setting.h"
#include "tests/plan/offload_plan.h"

#include <gtest/gtest.h>

namespace trainyard::plan {
namespace offload_choice_test {

// Many layers, so that what lies on disk is more than the buffers on the way there.
Plan deep(int zero) {
  auto p = small_offload_plan("none", zero);
  p.model.layers = 40;
  predict(p);
  return p;
}

// The memory that a plan needs, from a whole prediction.
std::int64_t need(Plan p, const std::string& offload) {
  p.offload = offload_of_text(offload, "test");
  EXPECT_TRUE(decision_problems(p).empty()) << text_of(decision_problems(p));
  predict(p);
  return p.memory.total();
}

std::string taken(const Plan& p, std::int64_t bytes) { return offload_text(fitting_offload(p, bytes)); }

// Each of `order` fits exactly; with one byte less, the next one that needs less is taken.
void expect_order(const Plan& p, const std::vector<std::string>& order) {
  std::int64_t least = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto bytes = need(p, order[i]);
    EXPECT_EQ(memory_with(p, offload_of_text(order[i], "test")), bytes) << order[i];
    if (i > 0 && bytes >= least) continue;  // buffers, and nothing that they save yet
    EXPECT_EQ(taken(p, bytes), order[i]);
    least = bytes;
  }
  EXPECT_EQ(need(p, taken(p, 1)), least) << "nothing fits, so the one that needs least";
  EXPECT_EQ(taken(p, 0), "none");
  EXPECT_EQ(taken(p, need(p, "none") + 1), "none");
}

std::vector<std::string> shares_of(const std::string& before, const std::string& kind) {
  std::vector<std::string> out;
  for (int part = 1; part < 20; ++part) out.push_back(fmt::format("{}{}=disk:{}", before, kind, part / 20.0));
  out.push_back(before + kind + "=disk");
  return out;
}

std::vector<std::string> joined(std::initializer_list<std::vector<std::string>> lists) {
  std::vector<std::string> out{"none"};
  for (const auto& list : lists) out.insert(out.end(), list.begin(), list.end());
  return out;
}

TEST(OffloadChoice, OptimizerThenGradientsThenWeights) {
  expect_order(deep(1), joined({shares_of("", "optimizer")}));
  expect_order(deep(2), joined({shares_of("", "optimizer"), shares_of("optimizer=disk,", "gradients")}));
  const auto p = deep(3);
  auto weights = shares_of("optimizer=disk,", "parameters");
  for (auto& text : weights) text += ",gradients=disk";
  expect_order(p, joined({shares_of("", "optimizer"), shares_of("optimizer=disk,", "gradients"), weights}));
  EXPECT_LT(need(p, "optimizer=disk,parameters=disk,gradients=disk"), need(p, "optimizer=disk,gradients=disk"));
  EXPECT_LT(need(p, "optimizer=disk,gradients=disk"), need(p, "optimizer=disk"));
  EXPECT_LT(need(p, "optimizer=disk"), need(p, "optimizer=disk:0.5"));
  EXPECT_LT(need(p, "optimizer=disk:0.5"), need(p, "none"));
}

// In several accumulation steps gradients may lie on disk only breadth first, which is then the order by itself.
TEST(OffloadChoice, NoGradientsDepthFirst) {
  auto p = deep(3);
  p.global_batch = 2;
  predict(p);
  auto weights = shares_of("optimizer=disk,", "parameters");
  for (auto& text : weights) text += ",gradients=disk";
  expect_order(p, joined({shares_of("", "optimizer"), shares_of("optimizer=disk,", "gradients"), weights}));
  p.accumulation_order = AccumulationOrder::depth;
  expect_order(p, joined({shares_of("", "optimizer"), shares_of("optimizer=disk,", "parameters")}));
}

// On the host first; what its memory cannot take, on disk.
TEST(OffloadChoice, OfAGpu) {
  auto p = small_offload_plan("none", 1, base::DType::bf16, base::DeviceKind::cuda);
  p.model.layers = 40, p.recompute = Recompute::layers;
  predict(p);
  const auto bytes = [&](const char* offload) {
    auto of = p;
    of.offload = offload_of_text(offload, "test");
    predict(of);
    return of.memory;
  };
  EXPECT_EQ(taken(p, bytes("none").total()), "none");
  EXPECT_EQ(taken(p, bytes("optimizer=host").total()), "optimizer=host");
  EXPECT_EQ(taken(p, bytes("optimizer=host:0.5").total()), "optimizer=host:0.5");
  EXPECT_EQ(taken(p, bytes("optimizer=host,activations=host").total()), "optimizer=host,activations=host");
  const auto host = bytes("optimizer=host").on_host;
  EXPECT_EQ(offload_text(fitting_offload(p, bytes("optimizer=host").total(), host)), "optimizer=host");
  EXPECT_EQ(offload_text(fitting_offload(p, bytes("optimizer=host").total(), host - 1)), "optimizer=disk");
}

TEST(OffloadChoice, NothingThatIsRefused) {
  auto p = deep(3);
  p.optimizer = "lamb";
  predict(p);
  EXPECT_EQ(taken(p, 1), "none");
  p = deep(0);
  p.topology = topology_of(p, 2), p.global_batch = 2;
  predict(p);
  EXPECT_EQ(taken(p, 1), "none");
}

TEST(OffloadChoice, SaysWhatAndWhy) {
  const auto p = deep(1);
  const auto text = [&](const char* offload, std::int64_t bytes) {
    return offload_choice_text(p, offload_of_text(offload, "test"), bytes);
  };
  const auto size = [&](const char* offload) { return base::size_text(need(p, offload)); };
  EXPECT_EQ(text("optimizer=disk:0.35", 500'000'000), "optimizer=disk:0.35 on 1 rank: " + size("optimizer=disk:0.35") +
                                                          " a rank of the 500 MB that it may use (none would need " +
                                                          size("none") + ")");
  EXPECT_EQ(text("none", 0), "none on 1 rank: " + size("none") + " a rank; how much it may use is not known");
}

TEST(OffloadChoice, IsAWordOfTheSetting) {
  ParallelLayout layout;
  bool automatic = false;
  auto fields = fields_of(layout);
  let_be_auto(fields, "offload", automatic);
  auto& field = base::field_named(fields, "offload", "test");
  EXPECT_EQ(field.get(), "none");
  field.set("optimizer=disk", "--offload");
  EXPECT_FALSE(automatic);
  EXPECT_EQ(field.get(), "optimizer=disk");
  field.set("auto", "--offload");
  EXPECT_TRUE(automatic);
  EXPECT_EQ(layout.offload, Offload{});
  EXPECT_EQ(field.get(), "auto");
  field.set("gradients=disk", "--offload");
  EXPECT_FALSE(automatic);
  EXPECT_EQ(field.get(), "gradients=disk");
  EXPECT_THROW(field.set("automatic", "--offload"), base::UsageError);
}

}  // namespace offload_choice_test
}  // namespace trainyard::plan
