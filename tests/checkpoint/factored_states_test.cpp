// States that have a number for each row or column of a parameter: where they lie, and that every layout, copy and
// check has them.
#include "tests/checkpoint/dealt_out.h"
#include "tests/checkpoint/reshard_files.h"
#include "tests/checkpoint/stages.h"
#include "tests/night.h"

#include "libtrain/checkpoint/average.h"
#include "libtrain/checkpoint/compare.h"
#include "libtrain/checkpoint/kind_boxes.h"
#include "libtrain/io/hdf5_file.h"
#include "libtrain/plan/spec/optimizer_kind.h"

#include <gtest/gtest.h>

#include <stdexcept>

using namespace sample;
using checkpoint::Kind;
using checkpoint::StateShape;
using trainyard::base::DType;

namespace {

const Kind row_var = Kind::state("row_var"), column_var = Kind::state("column_var");

struct Layout {
  plan::ModelConfig model;
  int data = 1, tensor = 1;
  DealtOut grid = {};  // pipeline stages and expert-parallel ranks

  plan::Topology topology() const {
    return plan::replicas_of(grid.pipe * data * tensor, tensor, grid.pipe).with_experts(grid.experts);
  }
  std::string text() const { return fmt::format("{}: {} x {}, {}", model.name, data, tensor, grid.text()); }
  checkpoint::RunState state(DType dtype = DType::f32) const {
    auto s = factored_state(model, dtype, 5);
    if (grid.experts > 1) s.plan["expert_parallel"] = grid.experts;
    return s;
  }
  std::string save(const std::string& folder, DType dtype = DType::f32) const {
    sample::save(folder, state(dtype), topology(), 3, grid.stages());
    return folder + "/step-00000005";
  }
  checkpoint::NewLayout request() const {
    checkpoint::NewLayout to{.data = data, .dtype = {}, .zero = {}, .plan = {}};
    to.tensor = tensor, to.experts = grid.experts;
    to.stages = grid.stages();
    return to;
  }
};

std::vector<Layout> layouts() {
  const auto dense = deep(gpt_of_heads());
  const auto experts = moe();
  std::vector<Layout> all;
  for (const int data : {1, 2, 3, 5}) all.push_back({dense, data, 1, {}});
  all.push_back({dense, 1, 2, {}});
  all.push_back({dense, 3, 4, {}});
  all.push_back({dense, 2, 1, {1, 1, 2, {0, 3, 8}}});
  all.push_back({dense, 2, 2, {1, 1, 2, {0, 1, 4, 6, 8}}});
  all.push_back({experts, 1, 1, {}});
  all.push_back({experts, 6, 1, {6, 3}});
  all.push_back({experts, 2, 1, {2, 2, 2, {0, 2, 5}}});
  return all;
}

std::int64_t bytes_of(const std::string& folder, const Kind& kind) {
  const checkpoint::Reader reader(folder);
  std::int64_t bytes = 0;
  for (const auto& [name, file] : reader.manifest().files)
    if (file.payloads.contains(path_of(kind))) bytes += file.payloads.at(path_of(kind)).bytes;
  return bytes;
}

class Factored : public ::testing::Test {
 protected:
  void SetUp() override { folder = Layout{gpt(), 2, 1, {}}.save(scratch.path); }
  std::string told(const nlohmann::json& shapes) {
    edit_manifest(folder, [&](nlohmann::json& j) { j["optimizer"]["shapes"] = shapes; });
    return refusal_of(folder);
  }
  std::string verified() const {
    try {
      checkpoint::Reader(folder).verify_all();
      return "";
    } catch (const base::InputError& e) {
      return e.what();
    }
  }
  Scratch scratch;
  std::string folder;
};

}  // namespace

TEST(FactoredStates, LieWhereTheirParametersBegin) {
  const std::vector<checkpoint::ParameterEntry> parameters{
      {"a", {4, 3}, 12, {}}, {"b", {5}, 5, {}}, {"c", {2, 3}, 6, {}}, {"d", {7}, 7, {}}};
  const checkpoint::RankBoxes boxes{{2, 0, {{0, 0, 0, 0}, {1, 3, 1, 1}}},    // the first row of c
                                    {2, 3, {{1, 0, 0, 0}, {1, 2, 1, 1}}},    // some of its second
                                    {0, 16, {{1, 0, 0, 0}, {3, 3, 1, 1}}},   // a without its first row
                                    {1, 25, {{2, 0, 0, 0}, {3, 1, 1, 1}}},   // the end of b
                                    {3, 40, {{0, 0, 0, 0}, {7, 1, 1, 1}}}};  // d
  const checkpoint::RankBoxes rows{{2, 0, {{0, 0, 0, 0}, {2, 1, 1, 1}}}, {3, 2, {{0, 0, 0, 0}, {7, 1, 1, 1}}}},
      columns{{2, 0, {{0, 0, 0, 0}, {3, 1, 1, 1}}}, {3, 3, {{0, 0, 0, 0}, {1, 1, 1, 1}}}};
  EXPECT_EQ(checkpoint::boxes_of_kind(StateShape::parameter, boxes, parameters), boxes);
  EXPECT_EQ(checkpoint::boxes_of_kind(StateShape::rows, boxes, parameters), rows);
  EXPECT_EQ(checkpoint::boxes_of_kind(StateShape::columns, boxes, parameters), columns);
  EXPECT_TRUE(checkpoint::boxes_of_kind(StateShape::rows, {}, parameters).empty());
  const checkpoint::KindTensors tensors(factored(), parameters);
  const checkpoint::KindBoxes of_kinds(boxes, 64, tensors);
  EXPECT_EQ(of_kinds.of(row_var), rows);
  EXPECT_EQ(of_kinds.of(Kind::state("m")), boxes);
  EXPECT_EQ(of_kinds.elements(row_var), 9);
  EXPECT_EQ(of_kinds.elements(column_var), 4);
  EXPECT_EQ(of_kinds.elements(Kind::model), 64);
  EXPECT_EQ(tensors.of(column_var)[0].shape, checkpoint::Shape{3});
  EXPECT_EQ(tensors.of(column_var)[0].count, 3);
}

// What the engine's saver asks, where a reshard puts elements, and what readers derive from the boxes are the same.
TEST(FactoredStates, OfEachParameterHaveOneRank) {
  for (const auto& layout : layouts()) {
    const checkpoint::SavedShards shards(layout.model, layout.topology(), layout.grid.stages());
    const checkpoint::Places places(shards);
    const auto parameters = checkpoint::parameters_of(layout.model);
    std::vector<int> times(parameters.size(), 0);
    for (int r = 0; r < layout.topology().world(); ++r) {
      std::vector<std::int32_t> begun, of_boxes;
      shards.for_each_begun(r, [&](std::int32_t tensor, const plan::Parameter& p) {
        EXPECT_EQ(p.name, parameters[static_cast<std::size_t>(tensor)].name);
        begun.push_back(tensor);
      });
      for (const auto shape : {StateShape::rows, StateShape::columns}) {
        of_boxes.clear();
        for (const auto& stored : checkpoint::boxes_of_kind(shape, shards.boxes(r), parameters)) {
          of_boxes.push_back(stored.tensor);
          places.for_each(shape, stored.tensor, 0, stored.box.elements(),
                          [&](int rank, std::int64_t at, std::int64_t element, std::int64_t count) {
                            EXPECT_EQ(rank, r);
                            EXPECT_EQ(at, stored.offset);
                            EXPECT_EQ(element, 0);
                            EXPECT_EQ(count, stored.box.elements());
                          });
        }
        EXPECT_EQ(of_boxes, begun) << layout.text();
      }
      for (const auto tensor : begun) ++times[static_cast<std::size_t>(tensor)];
    }
    EXPECT_EQ(times, std::vector<int>(parameters.size(), 1)) << layout.text();
  }
}

// By day a checkpoint has one of the dtypes.
TEST(FactoredStates, AreReadOnAnyLayout) {
  const auto all = layouts();
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const auto dtype : {DType::f32, DType::bf16}) {
      if (!trainyard::testing::at_night() && (dtype == DType::bf16) != (i % 2 == 1)) continue;
      const auto& layout = all[i];
      Scratch scratch;
      const auto folder = layout.save(scratch.path, dtype);
      checkpoint::Reader reader(folder);
      reader.verify_all();
      EXPECT_EQ(reader.state().optimizer, factored());
      std::int64_t rows = 0, columns = 0;
      for (const auto& p : checkpoint::parameters_of(layout.model))
        rows += p.shape[0], columns += p.shape.size() > 1 ? p.shape[1] : 1;
      EXPECT_EQ(bytes_of(folder, row_var), 4 * rows) << layout.text();
      EXPECT_EQ(bytes_of(folder, column_var), 4 * columns) << layout.text();
      for (const auto& other : all) {
        if (other.model.name != layout.model.name) continue;
        EXPECT_EQ(differences(reader, other.topology(), other.grid.stages()), 0)
            << layout.text() << " on " << other.text();
      }
    }
}

// There and back: each has the files of a save on those ranks. By day some go only from one to the next.
TEST(FactoredStates, AreReshardedToTheFilesOfASave) {
  std::map<std::string, std::string> saved;  // by layout
  Scratch scratch;
  for (const auto& layout : layouts())
    saved[layout.text()] = layout.save(fmt::format("{}/{}", scratch.path, saved.size()));
  const auto all = layouts();
  for (const auto& from : all)
    for (const auto& to : all) {
      const bool one_rank = from.topology().world() == 1 || to.topology().world() == 1, next = &to == &from + 1;
      if (from.model.name != to.model.name || !(one_rank || next)) continue;
      if (!trainyard::testing::at_night() && !next && (&to - &from) % 2 != 0) continue;
      const auto made = scratch.path + "/made";
      fs::remove_all(made);
      checkpoint::ReshardOptions options;
      options.threads = 2;
      reshard(saved[from.text()], made, to.request(), options);
      expect_same_files(made, saved[to.text()], from.text() + " to " + to.text());
      checkpoint::Reader(made).verify_all();
    }
}

// Boxes that none of our programs writes: parts of rows and columns of every tensor.
TEST(FactoredStates, OfForeignBoxesAreTaken) {
  Scratch scratch;
  const auto s = factored_state(gpt(), DType::f32, 5);
  save_layout(scratch.path, s, grid_layout(gpt(), 2, 3),
              plan::Topology({{plan::Axis::data, 2}, {plan::Axis::tensor, 3}}));
  const auto folder = scratch.path + "/step-00000005", to = scratch.path + "/to";
  checkpoint::Reader reader(folder);
  reader.verify_all();
  EXPECT_EQ(differences(reader, 4), 0);
  checkpoint::NewLayout request{.data = 4, .dtype = {}, .zero = {}, .plan = {}};
  request.tensor = 1;
  reshard(folder, to, request);
  expect_same_files(to, Layout{gpt(), 4, 1, {}}.save(scratch.path + "/expected"), "a grid");
}

TEST(FactoredStates, AreKeptOnOtherDtypesAndLeftOutOfWeightsAlone) {
  Scratch scratch;
  const Layout layout{gpt(), 3, 1, {}};
  const auto from = layout.save(scratch.path), narrow = scratch.path + "/narrow", back = scratch.path + "/back",
             weights = scratch.path + "/weights";
  reshard(from, narrow, {2, DType::bf16, {}, {}});
  reshard(narrow, back, {3, DType::f32, {}, {}});
  expect_same_ranks(back, from, "there and back");
  reshard(from, weights, {2, {}, {}, {}, checkpoint::Contents::model});
  checkpoint::Reader reader(weights);
  EXPECT_EQ(reader.tensors().size(), checkpoint::parameters_of(layout.model).size());
  EXPECT_EQ(reader.state().optimizer, checkpoint::StoredOptimizer());
}

// Payloads of several blocks, and a start that is interrupted: the next one keeps the files that are finished.
TEST(FactoredStates, OfAnInterruptedReshardAreKept) {
  Scratch scratch;
  const Layout layout{middling(), 2, 1, {}}, target{middling(), 3, 1, {}};
  const auto from = layout.save(scratch.path), expected = target.save(scratch.path + "/expected"),
             to = scratch.path + "/to";
  struct Stop {};
  checkpoint::ReshardOptions options;
  options.memory = checkpoint::least_reshard_memory;
  options.watch = [](std::int64_t done, std::int64_t total) {
    if (done > total * 3 / 4) throw Stop();
  };
  EXPECT_THROW(reshard(from, to, target.request(), options), Stop);
  options.watch = {};
  const auto result = reshard(from, to, target.request(), options);
  EXPECT_GT(result.kept, 0);
  EXPECT_LT(result.kept, 3);
  expect_same_files(to, expected, "the second start");
}

TEST(FactoredStates, OfTheLastGoIntoAMean) {
  Scratch scratch;
  const auto adamw = scratch.path + "/adamw/step-00000004", mean = scratch.path + "/mean";
  save(scratch.path + "/adamw", state(gpt_of_heads(), DType::f32, 4), 2);
  const auto last = Layout{gpt_of_heads(), 3, 1, {}}.save(scratch.path);
  const checkpoint::Reader first(adamw), second(last);
  checkpoint::average({&first, &second}, mean, {5, {}, {}, {}, {}, 2, 1}, {});
  checkpoint::Reader reader(mean);
  reader.verify_all();
  EXPECT_EQ(reader.state().optimizer, factored());
  EXPECT_EQ(reader.manifest().ranks, 10);
  // Both have the same values.
  EXPECT_EQ(differences(reader, plan::replicas_of(4, 2)), 0);
}

TEST_F(Factored, AreComparedByTheirShapes) {
  const auto other = scratch.path + "/other";
  reshard(folder, other, {3, {}, {}, {}});
  const checkpoint::Reader a(folder);
  const auto of = [&](const std::string& path) {
    std::map<std::string, checkpoint::TensorDifference> out;
    for (const auto& t : checkpoint::compare(a, checkpoint::Reader(path), checkpoint::Contents::all, 2))
      out[t.path] = t;
    return out;
  };
  const auto parameters = checkpoint::parameters_of(gpt()).size();
  const auto same = of(other);
  EXPECT_EQ(same.size(), 4 * parameters);
  for (const auto& [path, t] : same) EXPECT_TRUE(t.equal()) << path;
  const auto name = std::string("embedding.tokens.weight");
  EXPECT_EQ(same.at("/optimizer/row_var/" + name).shape, checkpoint::Shape{131});
  EXPECT_EQ(same.at("/optimizer/row_var/" + name).elements, 131);
  EXPECT_EQ(same.at("/optimizer/column_var/" + name).shape, checkpoint::Shape{24});

  change_payload(other, row_var, 8);  // number 2 of what rank 1 has first
  int different = 0;
  for (const auto& [path, t] : of(other)) {
    if (t.equal()) continue;
    ++different;
    EXPECT_TRUE(path.starts_with("/optimizer/row_var/")) << path;
    EXPECT_EQ(t.different, 1);
    EXPECT_EQ(t.absolute_at, 2);
  }
  EXPECT_EQ(different, 1);

  auto whole_states = state(gpt(), DType::f32, 5);
  whole_states.optimizer = {"factored", {"m", "row_var"}};
  save(scratch.path + "/third", whole_states, 1);
  for (const auto& [path, t] : of(scratch.path + "/third/step-00000005")) {
    if (path.starts_with("/optimizer/column_var/")) {
      EXPECT_EQ(t.problem, "only the first has it") << path;
    } else if (path == "/optimizer/row_var/" + name) {
      EXPECT_EQ(t.problem, "in the second its shape is [131, 24]");
    } else if (!path.starts_with("/optimizer/row_var/")) {
      EXPECT_TRUE(t.equal()) << path;
    }
  }
}

TEST_F(Factored, ShowInTheViewWithTheirShapes) {
  const auto file = trainyard::io::Hdf5File::open(folder + "/checkpoint.h5");
  for (const auto& p : checkpoint::parameters_of(gpt()))
    for (const auto& kind : {row_var, column_var}) {
      const auto path = checkpoint::path_of(kind, p.name);
      const auto expected = values_of(factored_state(gpt(), DType::f32, 5), kind, p.name, p.shape);
      const auto info = file.info(path);
      EXPECT_TRUE(info.is_virtual) << path;
      EXPECT_EQ(info.shape, dims_of(factored(), kind, p.shape)) << path;
      std::vector<float> found(expected.size());
      file.read_dataset(path, DType::f32, 0, std::ssize(found), found.data());
      EXPECT_EQ(found, expected) << path;
    }
}

TEST_F(Factored, AreNamedInTheManifest) {
  const auto j = nlohmann::json::parse(slurp(folder + "/manifest.json"));
  EXPECT_EQ(j["optimizer"].dump(), R"({"name":"factored","shapes":{"column_var":"columns","row_var":"rows"},)"
                                   R"("states":["m","row_var","column_var"]})");
  EXPECT_EQ(checkpoint::state_from_json(j, "it").optimizer, factored());
  using Shape = plan::OptimizerState::Shape;
  const auto of = checkpoint::StoredOptimizer::of(
      {"factored", {{"m"}, {"row_var", DType::f32, Shape::rows}, {"column_var", DType::f32, Shape::columns}}, {}});
  EXPECT_EQ(of, factored());
  auto other = of;
  other.shapes["row_var"] = Shape::columns;
  EXPECT_TRUE(of.has_states_of(factored()));
  EXPECT_FALSE(other.has_states_of(factored()));
}

TEST_F(Factored, WithWrongShapesAreRefused) {
  const nlohmann::json right{{"row_var", "rows"}, {"column_var", "columns"}};
  EXPECT_EQ(told(right), "");
  const auto refused = [&](const nlohmann::json& shapes, const std::string& sentence) {
    const auto refusal = told(shapes);
    EXPECT_NE(refusal.find(sentence), std::string::npos) << shapes << ": " << refusal;
  };
  refused({{"row_var", "squares"}, {"column_var", "columns"}}, "row_var = \"squares\" is unknown to this build");
  refused({{"row_var", "parameter"}, {"column_var", "columns"}}, "is unknown to this build");
  refused({{"row_var", 1}, {"column_var", "columns"}}, "row_var");
  refused({{"row_var", "rows"}, {"column_var", "columns"}, {"v", "rows"}}, "\"v\" is no state of the optimizer");
  refused("rows", "shapes");
  refused(nlohmann::json::array({"rows"}), "shapes");
  // Possible shapes, but not those of the files. So a program that knows no shapes refuses these files, too.
  refused({{"row_var", "columns"}, {"column_var", "rows"}}, "should have");
  refused({{"row_var", "rows"}}, "/optimizer/column_var of rank-00000.h5 should have");
  refused(nlohmann::json::object(), "of rank-00000.h5 should have");
  refused({{"row_var", "rows"}, {"column_var", "columns"}, {"m", "rows"}}, "/optimizer/m of rank-00000.h5 should have");
  EXPECT_EQ(told(right), "");
}

TEST_F(Factored, OfAnotherSizeAreRefused) {
  const auto good = slurp(folder + "/rank-00001.h5");
  for (const auto& kind : {row_var, column_var}) {
    const auto path = path_of(kind);
    const auto index = index_of(folder, 1);
    edit_index(folder, 1, [&](checkpoint::RankIndex& i) {  // the last number belongs to no dataset
      auto& p = i.file.payloads.at(path);
      p.bytes -= 4;
      i.file.metadata.push_back({p.offset + p.bytes, 4, 0});
    });
    const auto bytes = index.file.payloads.at(path).bytes;
    ASSERT_GT(bytes, 8);
    const auto expected = fmt::format("{} of rank-00001.h5 should have {} bytes, not {}", path, bytes, bytes - 4);
    EXPECT_NE(refusal_of(folder).find(expected), std::string::npos) << refusal_of(folder);
    edit_index(folder, 1, [&](checkpoint::RankIndex& i) { i = index; });
    EXPECT_EQ(verified(), "");
    // The file ends inside the dataset.
    spit(folder + "/rank-00001.h5", good.substr(0, static_cast<std::size_t>(index.file.payloads.at(path).offset + 4)));
    EXPECT_NE(verified().find("rank-00001.h5 has"), std::string::npos) << verified();
    spit(folder + "/rank-00001.h5", good);
  }
  // As many bytes, of another state.
  edit_index(folder, 1, [&](checkpoint::RankIndex& i) {
    std::swap(i.file.payloads.at("/optimizer/row_var"), i.file.payloads.at("/optimizer/column_var"));
  });
  EXPECT_NE(refusal_of(folder).find("should have"), std::string::npos) << refusal_of(folder);
}

TEST_F(Factored, WithAFlippedBitAreNamed) {
  const auto file = folder + "/rank-00000.h5", good = slurp(file);
  const auto payloads = checkpoint::Reader(folder).manifest().files.at("rank-00000.h5").payloads;
  for (const auto& [kind, last] : {std::pair{row_var, 130}, std::pair{column_var, 23}}) {
    auto bad = good;
    bad[static_cast<std::size_t>(payloads.at(path_of(kind)).offset)] ^= 1;
    spit(file, bad);
    const auto expected = fmt::format("it holds {}/embedding.tokens.weight elements 0 to {}", path_of(kind), last);
    EXPECT_NE(verified().find(expected), std::string::npos) << verified();
    EXPECT_THROW(reshard(folder, scratch.path + "/to", {1, {}, {}, {}}), base::InputError);
    spit(file, good);
  }
  // The bit and all checksums: only the fingerprint differs.
  change_payload(folder, row_var, 0);
  EXPECT_NE(verified().find("/optimizer/row_var/"), std::string::npos);
  EXPECT_NE(verified().find("has fingerprint"), std::string::npos) << verified();
  EXPECT_THROW(reshard(folder, scratch.path + "/to", {1, {}, {}, {}}), base::InputError);
}

TEST_F(Factored, AreNeitherShardsNorPaddedViews) {
  checkpoint::Reader reader(folder);
  const auto flat_groups = plan::flat_groups(gpt());
  std::vector<float> out(static_cast<std::size_t>(plan::layout(flat_groups[0], plan::Topology()).shard));
  EXPECT_THROW(reader.read_shard(row_var, flat_groups[0], plan::Topology(), 0, out.data()), std::logic_error);
  auto another = flat_groups[0].parameters[0];
  another.shape[0] -= 1;
  EXPECT_THROW(reader.read_tensor(row_var, another), base::InputError);

  const auto s = factored_state(gpt(), DType::f32, 6);
  Rank rank(s, 0, 1);
  rank.shards.views[row_var].pop_back();
  EXPECT_THROW(checkpoint::write_rank(scratch.path, s, rank.shards, {}), std::logic_error);
}
