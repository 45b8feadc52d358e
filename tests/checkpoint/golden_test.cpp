// Golden checkpoints of every major of trainyard.checkpoint, read for ever. They were written by the disabled test
// below and are never written again.
#include "tests/checkpoint/cuts.h"

#include "libtrain/checkpoint/view.h"
#include "libtrain/io/hdf5_file.h"

#include <gtest/gtest.h>

using namespace sample;
using trainyard::base::DType;

namespace {

plan::ModelConfig tiny(plan::ModelConfig m) {
  m.layers = 1, m.hidden = 8, m.heads = 2, m.kv_heads = std::min<std::int64_t>(m.kv_heads, 2), m.ffn = 16,
  m.vocabulary = 129, m.context = 8;
  return m;
}

struct Golden {
  int major;
  const char* folder;
  plan::ModelConfig model;
  DType dtype;
  int data, tensor;  // ranks of a grid; tensor 1: equal pieces of units
};
std::vector<Golden> goldens() {
  return {{1, GOLDEN "/checkpoint-1-gpt", tiny(gpt()), DType::bf16, 2, 1},
          {1, GOLDEN "/checkpoint-1-llama", tiny(llama()), DType::f32, 3, 1},
          {2, GOLDEN "/checkpoint-2-gpt", tiny(gpt()), DType::bf16, 2, 1},
          {2, GOLDEN "/checkpoint-2-llama", tiny(llama()), DType::f32, 2, 2}};
}

}  // namespace

// To add one for a new major: --gtest_also_run_disabled_tests --gtest_filter=*Make*
TEST(Golden, DISABLED_Make) {
  for (const auto& g : goldens()) {
    if (fs::exists(g.folder)) continue;
    if (g.tensor == 1) save(g.folder, state(g.model, g.dtype, 3), g.data);
    else
      save_cut(g.folder, state(g.model, g.dtype, 3), grid_cut(g.model, g.data, g.tensor),
               plan::Topology({{plan::Axis::data, g.data}, {plan::Axis::tensor, g.tensor}}));
    fs::remove(std::string(g.folder) + "/latest");
  }
}

TEST(Golden, EveryMajorReadsAsItWasWritten) {
  for (const auto& g : goldens()) {
    const auto found = checkpoint::find_latest_whole(g.folder, checkpoint::Verify::everything);
    ASSERT_TRUE(found) << g.folder;
    checkpoint::Reader reader(found.path);
    EXPECT_EQ(reader.manifest().major, g.major);
    EXPECT_EQ(checkpoint::state_to_json(reader.state()), checkpoint::state_to_json(state(g.model, g.dtype, 3)));
    EXPECT_EQ(reader.manifest().ranks, g.data * g.tensor);
    EXPECT_EQ(reader.manifest().axes.front().size, g.data);
    for (int ranks : {1, 2, 5}) EXPECT_EQ(differences(reader, ranks), 0) << g.folder;
  }
}

// What this build writes has the boxes of the golden checkpoint of its major, under the same header.
TEST(Golden, IndicesKeepTheirBoxes) {
  for (const auto& g : goldens()) {
    if (g.major != checkpoint::format_major || g.tensor != 1) continue;
    Scratch scratch;
    save(scratch.path, state(g.model, g.dtype, 3), g.data);
    const auto written = scratch.path + "/step-00000003", golden = std::string(g.folder) + "/step-00000003";
    for (int r = 0; r < g.data; ++r) {
      const auto i = static_cast<std::size_t>(r);
      EXPECT_EQ(index_of(written, r).boxes, index_of(golden, r).boxes);
      EXPECT_EQ(sections(written)[i].substr(0, 64), sections(golden)[i].substr(0, 64));
    }
    const auto table = static_cast<std::size_t>(44 + 20 * g.data);
    EXPECT_EQ(slurp(written + "/ranks.index").substr(0, 44), slurp(golden + "/ranks.index").substr(0, 44));
    EXPECT_EQ(slurp(golden + "/ranks.index").substr(table), sections(golden)[0] + sections(golden)[1])
        << "where the sections begin";
  }
}

// Its view is made anew in the major that it has.
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

// Fingerprints and norms as they were, so that the fingerprint's definition cannot change unseen.
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
