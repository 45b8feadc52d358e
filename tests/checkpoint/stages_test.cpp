// Ranks along a pipeline: each stage saves the flat groups that it owns, whatever the boundaries. Every other layout
// reads them.
#include "tests/checkpoint/stages.h"

#include "tests/checkpoint/layouts.h"

#include "libtrain/checkpoint/manifest_checks.h"
#include "libtrain/io/hdf5_file.h"

#include <gtest/gtest.h>

using namespace sample;
using trainyard::base::DType;

TEST(Stages, EveryGridOfStagesIsReadOnEveryOther) {
  std::mt19937 random(11);
  for (const auto& model : {deep(gpt_of_heads()), deep(llama_of_heads())})
    for (auto dtype : {DType::f32, DType::bf16}) {
      const auto s = state(model, dtype, 5);
      const auto grid = [&](int pipe, int data, int tensor, int chunks) {
        return staged(model, pipe, data, tensor, chunks, random);
      };
      Scratch whole;
      save(whole.path, s, 1);
      const auto expected = checkpoint::Reader(whole.path + "/step-00000005").tensors();
      for (const auto& from : {grid(1, 3, 2, 1), grid(2, 1, 1, 1), grid(2, 2, 2, 1), grid(3, 1, 4, 1), grid(4, 3, 1, 1),
                               grid(2, 1, 2, 2), grid(3, 2, 1, 2), grid(4, 1, 1, 2)}) {
        Scratch scratch;
        save(scratch.path, s, from.topology, 3, from.stages);
        checkpoint::Reader reader(scratch.path + "/step-00000005");
        reader.verify_all();
        EXPECT_TRUE(checkpoint::layout_is_ours(reader.manifest())) << from.text();
        EXPECT_EQ(checkpoint::stages_of(reader.manifest()), from.stages) << from.text();
        for (const auto& to : {grid(1, 1, 1, 1), grid(1, 2, 4, 1), grid(3, 1, 2, 1), grid(4, 2, 2, 2)})
          EXPECT_EQ(differences(reader, to.topology, to.stages), 0) << model.name << from.text() << " to " << to.text();
        const auto tensors = reader.tensors();
        ASSERT_EQ(tensors.size(), expected.size());
        for (std::size_t i = 0; i < tensors.size(); ++i) {
          EXPECT_EQ(tensors[i].fingerprint, expected[i].fingerprint) << tensors[i].path;
          EXPECT_EQ(tensors[i].norm, expected[i].norm) << tensors[i].path;
        }
      }
    }
}

// One stage gives the same bytes as ranks without stages.
TEST(Stages, OneStageWritesWhatRanksWithoutStagesDo) {
  const auto model = deep(gpt_of_heads());
  for (int rank = 0; rank < 6; ++rank)
    EXPECT_EQ(checkpoint::boxes_of_shards(model, plan::replicas_of(6, 2, 1), rank, {1, {0, 8}}),
              checkpoint::boxes_of_shards(model, plan::replicas_of(6, 2), rank));
}

// Checked by names: the stages have the embedding; layers 0 and 1; layers 2 to 5 and the head. The first stage saves
// the tied table.
TEST(Stages, AFileHoldsTheFlatGroupsOfItsStage) {
  const auto model = deep(gpt_of_heads());
  const plan::Stages stages{3, {0, 1, 3, 8}};
  const auto topology = plan::replicas_of(6, 2, 3);
  const auto parameters = checkpoint::parameters_of(model);
  for (int rank = 0; rank < 6; ++rank) {
    std::vector<std::string> found;
    for (const auto& stored : checkpoint::boxes_of_shards(model, topology, rank, stages)) {
      const auto& name = parameters[static_cast<std::size_t>(stored.tensor)].name;
      const auto item = name.substr(0, name.find('.', name.starts_with("layers.") ? 7 : 0));
      if (found.empty() || found.back() != item) found.push_back(item);
    }
    const std::vector<std::vector<std::string>> expected{
        {"embedding"}, {"layers.00", "layers.01"}, {"layers.02", "layers.03", "layers.04", "layers.05", "head"}};
    auto of_stage = expected[static_cast<std::size_t>(rank / 2)];
    if (rank == 5) of_stage.pop_back();  // of a tied head only the norm is left, which all tensor-parallel ranks hold
    EXPECT_EQ(found, of_stage) << rank;
  }
}

// Chunks of one stage lie in ascending order, back to back.
TEST(Stages, ChunksFollowOneAnother) {
  const auto model = deep(llama());
  const plan::Stages stages{2, {0, 2, 3, 6, 8}};
  const auto parameters = checkpoint::parameters_of(model);
  std::vector<std::string> first;
  for (const auto& stored : checkpoint::boxes_of_shards(model, plan::replicas_of(2, 1, 2), 0, stages))
    if (const auto& name = parameters[static_cast<std::size_t>(stored.tensor)].name; name.ends_with("q.weight"))
      first.push_back(name.substr(0, 9));
  EXPECT_EQ(first, (std::vector<std::string>{"layers.00", "layers.02", "layers.03", "layers.04"}));
}

// A stage without items saves files that hold nothing.
TEST(Stages, AStageThatHoldsNothingIsWrittenAndRead) {
  Scratch scratch;
  const auto s = state(gpt(), DType::bf16, 5);  // four items
  const plan::Stages stages{3, {0, 2, 2, 4}};
  const auto topology = plan::replicas_of(6, 1, 3);
  save(scratch.path, s, topology, 3, stages);
  checkpoint::Reader reader(scratch.path + "/step-00000005");
  reader.verify_all();
  EXPECT_EQ(differences(reader, 2), 0);
  EXPECT_EQ(reader.manifest().boxes[2].size() + reader.manifest().boxes[3].size(), 0u);
  EXPECT_EQ(checkpoint::SavedShards(s.model, topology, stages).empty_ranks(), 2);
  EXPECT_EQ(checkpoint::stages_of(reader.manifest()), std::nullopt) << "nobody can tell where it would begin";
}

// In a foreign layout boxes lie on another stage than the rest of their item, or stages are in another order.
// Fingerprints decide there, and confirm right values.
TEST(Stages, ForeignStagesAreReadAndNotTakenForOurs) {
  const auto s = state(deep(gpt_of_heads()), DType::f32, 5);
  const auto topology = plan::replicas_of(3, 1, 3);
  std::vector<checkpoint::RankBoxes> ours;
  for (int r = 0; r < 3; ++r) ours.push_back(checkpoint::boxes_of_shards(s.model, topology, r, {3, {0, 2, 5, 8}}));
  for (const bool in_turns : {true, false}) {
    auto boxes = ours;
    if (in_turns) {  // the last tensor of stage 0 goes to stage 1
      auto moved = boxes[0].back();
      boxes[0].pop_back();
      moved.offset = boxes[1].back().end();
      boxes[1].push_back(moved);
    } else {
      std::swap(boxes[0], boxes[1]);
    }
    Scratch scratch;
    save_layout(scratch.path, s, boxes, topology);
    checkpoint::Reader reader(scratch.path + "/step-00000005");
    EXPECT_FALSE(checkpoint::layout_is_ours(reader.manifest()));
    EXPECT_EQ(checkpoint::stages_of(reader.manifest()), std::nullopt);
    EXPECT_EQ(differences(reader, 2), 0);
  }
}

// Two stages save a flat group, as if the borrower of the tied table wrote its copy too. That is refused before the
// checkpoint has a name.
TEST(Stages, AFlatGroupThatIsSavedTwiceIsNotPublished) {
  Scratch scratch;
  const auto s = state(deep(gpt_of_heads()), DType::f32, 5);
  const auto topology = plan::replicas_of(2, 1, 2);
  std::vector<checkpoint::RankBoxes> boxes;
  for (int r = 0; r < 2; ++r) boxes.push_back(checkpoint::boxes_of_shards(s.model, topology, r, {2, {0, 4, 8}}));
  auto copy = boxes[0].front();
  copy.offset = boxes[1].back().end();
  boxes[1].push_back(copy);
  EXPECT_THROW(save_layout(scratch.path, s, boxes, topology), base::InputError);
  EXPECT_TRUE(checkpoint::list(scratch.path).empty());
}

// A thousand layers on thousands of ranks: the parts of each rank are found without a walk through other ranks' layers.
TEST(Stages, ManyRanksOfManyStages) {
  auto model = gpt_of_heads();
  model.layers = 1000;
  constexpr int stages = 64, ranks = 4096;
  const auto topology = plan::replicas_of(ranks, 1, stages);
  const checkpoint::SavedShards shards(model, topology, {stages, plan::uniform_boundaries(1002, stages)});
  std::int64_t elements = 0;
  for (int r = 0; r < ranks; ++r) elements += shards.elements(r);
  EXPECT_GE(elements, plan::parameter_count(model));
  EXPECT_EQ(shards.boxes(ranks / stages * 40).empty(), false);
}
