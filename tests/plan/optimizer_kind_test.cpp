// Tests the descriptions of optimizers: what a plan says of them, what their states take, and what is refused.
#include "libtrain/plan/spec/optimizer_kind.h"
#include "libtrain/base/error.h"
#include "libtrain/plan/decision_problems.h"
#include "libtrain/plan/plan.h"
#include "libtrain/plan/plan_json.h"
#include "libtrain/plan/spec/presets.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <tuple>
#include <vector>

namespace trainyard::plan {

namespace {

Plan plan_with(const std::string& optimizer, base::DType dtype = base::DType::f32, int zero = 1) {
  Plan p;
  p.model = preset("llama-nano");
  p.model.vocabulary = 257, p.model.lanes = 2;
  p.topology = Topology({{Axis::data, 3}});
  p.zero = zero, p.dtype = dtype, p.optimizer = optimizer;
  p.global_batch = 6, p.micro_batch = 2, p.sequence = 32;
  predict(p);
  return p;
}

std::int64_t bytes_of(const Plan& p, const char* category) {
  for (const auto& entry : base::memory_categories)
    if (std::string_view(entry.key) == category) return p.memory.categories[entry.category];
  ADD_FAILURE() << category;
  return 0;
}

}  // namespace

TEST(OptimizerKind, SaysWhatAnUpdateTakes) {
  const auto& adamw = optimizer_kind("adamw");
  EXPECT_EQ(adamw.state_bytes(), 8);
  EXPECT_EQ(adamw.update_bytes(), 28);
  EXPECT_TRUE(adamw.reads("beta1") && adamw.reads("weight-decay") && !adamw.reads("momentum"));
  const auto& adam = optimizer_kind("adam");
  EXPECT_EQ(adam.update_bytes(), 28);
  EXPECT_EQ(adam.settings, adamw.settings);
  const auto& lamb = optimizer_kind("lamb");
  EXPECT_EQ(lamb.state_bytes(), 8);
  EXPECT_EQ(lamb.update_bytes(), 4 * (5 + 3 + 4)) << "moments, squares and weights are a pass each";
  EXPECT_EQ(lamb.settings, adamw.settings);
  const auto& adafactor = optimizer_kind("adafactor");
  EXPECT_EQ(adafactor.state_bytes(), 0) << "of each element";
  EXPECT_EQ(adafactor.update_bytes(), 4 * (1 + 1 + 2 + 3)) << "rows, columns, norms and weights are a pass each";
  EXPECT_TRUE(adafactor.reads("beta2-decay") && adafactor.reads("scale-parameter") && !adafactor.reads("beta2"));
  const auto& lion = optimizer_kind("lion");
  EXPECT_EQ(lion.state_bytes(), 4);
  EXPECT_TRUE(lion.reads("beta1") && lion.reads("beta2") && !lion.reads("epsilon") && !lion.reads("momentum"));
  const auto& sgd = optimizer_kind("sgd");
  EXPECT_EQ(sgd.state_bytes(), 4);
  EXPECT_EQ(sgd.update_bytes(), 20);
  EXPECT_TRUE(sgd.reads("momentum") && sgd.reads("weight-decay") && !sgd.reads("beta1"));
  EXPECT_TRUE(is_of_an_optimizer("beta2") && is_of_an_optimizer("nesterov") && !is_of_an_optimizer("learning-rate"));
  EXPECT_EQ(optimizer_names(), (std::vector<std::string>{"adafactor", "adam", "adamw", "lamb", "lion", "muon", "sgd"}));
}

TEST(OptimizerKind, OthersAreRefusedWithTheNearest) {
  try {
    optimizer_kind("adamax");
    FAIL();
  } catch (const base::UsageError& e) {
    EXPECT_NE(std::string(e.what()).find(
                  "no optimizer is called 'adamax'; there are adafactor, adam, adamw, lamb, lion, muon, sgd"),
              std::string::npos)
        << e.what();
    EXPECT_NE(e.hint().find("adam"), std::string::npos) << e.hint();
  }
}

TEST(OptimizerKind, RegistrationsAreChecked) {
  using Shape = OptimizerState::Shape;
  for (const char* name : {"", "a b", "a/b", "master", "x-y"}) {
    EXPECT_THROW(register_optimizer({name, {}, {}}), base::UsageError) << name;
    EXPECT_THROW(register_optimizer({"tested", {{name}}, {}}), base::UsageError) << name;
  }
  EXPECT_THROW(register_optimizer({"tested", {{"s"}, {"t"}, {"s"}}, {}}), base::UsageError);
  EXPECT_THROW(register_optimizer({"tested", {{"s", base::DType::bf16}}, {}}), std::logic_error);
  for (const auto shape : {Shape::rows, Shape::columns})
    EXPECT_THROW(register_optimizer({"tested", {{"s", base::DType::f16, shape}}, {}}), std::logic_error);
  EXPECT_THROW(register_optimizer({"tested", {{"r", base::DType::f32, Shape::rows}, {"m"}}, {}}), std::logic_error);
  EXPECT_THROW(register_optimizer({"tested", {{"r", base::DType::f32, Shape::rows}}, {}}), std::logic_error);
  EXPECT_THROW(register_optimizer({"tested", {{"m"}}, {}, OptimizerKind::Collective::factored_moments}),
               std::logic_error);
  EXPECT_THROW(optimizer_kind("tested"), base::UsageError) << "none of these was taken";
}

// Adafactor has two numbers of 4 bytes for each row and column, a state and a factor, and 21 whole numbers of 8 bytes
// for each in one flat group. Each flat group's whole numbers are added up by the ranks that hold it. Norms are LAMB's.
TEST(OptimizerKind, RowsAndColumnsArePlanned) {
  std::int64_t parameters = 0, all = 0, most = 0;
  const auto groups = flat_groups(plan_with("adafactor").model);
  for (const auto& group : groups) {
    std::int64_t here = 0;
    for (const auto& p : group.parameters) here += p.shape[0] + (p.shape.size() == 2 ? p.shape[1] : 1), ++parameters;
    all += here, most = std::max(most, here);
  }
  const auto slack = 64 * (4 * std::ssize(groups) + 3);
  for (const int zero : {0, 1, 3}) {
    const auto adafactor = plan_with("adafactor", base::DType::bf16, zero),
               adamw = plan_with("adamw", base::DType::bf16, zero);
    const auto masters = bytes_of(adamw, "optimizer") / 12 * 4;
    const auto more = bytes_of(adafactor, "optimizer") - masters, least = 8 * all + 168 * most + parameters * 42 * 8;
    EXPECT_GE(more, least);
    EXPECT_LT(more, least + slack);
    const auto saved = bytes_of(adafactor, "save_snapshot") - bytes_of(adamw, "save_snapshot") / 14 * 6;
    EXPECT_GE(saved, 4 * all);
    EXPECT_LT(saved, 4 * all + slack);
    auto calls = adamw.traffic.front().operations;
    calls.push_back({Axis::data, "all_reduce", std::ssize(groups) + 1, 2 * 2 * (168 * all + parameters * 42 * 8) / 3});
    EXPECT_EQ(adafactor.traffic.front().operations, calls);
  }
}

TEST(OptimizerKind, StatesMayHaveANumberForEachRowOrColumn) {
  using Shape = OptimizerState::Shape;
  register_optimizer({"tested_factored",
                      {{"m"}, {"r", base::DType::f32, Shape::rows}, {"c", base::DType::f32, Shape::columns}},
                      {},
                      OptimizerKind::Collective::factored_moments});
  const auto& states = optimizer_kind("tested_factored").states;
  ASSERT_EQ(states.size(), 3u);
  EXPECT_EQ(states[0].shape, Shape::parameter);
  EXPECT_EQ(states[1].shape, Shape::rows);
  EXPECT_EQ(states[2].shape, Shape::columns);
  using Dims = std::vector<std::int64_t>;
  for (const auto& [parameter, rows, columns] :
       {std::tuple{Dims{5, 3}, Dims{5}, Dims{3}}, std::tuple{Dims{7}, Dims{7}, Dims{1}},
        std::tuple{Dims{4, 2, 3}, Dims{4}, Dims{6}}}) {
    EXPECT_EQ(dims_of_state(states[0].shape, parameter), parameter);
    EXPECT_EQ(dims_of_state(states[1].shape, parameter), rows);
    EXPECT_EQ(dims_of_state(states[2].shape, parameter), columns);
  }
}

// Beside AdamW's states, LAMB has 42 whole numbers of 8 bytes and one factor of 4 for each parameter. The ranks that
// hold parts of a parameter add up the whole numbers.
TEST(OptimizerKind, NormsOfParametersArePlanned) {
  std::int64_t parameters = 0;
  for (const auto& group : flat_groups(plan_with("lamb").model)) parameters += std::ssize(group.parameters);
  const auto numbers = parameters * 42 * 8;
  for (const int zero : {0, 1, 3}) {
    const auto lamb = plan_with("lamb", base::DType::bf16, zero), adamw = plan_with("adamw", base::DType::bf16, zero);
    const auto more = bytes_of(lamb, "optimizer") - bytes_of(adamw, "optimizer");
    EXPECT_GE(more, numbers + parameters * 4);
    EXPECT_LT(more, numbers + parameters * 4 + 128);
    auto calls = adamw.traffic.front().operations;
    calls.push_back({Axis::data, "all_reduce", 1, 2 * 2 * numbers / 3});
    EXPECT_EQ(lamb.traffic.front().operations, calls);
  }
}

// Master weights belong to the working dtype, so a bf16 run has them with any optimizer.
TEST(OptimizerKind, StatesTakeTheMemoryThatTheDescriptionSays) {
  for (const int zero : {0, 1, 2, 3})
    for (const auto dtype : {base::DType::f32, base::DType::bf16}) {
      const auto adamw = plan_with("adamw", dtype, zero), sgd = plan_with("sgd", dtype, zero);
      const std::int64_t master = dtype == base::DType::bf16 ? 4 : 0, weight = base::size_of(dtype);
      EXPECT_EQ(bytes_of(sgd, "optimizer") * (8 + master), bytes_of(adamw, "optimizer") * (4 + master));
      EXPECT_EQ(bytes_of(sgd, "save_snapshot") * (8 + master + weight),
                bytes_of(adamw, "save_snapshot") * (4 + master + weight));
      for (const char* category : {"parameters", "gradients", "activations", "workspace"})
        EXPECT_EQ(bytes_of(sgd, category), bytes_of(adamw, category)) << category;
      EXPECT_EQ(sgd.traffic, adamw.traffic);
    }
  const auto textbook = [](const char* name, base::DType dtype) {
    return model_state_bytes(1000, 4, 0, dtype, base::DType::f32, optimizer_kind(name));
  };
  EXPECT_EQ(textbook("adamw", base::DType::f32), 16000);
  EXPECT_EQ(textbook("sgd", base::DType::f32), 12000);
  EXPECT_EQ(textbook("adamw", base::DType::bf16), 18000);
  EXPECT_EQ(textbook("sgd", base::DType::bf16), 14000);
}

TEST(OptimizerKind, StatesInBf16TakeHalf) {
  EXPECT_EQ(optimizer_kind("adamw", base::DType::bf16).state_bytes(), 4);
  EXPECT_EQ(optimizer_kind("adamw", base::DType::bf16).update_bytes(), 20);
  EXPECT_EQ(optimizer_kind("lion", base::DType::bf16).state_bytes(), 2);
  EXPECT_EQ(optimizer_kind("adamw").state_dtype(), base::DType::f32);
  for (const int zero : {0, 1, 2, 3})
    for (const auto dtype : {base::DType::f32, base::DType::bf16}) {
      auto p = plan_with("adamw", dtype, zero);
      const auto wide = bytes_of(p, "optimizer"), snapshot = bytes_of(p, "save_snapshot");
      p.moment_dtype = base::DType::bf16;
      predict(p);
      const std::int64_t master = dtype == base::DType::bf16 ? 4 : 0, weight = base::size_of(dtype);
      EXPECT_EQ(bytes_of(p, "optimizer") * (8 + master), wide * (4 + master));
      EXPECT_EQ(bytes_of(p, "save_snapshot") * (8 + master + weight), snapshot * (4 + master + weight));
      const auto text = to_json(p);
      EXPECT_NE(text.find("\"moment_dtype\": \"bf16\""), std::string::npos) << text;
      EXPECT_EQ(plan_from_json(text, "it").moment_dtype, base::DType::bf16);
      EXPECT_EQ(to_json(plan_from_json(text, "it")), text);
    }
  EXPECT_EQ(to_json(plan_with("adamw")).find("moment"), std::string::npos);
  // Two passes read the rounded states of LAMB again. Its norms take as much as beside f32 states.
  EXPECT_EQ(optimizer_kind("lamb", base::DType::bf16).update_bytes(), 32);
  const auto optimizer_bytes = [](const char* name, base::DType states) {
    auto p = plan_with(name);
    p.moment_dtype = states;
    EXPECT_TRUE(decision_problems(p).empty()) << name;
    predict(p);
    return bytes_of(p, "optimizer");
  };
  const auto norms = [&](base::DType states) {
    return optimizer_bytes("lamb", states) - optimizer_bytes("adamw", states);
  };
  EXPECT_EQ(norms(base::DType::bf16), norms(base::DType::f32));
  EXPECT_GT(norms(base::DType::bf16), 0);
}

// Plans with AdamW are written as before there was a choice, and plans from before are plans with AdamW.
TEST(OptimizerKind, IsAKeyOfPlansWhereItIsNotAdamW) {
  const auto adamw = to_json(plan_with("adamw")), sgd = to_json(plan_with("sgd"));
  EXPECT_EQ(adamw.find("\"optimizer\": \""), std::string::npos) << adamw;
  EXPECT_NE(sgd.find("\"optimizer\": \"sgd\""), std::string::npos) << sgd;
  EXPECT_EQ(plan_from_json(adamw, "it").optimizer, "adamw");
  EXPECT_EQ(plan_from_json(sgd, "it").optimizer, "sgd");
  EXPECT_EQ(to_json(plan_from_json(sgd, "it")), sgd);
  auto other = sgd;
  other.replace(other.find("\"sgd\""), 5, "\"sdg\"");
  EXPECT_THROW(plan_from_json(other, "it"), base::InputError);
}

}  // namespace trainyard::plan
