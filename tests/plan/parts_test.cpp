// Tests parts of a model: its pipeline stages together have what the model has.
#include "libtrain/plan/blocks/flat_group_table.h"
#include "libtrain/plan/cost/activations.h"
#include "libtrain/plan/schedule/accesses.h"
#include "libtrain/plan/schedule/boundaries.h"
#include "libtrain/plan/schedule/stages.h"
#include "libtrain/plan/spec/presets.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace trainyard::plan {
namespace parts_test {

ModelConfig model_of(const char* name) {
  const bool post = std::string_view(name) == "post";  // norms after branches
  auto m = preset(post || std::string_view(name) == "bert" ? "gpt2-nano" : name);
  const bool bert = std::string_view(name) == "bert";
  if (post || bert) m.norm_position = NormPosition::post;
  if (bert) m.embedding_norm = true, m.segments = 2, m.head = HeadForm::masked;
  m.vocabulary = 300, m.layers = 5, m.lanes = 1;
  return m;
}

// By stage, its virtual stages.
std::vector<ModelPart> stages_of(const ModelConfig& m, int stages, int chunks) {
  const auto cuts = uniform_boundaries(item_count(m), stages * chunks);
  std::vector<ModelPart> out;
  for (int s = 0; s < stages; ++s) {
    std::vector<Items> runs;
    for (int c = 0; c < chunks; ++c) {
      const auto part = static_cast<std::size_t>(c * stages + s);
      runs.push_back({cuts[part], cuts[part + 1]});
    }
    out.push_back({m, runs});
  }
  return out;
}

std::vector<std::string> names_of(const std::vector<FlatGroup>& flat_groups) {
  std::vector<std::string> out;
  for (const auto& u : flat_groups) out.push_back(u.name);
  return out;
}

TEST(Parts, ItemsAreTheBlocksByTheNamesOfFiles) {
  EXPECT_EQ(
      item_names(model_of("gpt2-nano")),
      (std::vector<std::string>{"embedding", "layers.00", "layers.01", "layers.02", "layers.03", "layers.04", "head"}));
  EXPECT_EQ(item_count(model_of("llama-nano")), 7);
}

TEST(Parts, AWholeModelIsAPartOfItself) {
  const auto m = model_of("gpt2-nano");
  const ModelPart all(m, {{0, 7}});
  EXPECT_EQ(names_of(flat_groups(m)), names_of(flat_groups(all)));
  EXPECT_EQ(occurrences(m), occurrences(all));
  EXPECT_EQ(training_accesses(m), training_accesses(all));
}

TEST(Parts, FlatGroupsOfTheStagesAreThoseOfTheModel) {
  for (const char* name : {"gpt2-nano", "llama-nano", "post", "bert"}) {
    const auto m = model_of(name);
    for (const auto& [stages, chunks] : {std::pair{1, 1}, {2, 1}, {3, 1}, {7, 1}, {2, 2}, {3, 2}}) {
      auto left = names_of(flat_groups(m));
      std::int64_t parameters = 0;
      for (const auto& part : stages_of(m, stages, chunks)) {
        const FlatGroupTable table(part, replicas_of(2, 1));
        const FlatGroupSet set(part, replicas_of(2, 1));
        EXPECT_EQ(static_cast<std::size_t>(table.flat_groups()), set.flat_groups.size());
        EXPECT_EQ(static_cast<std::size_t>(table.occurrences()), set.occurrences.size());
        for (const auto& e : table.entries())
          for (std::int64_t i = 0; i < e.times; ++i)
            EXPECT_EQ(set.flat_groups[static_cast<std::size_t>(e.index + i * e.stride)].part, e.flat_group.part);
        for (const auto& flat_group : set.flat_groups) {
          const auto at = std::find(left.begin(), left.end(), flat_group.name);
          if (at != left.end()) left.erase(at);
          else EXPECT_EQ(flat_group.name, "embedding.tokens");  // borrowed by the head of a tied model
        }
        for (const auto& e : table.entries())
          for (const auto& p : e.flat_group.parameters) parameters += e.times * p.count();
      }
      EXPECT_TRUE(left.empty()) << ::testing::PrintToString(left);
      const bool twice = stages > 1 && m.tied;
      EXPECT_EQ(parameters, parameter_count(m) + (twice ? m.vocabulary * m.hidden : 0)) << name << stages;
    }
  }
}

TEST(Parts, TheLastStageOfATiedModelHasItsOwnTable) {
  const auto m = model_of("gpt2-nano");
  ASSERT_TRUE(m.tied);
  const ModelPart last(m, {{5, 7}});
  EXPECT_EQ(names_of(flat_groups(last)), (std::vector<std::string>{"layers.04", "embedding.tokens", "head"}));
  EXPECT_EQ(occurrences(last), (std::vector<Occurrence>{{0, 0}, {2, 0}, {1, 0}}));  // the head's norm, then the table
  const auto blocks = placed_blocks(last);
  EXPECT_EQ(blocks[1].flat_groups.size(), 1u);
  EXPECT_EQ(blocks[1].borrowed.size(), 1u);
  EXPECT_TRUE(placed_blocks(m).back().borrowed.empty());
}

// The parameters of each flat group, by their names in files.
TEST(Parts, FlatGroupsOfBert) {
  const auto m = model_of("bert");
  EXPECT_EQ(names_of(flat_groups(m)),
            (std::vector<std::string>{"embedding.tokens", "embedding.positions", "embedding.segments", "embedding",
                                      "layers.00", "layers.01", "layers.02", "layers.03", "layers.04", "head"}));
  std::vector<std::string> names;
  for (const auto& flat_group : {flat_groups(m)[2], flat_groups(m)[3], flat_groups(m).back()})
    for (const auto& p : flat_group.parameters) names.push_back(p.name);
  EXPECT_EQ(names, (std::vector<std::string>{"embedding.segments.weight", "embedding.norm.weight",
                                             "embedding.norm.bias", "head.transform.weight", "head.transform.bias",
                                             "head.transform_norm.weight", "head.transform_norm.bias", "head.bias"}));
  const auto bias = flat_groups(m).back().parameters.back();
  EXPECT_EQ(bias.shape, (std::vector<std::int64_t>{300}));
  EXPECT_EQ(bias.stored, (std::vector<std::int64_t>{384}));
  EXPECT_EQ(backward_accesses(m).back(), (Access{Access::Kind::commit, {2, 0}}));
}

// If layers end with a norm, a tied head has no parameters of its own, and an untied head only its table.
TEST(Parts, AHeadWithoutANorm) {
  auto m = model_of("gpt2-nano");
  const auto all = parameter_count(m);
  m.norm_position = NormPosition::post;
  EXPECT_EQ(parameter_count(m), all - 2 * m.hidden);
  EXPECT_EQ(item_names(m).back(), "head");
  const ModelPart last(m, {{6, 7}});
  EXPECT_EQ(names_of(flat_groups(last)), (std::vector<std::string>{"embedding.tokens"}));
  EXPECT_EQ(occurrences(last), (std::vector<Occurrence>{{0, 0}}));
  EXPECT_TRUE(forward_accesses(last).empty());
  EXPECT_EQ(evaluation_accesses(last), (std::vector<Access>{{Access::Kind::lease, {0, 0}}}));
  m.tied = false;
  EXPECT_EQ(names_of(flat_groups(last)), (std::vector<std::string>{"head"}));
  EXPECT_EQ(flat_groups(last)[0].parameters.size(), 1u);
}

TEST(Parts, StagesHaveTheirChunks) {
  const auto m = model_of("gpt2-nano");  // 7 items
  const Stages four{2, {0, 2, 4, 5, 7}};
  EXPECT_EQ(four.chunks(), 2);
  EXPECT_EQ(part_of(m, four, 0).chunks, (std::vector<Items>{{0, 2}, {4, 5}}));
  EXPECT_EQ(part_of(m, four, 1).chunks, (std::vector<Items>{{2, 4}, {5, 7}}));
  EXPECT_EQ(part_of(m, {}, 0).chunks, (std::vector<Items>{{0, item_count(m)}}));
  for (std::int64_t item = 0; item < 7; ++item) EXPECT_EQ(four.stage_of(item), (item >= 2 && item < 4) || item >= 5);
  const FlatGroupSet last(part_of(m, four, 1), replicas_of(4, 1, 2));
  for (std::size_t u = 0; u < last.flat_groups.size(); ++u)
    EXPECT_EQ(last.borrowed[u], last.flat_groups[u].name == "embedding.tokens");
  const auto ranks = replicas_of(24, 2, 3);
  EXPECT_EQ(ranks.coordinate(13, Axis::pipe), 1);  // (1 * 4 + 2) * 2 + 1
  EXPECT_EQ(ranks.coordinate(13, Axis::data), 2);
  EXPECT_EQ(ranks.coordinate(13, Axis::tensor), 1);
}

// The names that stages lease and commit, forward and back from stage to stage, equal the names of the whole model.
TEST(Parts, AccessesOfTheStagesAreThoseOfTheModel) {
  const auto named = [](const ModelPart& part, const std::vector<Access>& accesses) {
    const auto all = flat_groups(part);
    std::vector<std::string> out;
    for (const auto& a : accesses)
      out.push_back((a.kind == Access::Kind::lease ? "lease " : "commit ") +
                    all[static_cast<std::size_t>(a.occurrence.flat_group)].name);
    return out;
  };
  const auto add = [](std::vector<std::string>& to, const std::vector<std::string>& more) {
    to.insert(to.end(), more.begin(), more.end());
  };
  for (const char* name : {"gpt2-nano", "llama-nano", "post", "bert"}) {
    const auto m = model_of(name);
    for (const auto& [stages, chunks] : {std::pair{2, 1}, {7, 1}, {2, 2}, {2, 3}}) {
      const auto parts = stages_of(m, stages, chunks);
      std::vector<std::string> forward, backward;
      for (int i = 0; i < stages * chunks; ++i) {
        const auto& part = parts[static_cast<std::size_t>(i % stages)];
        add(forward, named(part, forward_accesses(part, i / stages)));
      }
      for (int i = stages * chunks; i-- > 0;) {
        const auto& part = parts[static_cast<std::size_t>(i % stages)];
        add(backward, named(part, backward_accesses(part, i / stages)));
      }
      EXPECT_EQ(forward, named(m, forward_accesses(m)));
      EXPECT_EQ(backward, named(m, backward_accesses(m)));
    }
  }
}

TEST(Parts, LeasesOfAStepFollowItsActions) {
  const auto m = model_of("llama-nano");
  const ModelPart first(m, {{0, 2}, {4, 6}});
  const auto actions = step_actions({4, 1, 1, 1}, 0, {PipelineSchedule::interleaved, 2, 2}, 0);
  std::vector<Occurrence> expected;
  for (const auto& a : actions)
    for (const auto& access : a.kind == Action::Kind::forward    ? forward_accesses(first, a.chunk)
                              : a.kind == Action::Kind::backward ? backward_accesses(first, a.chunk)
                                                                 : std::vector<Access>{})
      if (access.kind == Access::Kind::lease) expected.push_back(access.occurrence);
  std::vector<Occurrence> handed_over;
  const auto order = step_leases(first, actions);
  for (const auto pass : order.passes)
    handed_over.insert(handed_over.end(), order.lists[pass].begin(), order.lists[pass].end());
  EXPECT_EQ(handed_over, expected);
  // The halves of a backward pass lease as often as a whole one.
  const ModelPart all(m);
  EXPECT_EQ(step_leases(all, step_actions({4, 1, 1, 1}, 0, {PipelineSchedule::zero_bubble, 2, 1}, 0)).passes.size(),
            8u);
  // For 4 micro-batches, the embedding once, and three layers twice each.
  EXPECT_EQ(expected.size(), 4u * (1 + 3 * 2));
}

TEST(Parts, WhatTheStagesKeepIsWhatTheModelKeeps) {
  for (const char* name : {"gpt2-nano", "llama-nano", "post", "bert"}) {
    const auto m = model_of(name);
    const MicroShape shape{{2, 64}, {base::DType::f32, 1, base::DeviceKind::cpu, 1, false}};
    for (int stages = 1; stages <= 7; ++stages) {
      std::int64_t saved = 0, workspace = 0;
      for (const auto& part : stages_of(m, stages, 1)) {
        saved += saved_bytes(part, shape).most;
        workspace = std::max(workspace, workspace_bytes(part, shape, Pass::train));
        EXPECT_EQ(activation_bytes(part, shape, Pass::train), stream_bytes(m, shape) + saved_bytes(part, shape).most);
      }
      EXPECT_EQ(saved, saved_bytes(m, shape).most);
      EXPECT_EQ(workspace, workspace_bytes(m, shape, Pass::train));
    }
  }
}

}  // namespace parts_test
}  // namespace trainyard::plan
