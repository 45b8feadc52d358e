// Resharding to and from expert-parallel ranks: the files of a save on those ranks, byte for byte; the new record of
// the plan; what is refused.
#include "tests/checkpoint/dealt_out.h"
#include "tests/checkpoint/reshard_files.h"
#include "tests/night.h"

#include "libtrain/checkpoint/average.h"
#include "libtrain/checkpoint/manifest_checks.h"

#include <gtest/gtest.h>

#include <utility>

using namespace sample;
using trainyard::base::DType;

namespace reshard_experts_test {

checkpoint::NewLayout layout_of(const DealtOut& grid) {
  checkpoint::NewLayout layout;
  layout.data = grid.data, layout.tensor = 1, layout.pipeline = grid.pipe, layout.experts = grid.experts;
  if (grid.pipe > 1) layout.stages = grid.stages();
  return layout;
}

checkpoint::NewLayout unsaid(int data) {
  checkpoint::NewLayout layout;
  layout.data = data;
  return layout;
}

checkpoint::Manifest manifest_of(const plan::ModelConfig& model, int data, const nlohmann::json& plan) {
  checkpoint::Manifest m;
  m.state = state(model, DType::f32, 5);
  m.state.plan = plan;
  m.axes = {{"data", data}};
  m.ranks = data;
  m.parameters = checkpoint::parameters_of(model);
  return m;
}

using Refusal = std::pair<std::string, std::string>;
Refusal refusal(const checkpoint::Manifest& m, int data, int experts, int tensor = 1) {
  checkpoint::NewLayout layout;
  layout.data = data, layout.experts = experts, layout.tensor = tensor;
  try {
    EXPECT_EQ(checkpoint::ranks_of_layout(m, layout).topology.size(plan::Axis::expert), experts);
    return {};
  } catch (const base::UsageError& e) {
    return {e.what(), e.hint()};
  }
}

// Reshards from one layout to the next, so that every element of an expert moves between different kinds of ranks. The
// mean fills such files in another order. By day each model has one dtype.
TEST(ReshardExperts, GivesTheFilesOfASaveOnSuchRanks) {
  for (const auto& model : {moe(), moe_llama()})
    for (auto dtype : {DType::f32, DType::bf16}) {
      if (!trainyard::testing::at_night() && (model.name == moe().name) != (dtype == DType::f32)) continue;
      Scratch scratch;
      const DealtOut first{6, 2};
      save(scratch.path + "/from", state(model, dtype, 5, first), first.topology());
      auto before = scratch.path + "/from/step-00000005";
      const auto items = plan::item_count(model);
      int step = 0;
      for (const auto& grid : {DealtOut{6, 3}, DealtOut{3, 3}, DealtOut{4, 2, 2, {0, 2, items}}, DealtOut{5, 1},
                               DealtOut{2, 2}, DealtOut{6, 6, 2, {0, 1, 2, items - 1, items}},
                               DealtOut{7, 1, 2, {0, 3, items}}, DealtOut{12, 3}, DealtOut{1, 1}}) {
        const auto what = fmt::format("{} {} on {}", model.name, base::name_of(dtype), grid.text());
        const auto found = fmt::format("{}/{}", scratch.path, step++), expected = found + "-saved",
                   mean = found + "-mean";
        save(expected, state(model, dtype, 5, grid), grid.topology(), 3, grid.stages());
        checkpoint::ReshardOptions o;
        o.threads = 2;
        EXPECT_EQ(reshard(before, found, layout_of(grid), o).ranks, grid.data * grid.pipe) << what;
        expect_same_files(found, expected + "/step-00000005", what);
        const auto m = whole(found).manifest();
        EXPECT_EQ(m.state.plan.contains("expert_parallel"), grid.experts > 1) << what;
        EXPECT_EQ(checkpoint::expert_parts_of(m), grid.experts) << what;
        EXPECT_TRUE(checkpoint::layout_is_ours(m)) << what;
        if (dtype == DType::f32) {  // for bf16 the mean has the rounded master weights
          const auto source = whole(before);
          checkpoint::average({&source}, mean, layout_of(grid), o);
          expect_same_ranks(mean, found, what);
        }
        before = found;
      }
    }
}

// To tensor-parallel ranks, which share the experts, and back. The expert-parallel degree stays.
TEST(ReshardExperts, ToTensorRanksAndBack) {
  Scratch scratch;
  const auto model = moe();
  const DealtOut grid{6, 3};
  const auto s = state(model, DType::bf16, 5, grid);
  save(scratch.path + "/from", s, grid.topology());
  checkpoint::NewLayout layout;
  layout.data = 3, layout.tensor = 2;
  reshard(scratch.path + "/from/step-00000005", scratch.path + "/shared", layout);
  save(scratch.path + "/expected", s, plan::replicas_of(6, 2, 1, 3));
  expect_same_files(scratch.path + "/shared", scratch.path + "/expected/step-00000005", "tensor ranks");
  EXPECT_EQ(whole(scratch.path + "/shared").state().plan["expert_parallel"], 3);
  reshard(scratch.path + "/shared", scratch.path + "/back", layout_of(grid));
  expect_same_files(scratch.path + "/back", scratch.path + "/from/step-00000005", "and back");
}

// Payloads of several blocks, whose runs end inside tensors.
TEST(ReshardExperts, ManyBlocks) {
  Scratch scratch;
  auto model = middling();
  model.experts.count = {12}, model.experts.every = 2, model.experts.ffn = 300;
  const DealtOut dealt{6, 3};
  save(scratch.path + "/from", state(model, DType::bf16, 5), 2);
  save(scratch.path + "/expected", state(model, DType::bf16, 5, dealt), dealt.topology());
  checkpoint::ReshardOptions o;
  o.threads = 3;
  reshard(scratch.path + "/from/step-00000005", scratch.path + "/to", layout_of(dealt), o);
  expect_same_files(scratch.path + "/to", scratch.path + "/expected/step-00000005", "dealt out");
  reshard(scratch.path + "/to", scratch.path + "/back", layout_of({2, 1}), o);
  expect_same_files(scratch.path + "/back", scratch.path + "/from/step-00000005", "and back");
}

// A degree that no setting gives stays, where the new ranks can have it. A false record of a plan changes nothing.
TEST(ReshardExperts, WhatIsNotSaidStaysWhereItCan) {
  const auto kept = [](const plan::ModelConfig& model, int data, const nlohmann::json& plan, int new_data) {
    return checkpoint::ranks_of_layout(manifest_of(model, data, plan), unsaid(new_data))
        .topology.size(plan::Axis::expert);
  };
  const nlohmann::json three{{"expert_parallel", 3}};
  EXPECT_EQ(kept(moe(), 6, three, 0), 3);
  EXPECT_EQ(kept(moe(), 6, three, 9), 3);
  EXPECT_EQ(kept(moe(), 6, three, 4), 1);
  EXPECT_EQ(kept(moe(), 6, three, 1), 1);
  EXPECT_EQ(kept(moe(), 4, three, 6), 1) << "its own ranks cannot have been so";
  EXPECT_EQ(kept(gpt(), 6, three, 6), 1);
  for (const char* said : {R"({"expert_parallel": "3"})", R"({"expert_parallel": -3})", R"({"expert_parallel": 4})",
                           R"({"expert_parallel": 0})", R"({"expert_parallel": null})", "{}"})
    EXPECT_EQ(kept(moe(), 12, nlohmann::json::parse(said), 12), 1) << said;
}

TEST(ReshardExperts, ThePlanSaysThem) {
  using nlohmann::json;
  const auto plan_of = [](const json& before, int data, int experts) {
    const auto m = manifest_of(moe(), 6, before);
    checkpoint::NewLayout layout;
    layout.data = data, layout.experts = experts;
    return checkpoint::state_of_layout(m.state, layout, checkpoint::ranks_of_layout(m, layout)).plan;
  };
  const json none{{"ranks", 6}, {"stage_boundaries", {0, 5}}},
      two{{"ranks", 6}, {"stage_boundaries", {0, 5}}, {"expert_parallel", 2}};
  auto predicted = none, predicted_two = two;
  predicted["predicted"] = predicted_two["predicted"] = 7;
  EXPECT_EQ(plan_of(none, 6, 2), two);
  EXPECT_EQ(plan_of(two, 6, 1), none);
  EXPECT_EQ(plan_of(two, 6, 0), two);
  EXPECT_EQ(plan_of(predicted, 6, 1), predicted) << "the same layout";
  EXPECT_EQ(plan_of(predicted_two, 6, 2), predicted_two) << "the same layout";
  EXPECT_EQ(plan_of(predicted, 6, 2), two) << "of another layout";
  EXPECT_EQ(plan_of(predicted_two, 6, 1), none) << "of another layout";
  auto nodes = predicted_two;
  nodes["expert_node"] = 2, nodes["expert_chunks"] = 3;
  EXPECT_EQ(plan_of(nodes, 6, 2), nodes) << "the same layout";
  EXPECT_EQ(plan_of(nodes, 6, 1), none) << "nodes and chunks are for the experts that a rank had";
  auto nonsense = two;
  nonsense["expert_parallel"] = "many";
  EXPECT_EQ(plan_of(nonsense, 6, 0), none);
  // The recorded axes are those of the ranks.
  json with_topology = none;
  with_topology["topology"] = json::array();
  EXPECT_EQ(plan_of(with_topology, 6, 3)["topology"], (json{{{"axis", "data"}, {"size", 6}}}));
}

TEST(ReshardExperts, ThatCannotBeAreRefused) {
  const auto m = manifest_of(moe(), 6, {}), dense = manifest_of(gpt(), 6, {});
  for (const int experts : {1, 2, 3, 6}) EXPECT_EQ(refusal(m, 6, experts), Refusal()) << experts;
  EXPECT_EQ(refusal(dense, 6, 1), Refusal());
  EXPECT_EQ(refusal(m, 6, 4),
            Refusal("--expert-parallel 4 does not divide 6 data-parallel ranks nor the 6 experts of a layer",
                    "--expert-parallel 3 or --expert-parallel 6"));
  EXPECT_EQ(refusal(m, 1, 2),
            Refusal("--expert-parallel 2 does not divide 1 data-parallel rank", "--expert-parallel 1"));
  EXPECT_EQ(refusal(m, 4, 4),
            Refusal("--expert-parallel 4 does not divide the 6 experts of a layer", "--expert-parallel 2"));
  EXPECT_EQ(refusal(m, 60, 5), Refusal("--expert-parallel 5 does not divide the 6 experts of a layer",
                                       "--expert-parallel 3 or --expert-parallel 6"));
  EXPECT_EQ(refusal(dense, 6, 2),
            Refusal("--expert-parallel 2 needs experts, and the model has none: its layers are dense", "leave it out"));
  EXPECT_EQ(refusal(m, 6, 2, 2),
            Refusal("--expert-parallel 2 does not divide the 3 experts of a layer that a tensor rank has",
                    "--expert-parallel 1 or --expert-parallel 3"));
  EXPECT_EQ(refusal(m, 6, 1, 2), Refusal());
  EXPECT_EQ(refusal(m, 6, 3, 2), Refusal());
}

// Rank files that an interrupted start finished for another layout are not taken, although it has as many ranks.
TEST(ReshardExperts, AnotherCutIsAnotherPurpose) {
  Scratch scratch;
  const auto s = state(moe(), DType::f32, 5);
  save(scratch.path, s, 1);
  const auto source = whole(scratch.path + "/step-00000005");
  const auto purpose = [&](int experts) {
    return checkpoint::purpose_of("reshard", {&source}, s, plan::replicas_of(6, 1).with_experts(experts));
  };
  EXPECT_EQ(purpose(2), purpose(2));
  EXPECT_NE(purpose(2), purpose(3));
  EXPECT_NE(purpose(2), purpose(1));
}

}  // namespace reshard_experts_test
