// Expert-parallel ranks: each saves shards of the experts that it has, and every other layout reads them.
#include "tests/checkpoint/dealt_out.h"
#include "tests/checkpoint/layouts.h"

#include "libtrain/checkpoint/manifest_checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

using namespace sample;
using trainyard::base::DType;

namespace experts_test {

// In some grids one rank has all shards of its experts; in some, the last of several ranks has only padding.
std::vector<DealtOut> grids(const plan::ModelConfig& model) {
  const auto items = plan::item_count(model);
  return {{1, 1},
          {2, 2},
          {3, 3},
          {5, 1},
          {6, 2},
          {6, 3},
          {6, 6},
          {12, 2},
          {2, 2, 2, {0, 2, items}},
          {6, 3, 3, {0, 2, 3, items}},
          {4, 2, 2, {0, 1, 3, items - 1, items}}};
}

TEST(Experts, EveryElementIsInOneFile) {
  for (const auto& model : {moe(), moe_llama()}) {
    const auto parameters = checkpoint::parameters_of(model);
    for (const auto& grid : grids(model)) {
      const auto topology = grid.topology();
      std::vector<checkpoint::RankBoxes> boxes;
      for (int r = 0; r < topology.world(); ++r)
        boxes.push_back(checkpoint::boxes_of_shards(model, topology, r, grid.stages()));
      std::vector<const checkpoint::RankBoxes*> of_ranks;
      for (const auto& of_rank : boxes) of_ranks.push_back(&of_rank);
      const auto places = checkpoint::places_of(of_ranks, parameters.size());
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        std::vector<const checkpoint::Box*> of_tensor;
        for (const auto& place : places[i]) of_tensor.push_back(&place.stored->box);
        EXPECT_TRUE(checkpoint::cover_once(parameters[i].shape, of_tensor)) << grid.text() << parameters[i].name;
      }
    }
  }
}

// Checked by names: rank r has a run of neighbouring experts. The run's number is r's place among the neighbours along
// data.
TEST(Experts, AFileHoldsTheExpertsOfItsRank) {
  const auto model = moe();
  const auto parameters = checkpoint::parameters_of(model);
  const std::map<std::string, int> counts{{"layers.01", 6}, {"layers.02", 12}};
  for (const auto& grid : grids(model))
    for (int r = 0; r < grid.data * grid.pipe; ++r) {
      int others = 0;
      for (const auto& stored : checkpoint::boxes_of_shards(model, grid.topology(), r, grid.stages())) {
        const auto& name = parameters[static_cast<std::size_t>(stored.tensor)].name;
        const int expert = expert_of(name);
        if (expert < 0) continue;
        const auto of_part = counts.at(name.substr(0, 9)) / grid.experts;
        EXPECT_EQ(expert / of_part, r % grid.experts) << grid.text() << ", rank " << r << ": " << name;
        ++others;
      }
      if (grid.pipe == 1 && grid.data == grid.experts) {
        EXPECT_EQ(others, 18 / grid.experts * 4) << grid.text();
      }
    }
}

// Datasets are the rank's own flat groups, in the order of plan::flat_groups for the rank's part of the model.
TEST(Experts, ShardsLieInTheOrderOfTheRanksFlatGroups) {
  for (const auto& model : {moe(), moe_llama()}) {
    std::map<std::string, std::int32_t> numbers;
    for (const auto& p : checkpoint::parameters_of(model))
      numbers.emplace(p.name, static_cast<std::int32_t>(numbers.size()));
    for (const auto& grid : grids(model)) {
      const auto topology = grid.topology();
      const checkpoint::SavedShards shards(model, topology, grid.stages());
      for (int r = 0; r < topology.world(); ++r) {
        checkpoint::RankBoxes expected;
        std::int64_t at = 0;
        const int d = r % grid.data;
        for (const auto& flat_group : plan::flat_groups(part_of(model, topology, grid.stages(), r))) {
          if (flat_group.name == "embedding.tokens" && r >= grid.data) continue;  // a copy; the owner saves it
          const bool experts = flat_group.name.ends_with(".experts") && grid.experts > 1;
          const int ranks = experts ? grid.data / grid.experts : grid.data, place = experts ? d / grid.experts : d;
          auto whole = flat_group;
          whole.group = {plan::Axis::data};
          const auto layout = plan::layout(whole, ranks);
          for (std::size_t i = 0; i < flat_group.parameters.size(); ++i) {
            const auto& p = flat_group.parameters[i];
            const auto begin = std::max(layout.offsets[i], place * layout.shard),
                       end = std::min(layout.offsets[i] + p.count(), (place + 1) * layout.shard);
            if (begin >= end) continue;
            auto offset = at + begin - place * layout.shard;
            for (const auto& box : checkpoint::boxes_of_range(p.shape, begin - layout.offsets[i], end - begin)) {
              expected.push_back({numbers.at(p.name), offset, box});
              offset = expected.back().end();
            }
          }
          at += layout.shard;
        }
        EXPECT_TRUE(shards.boxes(r) == expected) << grid.text() << ", rank " << r;
        EXPECT_EQ(shards.elements(r), at) << grid.text() << ", rank " << r;
      }
    }
  }
}

// The mapping from tensors to ranks is the inverse of the mapping from ranks to tensors.
TEST(Experts, PlacesAreThoseOfTheBoxes) {
  const auto model = moe();
  const auto parameters = checkpoint::parameters_of(model);
  for (const auto& grid : grids(model)) {
    const checkpoint::SavedShards shards(model, grid.topology(), grid.stages());
    const checkpoint::Places places(shards);
    std::vector<std::map<std::int64_t, std::pair<int, std::int64_t>>> expected(parameters.size());
    for (int r = 0; r < grid.data * grid.pipe; ++r)
      for (const auto& stored : shards.boxes(r)) {
        const auto& shape = parameters[static_cast<std::size_t>(stored.tensor)].shape;
        checkpoint::for_each_run(shape, stored, stored.box, [&](const checkpoint::Run& run) {
          for (std::int64_t i = 0; i < run.count; ++i)
            expected[static_cast<std::size_t>(stored.tensor)][run.element + i] = {r, run.at + i};
        });
      }
    std::int64_t wrong = 0;
    for (std::size_t t = 0; t < parameters.size(); ++t) {
      std::int64_t next = 0;
      places.for_each(static_cast<std::int32_t>(t), 0, parameters[t].count,
                      [&](int rank, std::int64_t at, std::int64_t element, std::int64_t count) {
                        wrong += element != next;
                        next = element + count;
                        for (std::int64_t i = 0; i < count; ++i)
                          wrong += expected[t][element + i] != std::pair(rank, at + i);
                      });
      wrong += next != parameters[t].count;
    }
    EXPECT_EQ(wrong, 0) << grid.text();
  }
}

TEST(Experts, WhatOneCutSavesEveryOtherReads) {
  for (const auto& model : {moe(), moe_llama()})
    for (auto dtype : {DType::f32, DType::bf16}) {
      Scratch whole;
      save(whole.path, state(model, dtype, 5), 1);
      checkpoint::Reader one(whole.path + "/step-00000005");
      for (const auto& to : grids(model)) EXPECT_EQ(differences(one, to.topology(), to.stages()), 0) << to.text();
      for (const auto& from : grids(model)) {
        Scratch scratch;
        save(scratch.path, state(model, dtype, 5, from), from.topology(), 3, from.stages());
        const auto folder = scratch.path + "/step-00000005";
        checkpoint::Reader reader(folder);
        reader.verify_all();
        EXPECT_TRUE(checkpoint::layout_is_ours(reader.manifest())) << from.text();
        EXPECT_EQ(checkpoint::expert_parts_of(reader.manifest()), from.experts) << from.text();
        EXPECT_EQ(checkpoint::read_state(folder).plan.value("expert_parallel", 1), from.experts);
        for (const auto& axis : reader.manifest().axes)  // the expert axis is no axis of its own in the manifest
          EXPECT_TRUE(axis.axis == "data" || axis.axis == "pipe") << axis.axis;
        for (const auto& to : {DealtOut{1, 1}, DealtOut{3, 1}, DealtOut{2, 2}, DealtOut{6, 3},
                               DealtOut{4, 2, 2, {0, 3, plan::item_count(model)}}})
          EXPECT_EQ(differences(reader, to.topology(), to.stages()), 0) << from.text() << " to " << to.text();
        EXPECT_EQ(differences(reader, plan::replicas_of(8, 4)), 0) << from.text();
        const auto tensors = reader.tensors(), expected = one.tensors();
        for (std::size_t i = 0; i < tensors.size(); ++i)
          EXPECT_EQ(tensors[i].fingerprint, expected[i].fingerprint) << tensors[i].path;
      }
    }
}

// The plan's record may claim anything. A degree that ranks and model cannot have counts as 1. A possible but false
// degree makes the layout a foreign one, whose values fingerprints confirm.
TEST(Experts, TheRecordIsNotBelieved) {
  Scratch scratch;
  const DealtOut grid{6, 2};
  save(scratch.path, state(moe(), DType::f32, 5, grid), grid.topology());
  const auto folder = scratch.path + "/step-00000005";
  const std::pair<const char*, int> said[] = {
      {"1", 1},    {"2", 2},     {"3", 3},         {"6", 6},   {"4", 1},
      {"12", 1},   {"0", 1},     {"-2", 1},        {"2.0", 1}, {"1e300", 1},
      {"null", 1}, {"\"2\"", 1}, {"[2]", 1},       {"{}", 1},  {"18446744073709551614", 1},
      {"true", 1}, {"-1", 1},    {"4294967298", 1}};
  for (const auto& [value, parts] : said) {
    edit_manifest(folder, [&, value = value](auto& j) { j["plan"]["expert_parallel"] = nlohmann::json::parse(value); });
    checkpoint::Reader reader(folder);
    EXPECT_EQ(checkpoint::expert_parts_of(reader.manifest()), parts) << value;
    EXPECT_EQ(checkpoint::layout_is_ours(reader.manifest()), parts == 2) << value;
    EXPECT_EQ(differences(reader, 3), 0) << value;
  }
  edit_manifest(folder, [](auto& j) { j["plan"] = nlohmann::json::object(); });
  EXPECT_FALSE(checkpoint::layout_is_ours(checkpoint::Reader(folder).manifest()));
  // A record for a model without experts.
  auto dense = state(gpt(), DType::f32, 6);
  dense.plan["expert_parallel"] = 2;
  save(scratch.path, dense, 2);
  const auto m = checkpoint::Reader(scratch.path + "/step-00000006").manifest();
  EXPECT_EQ(checkpoint::expert_parts_of(m), 1);
  EXPECT_TRUE(checkpoint::layout_is_ours(m));
}

// An expert-parallel degree of 1 gives the same files as no expert parallelism. Without experts any degree does.
TEST(Experts, OnePartIsTheFilesOfRanksThatShareNone) {
  for (int r = 0; r < 6; ++r) {
    EXPECT_EQ(checkpoint::boxes_of_shards(moe(), plan::replicas_of(6, 1).with_experts(1), r),
              checkpoint::boxes_of_shards(moe(), plan::replicas_of(6, 1), r));
    EXPECT_EQ(checkpoint::boxes_of_shards(gpt(), plan::replicas_of(6, 1).with_experts(3), r),
              checkpoint::boxes_of_shards(gpt(), plan::replicas_of(6, 1), r));
  }
}

TEST(Experts, EqualPartsOfEveryLayer) {
  EXPECT_TRUE(checkpoint::divides_experts(moe(), 1));
  EXPECT_TRUE(checkpoint::divides_experts(moe(), 6));
  for (const int parts : {4, 5, 12, 24}) EXPECT_FALSE(checkpoint::divides_experts(moe(), parts)) << parts;
  EXPECT_TRUE(checkpoint::divides_experts(gpt(), 1));
  EXPECT_FALSE(checkpoint::divides_experts(gpt(), 2));
}

// Thousands of ranks and of layers: flat groups are made once for each part, and a rank looks only at its own.
TEST(Experts, ManyRanksOfManyLayers) {
  auto model = moe();
  model.layers = 1000;
  model.experts.count = {64}, model.experts.every = 2, model.experts.dense_layers = 0;
  constexpr int stages = 50, ranks = 6400;
  const auto topology = plan::replicas_of(ranks, 1, stages).with_experts(64);
  const checkpoint::SavedShards shards(model, topology, {stages, plan::uniform_boundaries(1002, stages)});
  std::int64_t elements = 0;
  for (int r = 0; r < ranks; ++r) elements += shards.elements(r);
  EXPECT_GE(elements, plan::parameter_count(model));
  EXPECT_FALSE(shards.boxes(ranks - 1).empty());
}

}  // namespace experts_test
