// Resharding to and from pipeline stages: the files of a save on those stages, byte for byte; the new record of the
// plan.
#include "tests/checkpoint/reshard_files.h"
#include "tests/checkpoint/stages.h"

#include "libtrain/checkpoint/average.h"
#include "libtrain/checkpoint/manifest_checks.h"
#include "libtrain/plan/schedule/partition.h"

#include <gtest/gtest.h>

#include <utility>

using namespace sample;
using trainyard::base::DType;

namespace reshard_stages_test {

// The boundaries in the form of --partition.
std::string text_of(const plan::Stages& stages) {
  return fmt::format("{}", fmt::join(stages.boundaries.begin(), stages.boundaries.end() - 1, ","));
}

checkpoint::NewLayout layout_of(int data, int tensor, int pipeline, std::string partition = {}) {
  checkpoint::NewLayout layout;
  layout.data = data, layout.tensor = tensor, layout.pipeline = pipeline, layout.partition = std::move(partition);
  return layout;
}

// Message and hint of the refusal.
std::pair<std::string, std::string> refusal(const checkpoint::Manifest& m, const checkpoint::NewLayout& layout) {
  try {
    checkpoint::ranks_of_layout(m, layout);
    return {};
  } catch (const base::UsageError& e) {
    return {e.what(), e.hint()};
  }
}

// Reshards from one random grid to the next. Among the sources are interleaved stages of two chunks. The mean fills
// such files in another order.
TEST(ReshardStages, GiveTheFilesThatASaveOnThoseStagesGives) {
  std::mt19937 random(3);
  for (const auto& model : {deep(gpt_of_heads()), deep(llama_of_heads())})
    for (auto dtype : {DType::f32, DType::bf16}) {
      Scratch scratch;
      const auto s = state(model, dtype, 5);
      const auto first = staged(model, 2, 1, 2, 2, random);
      save(scratch.path + "/from", s, first.topology, 3, first.stages);
      auto before = scratch.path + "/from/step-00000005";
      int step = 0;
      for (const auto& [pipe, data, tensor] :
           {std::tuple{3, 2, 1}, std::tuple{1, 3, 2}, std::tuple{4, 1, 2}, std::tuple{2, 2, 4}}) {
        const auto grid = staged(model, pipe, data, tensor, 1, random);
        const auto what = model.name + " on " + grid.text();
        const auto found = fmt::format("{}/{}", scratch.path, step++), expected = found + "-saved",
                   mean = found + "-mean";
        save(expected, s, grid.topology, 3, grid.stages);
        checkpoint::ReshardOptions o;
        o.threads = 2;
        const auto layout = layout_of(data, tensor, pipe, pipe > 1 ? text_of(grid.stages) : "");
        EXPECT_EQ(reshard(before, found, layout, o).ranks, pipe * data * tensor);
        expect_same_files(found, expected + "/step-00000005", what);
        EXPECT_TRUE(checkpoint::layout_is_ours(whole(found).manifest())) << what;
        if (dtype == DType::f32) {  // for bf16 the mean has the rounded master weights
          const auto source = whole(before);
          checkpoint::average({&source}, mean, layout, o);
          expect_same_ranks(mean, found, what);
        }
        before = found;
      }
    }
}

// What no setting gives stays: ranks along every axis, and the boundaries and chunks of the stages.
TEST(ReshardStages, WhatIsNotSaidStaysAsItIs) {
  std::mt19937 random(4);
  const auto model = deep(gpt_of_heads());
  const auto s = state(model, DType::f32, 5);
  for (const int chunks : {1, 2}) {
    Scratch scratch;
    const auto grid = staged(model, 2, 2, 2, chunks, random);
    save(scratch.path, s, grid.topology, 3, grid.stages);
    const auto from = scratch.path + "/step-00000005";
    reshard(from, scratch.path + "/same", {});
    expect_same_files(scratch.path + "/same", from, grid.text());
    const auto plan = whole(scratch.path + "/same").state().plan;
    EXPECT_EQ(plan["pipeline"], 2);
    EXPECT_EQ(plan["stage_boundaries"], nlohmann::json(grid.stages.boundaries));
    auto fewer = grid;
    fewer.topology = plan::replicas_of(4, 2, 2);
    save(scratch.path + "/fewer", s, fewer.topology, 3, fewer.stages);
    reshard(from, scratch.path + "/one", layout_of(1, 0, 0));
    expect_same_files(scratch.path + "/one", scratch.path + "/fewer/step-00000005", "one data-parallel rank");
  }
}

// Without a setting the stages are train's: balanced by FLOPs for the run's sequence length.
TEST(ReshardStages, AreBalancedByFlopsUnlessSaidOtherwise) {
  auto model = deep(gpt());
  model.vocabulary = 400, model.context = 4096;  // the head has some weight where attention sees few tokens
  checkpoint::Manifest m;
  m.state = state(model, DType::f32, 5);
  m.axes = {{"data", 1}};
  m.parameters = checkpoint::parameters_of(model);
  EXPECT_NE(plan::partition("flops", {model, 16}, 3), plan::partition("flops", {model, 4096}, 3));
  for (const int sequence : {16, 4096, 0}) {
    m.state.identity["sequence"] = sequence;  // 0 is impossible, so the model's context counts
    const plan::PartitionOf of{model, sequence == 16 ? 16 : 4096};
    EXPECT_EQ(checkpoint::ranks_of_layout(m, layout_of(1, 1, 3)).stages.boundaries, plan::partition("flops", of, 3));
    for (const char* how : {"uniform", "parameters", "type:layers", "0,4,7"})
      EXPECT_EQ(checkpoint::ranks_of_layout(m, layout_of(1, 1, 3, how)).stages.boundaries, plan::partition(how, of, 3));
  }
}

// The plan's record gives the stages, and has no entry where there is one stage.
TEST(ReshardStages, ThePlanSaysThem) {
  auto s = state(deep(gpt_of_heads()), DType::f32, 5);
  const auto plan_of = [&](const nlohmann::json& before, const checkpoint::NewLayout& layout) {
    checkpoint::Manifest m;
    m.state = s;
    m.state.plan = before;
    m.axes = {{"data", 2}};
    m.ranks = 2;
    m.parameters = checkpoint::parameters_of(s.model);
    return checkpoint::state_of_layout(m.state, layout, checkpoint::ranks_of_layout(m, layout)).plan;
  };
  using nlohmann::json;
  EXPECT_EQ(plan_of({{"ranks", 2}, {"predicted", 7}}, layout_of(2, 1, 2, "0,3")),
            (json{{"ranks", 4}, {"pipeline", 2}, {"stage_boundaries", {0, 3, 8}}, {"partition", "0,3"}}));
  const json staged{{"ranks", 4}, {"pipeline", 2}, {"stage_boundaries", {0, 3, 8}}, {"partition", "0,3"}};
  EXPECT_EQ(plan_of(staged, layout_of(4, 1, 1)), (json{{"ranks", 4}, {"stage_boundaries", {0, 8}}}));
  // What train records of one stage: in items, and in layers as before there were several stages.
  for (const auto& boundaries : {json{0, 8}, json{0, 6}}) {
    const json one{{"ranks", 2}, {"schedule", "one-stage"}, {"stage_boundaries", boundaries}, {"predicted", 7}};
    EXPECT_EQ(plan_of(one, layout_of(2, 1, 1)), one) << "the same layout";
    EXPECT_EQ(plan_of(one, layout_of(2, 1, 2, "0,3")), (json{{"ranks", 4},
                                                             {"schedule", "1f1b"},
                                                             {"pipeline", 2},
                                                             {"stage_boundaries", {0, 3, 8}},
                                                             {"partition", "0,3"}}));
  }
  const json interleaved{{"ranks", 4},
                         {"schedule", "interleaved"},
                         {"pipeline", 2},
                         {"virtual_stages", 2},
                         {"stage_boundaries", {0, 2, 3, 6, 8}}};
  auto said = layout_of(2, 1, 0);
  said.stages = plan::Stages{2, {0, 2, 3, 6, 8}};
  EXPECT_EQ(plan_of(interleaved, said), interleaved);
  EXPECT_EQ(plan_of({{"schedule", "gpipe"}}, said), interleaved);
  EXPECT_EQ(plan_of(interleaved, layout_of(4, 1, 1)),
            (json{{"ranks", 4}, {"schedule", "one-stage"}, {"stage_boundaries", {0, 8}}}));
  EXPECT_EQ(plan_of(interleaved, layout_of(2, 1, 2, "flops")),
            (json{{"ranks", 4}, {"schedule", "1f1b"}, {"pipeline", 2}, {"stage_boundaries", {0, 4, 8}}}));
  EXPECT_EQ(plan_of(staged, layout_of(2, 1, 2, "uniform")),
            (json{{"ranks", 4}, {"pipeline", 2}, {"stage_boundaries", {0, 4, 8}}, {"partition", "uniform"}}));
  auto predicted = staged;
  predicted["predicted"] = 7;
  EXPECT_EQ(plan_of(predicted, layout_of(2, 1, 2, "0,3")), predicted) << "the same layout";
  EXPECT_FALSE(plan_of(predicted, layout_of(2, 1, 2, "0,4")).contains("predicted")) << "as many ranks, another layout";
}

TEST(ReshardStages, ThatCannotBeAreRefused) {
  checkpoint::Manifest m;
  m.state = state(gpt_of_heads(), DType::f32, 5);
  m.axes = {{"data", 1}};
  m.parameters = checkpoint::parameters_of(m.state.model);
  using Refusal = std::pair<std::string, std::string>;
  EXPECT_EQ(refusal(m, layout_of(1, 1, 4)), Refusal());
  EXPECT_EQ(refusal(m, layout_of(1, 1, 5)),
            Refusal("--pipeline-parallel 5 is more than the 4 items of the model: its embedding, 2 layers and its head",
                    "--pipeline-parallel 4 at most"));
  EXPECT_EQ(refusal(m, layout_of(1, 1, 1, "uniform")).first,
            "--partition says where pipeline stages begin, but there is only one stage");
  EXPECT_EQ(refusal(m, layout_of(1, 1, 2, "0,4")).first, "--partition 0,4: the model has items 0 to 3");
  EXPECT_EQ(refusal(m, layout_of(1 << 20, 1, 2)).first,
            "2 stages of 1048576 data-parallel ranks of 1 tensor ranks are more than 1048576");
  std::int64_t weights = 0;
  for (const auto& p : m.parameters) weights += p.count;
  EXPECT_EQ(refusal(m, layout_of(static_cast<int>(weights / 8), 2, 4)), Refusal());
  EXPECT_EQ(refusal(m, layout_of(static_cast<int>(weights / 8) + 1, 2, 4)).second,
            fmt::format("--data-parallel {} at most", weights / 8));
  m.axes = {{"pipe", 9}};  // of a checkpoint that claims this
  m.ranks = 9;
  EXPECT_EQ(refusal(m, layout_of(1, 1, 0)).first,
            "the checkpoint is of 9 pipeline stages, more than the 4 items of its model: its embedding, 2 layers and "
            "its head");
}

// Ranks that hold nothing are counted for each stage: a stage of few weights has more of them.
TEST(ReshardStages, RanksThatHoldNothingAreCounted) {
  const auto s = state(deep(gpt_of_heads()), DType::f32, 5);
  const plan::Stages stages{2, {0, 7, 8}};  // the head of a tied model has its norm alone
  const auto ranks = plan::replicas_of(80, 1, 2);
  int empty = 0;
  for (int r = 0; r < 80; ++r) empty += checkpoint::boxes_of_shards(s.model, ranks, r, stages).empty();
  EXPECT_GE(empty, 39);
  EXPECT_EQ(checkpoint::doubts_of_layout(s, {ranks, stages}),
            std::vector{fmt::format("{} of 80 ranks hold nothing: the model is too small for so many", empty)});
}

}  // namespace reshard_stages_test
