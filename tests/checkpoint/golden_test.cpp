// Golden checkpoints of every major of trainyard.checkpoint, readable for ever. The disabled test below wrote them, and
// they are never written again.
#include "tests/checkpoint/reshard_files.h"

#include "libtrain/checkpoint/manifest_checks.h"
#include "libtrain/checkpoint/view.h"
#include "libtrain/io/hdf5_file.h"
#include "libtrain/plan/model_file/model_json.h"

#include <gtest/gtest.h>

using namespace sample;
using trainyard::base::DType;

namespace {

plan::ModelConfig tiny(plan::ModelConfig m) {
  m.layers = 1, m.hidden = 8, m.heads = 2, m.kv_heads = std::min<std::int64_t>(m.kv_heads, 2), m.ffn = 16,
  m.vocabulary = 129, m.context = 8;
  return m;
}

enum class Boxes {
  of_train,  // as train saves: each tensor-parallel rank holds its part of tensors with a sharded dim
  by_hand    // grid_layout: as none of our programs saves
};
struct Golden {
  int major;
  const char* folder;
  plan::ModelConfig model;
  DType dtype;
  int data, tensor;
  Boxes boxes = Boxes::of_train;
  plan::Stages stages = {};
  checkpoint::StoredOptimizer optimizer = {};

  int ranks() const { return data * tensor * stages.stages; }
  plan::Topology grid() const {
    if (boxes == Boxes::of_train) return plan::replicas_of(ranks(), tensor, stages.stages);
    return plan::Topology({{plan::Axis::data, data}, {plan::Axis::tensor, tensor}});
  }
  std::string step() const { return std::string(folder) + "/step-00000003"; }
};
plan::ModelConfig in_lanes(plan::ModelConfig model) {
  model.lanes = 2;
  return model;
}
std::vector<Golden> goldens() {
  return {{1, GOLDEN "/checkpoint-1-gpt", tiny(gpt()), DType::bf16, 2, 1},
          {1, GOLDEN "/checkpoint-1-llama", tiny(llama()), DType::f32, 3, 1},
          {2, GOLDEN "/checkpoint-2-gpt", tiny(gpt()), DType::bf16, 2, 1},
          {2, GOLDEN "/checkpoint-2-gpt-shared", in_lanes(tiny(gpt())), DType::bf16, 2, 2},
          {2, GOLDEN "/checkpoint-2-gpt-stages", tiny(gpt()), DType::bf16, 2, 1, Boxes::of_train, {2, {0, 1, 3}}},
          {2, GOLDEN "/checkpoint-2-llama", tiny(llama()), DType::f32, 2, 2, Boxes::by_hand},
          {2,
           GOLDEN "/checkpoint-2-sgd-f16",
           tiny(gpt()),
           DType::f16,
           2,
           1,
           Boxes::of_train,
           {},
           checkpoint::StoredOptimizer::of(plan::optimizer_kind("sgd"))},
          {2,
           GOLDEN "/checkpoint-2-rows-columns",
           in_lanes(tiny(gpt())),
           DType::bf16,
           2,
           2,
           Boxes::of_train,
           {},
           factored()}};
}

// The older golden checkpoints do not record tensor-parallel ranks or the model's lanes.
checkpoint::RunState state_of(const Golden& g) {
  auto s = state(g.model, g.dtype, 3);
  s.optimizer = g.optimizer;
  if (g.stages.stages > 1)
    s.plan = {{"ranks", g.ranks()},
              {"pipeline", g.stages.stages},
              {"stage_boundaries", g.stages.boundaries},
              {"topology", {{{"axis", "pipe"}, {"size", g.stages.stages}}, {{"axis", "data"}, {"size", g.data}}}},
              {"zero", 1},
              {"dtype", base::name_of(g.dtype)}};
  if (g.model.lanes == 1) return s;
  s.identity["seed"] = s.seed;
  s.identity["model"] = plan::model_to_json(g.model);
  s.identity["model"].erase("name");
  s.plan = {{"ranks", g.data * g.tensor},
            {"tensor", g.tensor},
            {"topology", {{{"axis", "data"}, {"size", g.data}}, {{"axis", "tensor"}, {"size", g.tensor}}}},
            {"zero", 1},
            {"dtype", base::name_of(g.dtype)}};
  return s;
}

}  // namespace

// To add a golden checkpoint for a new major: --gtest_also_run_disabled_tests --gtest_filter=*Make*
TEST(Golden, DISABLED_Make) {
  for (const auto& g : goldens()) {
    if (fs::exists(g.folder)) continue;
    if (g.boxes == Boxes::of_train) save(g.folder, state_of(g), g.grid(), 3, g.stages);
    else save_layout(g.folder, state_of(g), grid_layout(g.model, g.data, g.tensor), g.grid());
    fs::remove(std::string(g.folder) + "/latest");
  }
}

TEST(Golden, EveryMajorReadsAsItWasWritten) {
  for (const auto& g : goldens()) {
    const auto found = checkpoint::find_latest_whole(g.folder, checkpoint::Verify::everything);
    ASSERT_TRUE(found) << g.folder;
    checkpoint::Reader reader(found.path);
    EXPECT_EQ(reader.manifest().major, g.major);
    EXPECT_EQ(checkpoint::state_to_json(reader.state()), checkpoint::state_to_json(state_of(g)));
    EXPECT_EQ(reader.state().model.lanes, g.model.lanes);
    EXPECT_EQ(reader.manifest().ranks, g.ranks());
    EXPECT_EQ(reader.manifest().axes.front().size, g.stages.stages > 1 ? g.stages.stages : g.data);
    EXPECT_EQ(checkpoint::stages_of(reader.manifest()), g.stages);
    for (int ranks : {1, 2, 5}) EXPECT_EQ(differences(reader, ranks), 0) << g.folder;
    if (g.model.kv_heads % 2 != 0) continue;
    for (int data : {1, 2, 3}) EXPECT_EQ(differences(reader, plan::replicas_of(2 * data, 2)), 0) << g.folder;
  }
}

// Checks each element of each kind of tensor by its logical index, independent of any parallel layout.
TEST(Golden, EveryLogicalTensorHasItsValues) {
  for (const auto& g : goldens()) {
    checkpoint::Reader reader(g.step());
    std::size_t tensors = 0;
    for (const auto& t : reader.tensors()) {
      ++tensors;
      std::int64_t count = 1;
      for (auto d : t.shape) count *= d;
      std::vector<float> values(static_cast<std::size_t>(count));
      reader.read_tensor(t.kind, t.name, 0, count, values.data());
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < count; ++i)
        wrong += std::bit_cast<std::uint32_t>(values[static_cast<std::size_t>(i)]) !=
                 std::bit_cast<std::uint32_t>(value(t.kind, t.name, i, g.dtype));
      EXPECT_EQ(wrong, 0) << g.folder << t.path;
    }
    EXPECT_EQ(tensors, checkpoint::kinds_of(state_of(g)).size() * checkpoint::parameters_of(g.model).size());
  }
}

// Checks where each element of a rank lies. The expected place comes from counting what tensor-parallel ranks share,
// not from the file's boxes.
TEST(Golden, FilesOfTensorRanksHoldWhatTheirRankHeld) {
  for (const auto& g : goldens()) {
    if (g.boxes != Boxes::of_train || g.major != checkpoint::format_major) continue;
    checkpoint::Reader reader(g.step());
    const auto s = state_of(g);
    for (int r = 0; r < g.ranks(); ++r) {
      const auto& file = reader.manifest().files.at(checkpoint::rank_name(r) + ".h5");
      const auto bytes = slurp(g.step() + "/" + checkpoint::rank_name(r) + ".h5");
      Rank expected(s, r, g.grid(), g.stages);
      for (auto kind : checkpoint::kinds_of(s)) {
        std::string held;
        for (const auto& view : expected.shards.views.at(kind))
          held.append(static_cast<const char*>(view.data), static_cast<std::size_t>(view.bytes()));
        const auto& payload = file.payloads.at(checkpoint::path_of(kind));
        EXPECT_TRUE(bytes.substr(static_cast<std::size_t>(payload.offset), static_cast<std::size_t>(payload.bytes)) ==
                    held)
            << g.folder << " rank " << r << checkpoint::path_of(kind);
      }
    }
  }
}

// Resharding a golden checkpoint gives the files of a save on the other layout.
TEST(Golden, ReshardsToTheFilesOfASave) {
  for (const auto& g : goldens()) {
    Scratch scratch;
    for (const auto& [data, tensor] : {std::pair{1, 1}, std::pair{3, 1}, std::pair{1, 2}, std::pair{3, 2}}) {
      if (g.model.kv_heads % tensor != 0) continue;
      const auto to = fmt::format("{}/{}-{}", scratch.path, data, tensor), expected = to + "-saved";
      reshard(g.step(), to, {data, {}, {}, {}, {}, tensor, 1});
      save(expected, state_of(g), plan::replicas_of(data * tensor, tensor));
      expect_same_files(to, expected + "/step-00000003", fmt::format("{} on {} x {}", g.folder, data, tensor));
    }
  }
}

// This build writes the same boxes and header as the golden checkpoint of its major.
TEST(Golden, IndicesKeepTheirBoxes) {
  for (const auto& g : goldens()) {
    if (g.major != checkpoint::format_major || g.boxes == Boxes::by_hand) continue;
    Scratch scratch;
    save(scratch.path, state_of(g), g.grid(), 3, g.stages);
    const auto written = scratch.path + "/step-00000003", golden = g.step();
    const int ranks = g.ranks();
    std::string all;
    for (int r = 0; r < ranks; ++r) {
      const auto i = static_cast<std::size_t>(r);
      EXPECT_EQ(index_of(written, r).boxes, index_of(golden, r).boxes);
      EXPECT_EQ(sections(written)[i].substr(0, 64), sections(golden)[i].substr(0, 64));
      all += sections(golden)[i];
    }
    const auto table = static_cast<std::size_t>(44 + 20 * ranks);
    EXPECT_EQ(slurp(written + "/ranks.index").substr(0, 44), slurp(golden + "/ranks.index").substr(0, 44));
    EXPECT_EQ(slurp(golden + "/ranks.index").substr(table), all) << "where the sections begin";
  }
}

// The view is remade in the checkpoint's own major.
TEST(Golden, AViewOfVersion1IsMadeAnew) {
  Scratch scratch;
  const auto folder = scratch.path + "/step-00000003";
  fs::copy(GOLDEN "/checkpoint-1-gpt/step-00000003", folder, fs::copy_options::recursive);
  fs::permissions(folder, fs::perms::owner_all);
  fs::remove(folder + "/checkpoint.h5");
  EXPECT_NE(checkpoint::Reader(folder).view_problem(), "");
  checkpoint::make_view(folder);
  checkpoint::Reader reader(folder);
  EXPECT_EQ(reader.view_problem(), "");
  EXPECT_EQ(reader.manifest().major, 1);
  EXPECT_EQ(trainyard::io::Hdf5File::open(folder + "/checkpoint.h5").text("/", "format"), "trainyard.checkpoint/1");
  reader.verify_all();
}

// Fingerprints and norms keep their values, so that the fingerprint's definition cannot change unnoticed.
TEST(Golden, FingerprintsKeepTheirMeaning) {
  checkpoint::Reader reader(GOLDEN "/checkpoint-1-gpt/step-00000003");
  for (const auto& t : reader.tensors()) {
    if (t.kind == checkpoint::Kind::model) continue;
    std::int64_t count = 1;
    for (auto d : t.shape) count *= d;
    std::uint64_t sum = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint64_t bits = std::bit_cast<std::uint32_t>(value(t.kind, t.name, i, DType::bf16));
      std::uint64_t h = static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15ull ^ (bits + 0xD1B54A32D192ED03ull);
      h = (h ^ (h >> 32)) * 0xD6E8FEB86659FD93ull;
      h = (h ^ (h >> 32)) * 0xD6E8FEB86659FD93ull;
      sum += h ^ (h >> 32);
    }
    EXPECT_EQ(sum, t.fingerprint) << t.path;
  }
}
