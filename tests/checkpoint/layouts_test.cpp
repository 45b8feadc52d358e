// Boxes of any form on any rank, in any order and with padding between them. They are written, read on every other
// layout, verified and shown as whole tensors. A rank may have no boxes.
#include "tests/checkpoint/layouts.h"

#include "libtrain/checkpoint/manifest_checks.h"
#include "libtrain/io/hdf5_file.h"

#include <gtest/gtest.h>

#include <random>

using namespace sample;
using trainyard::base::DType;

namespace layouts_test {

// Every tensor is divided into random boxes, each on a random rank.
std::vector<checkpoint::RankBoxes> random_layout(const plan::ModelConfig& model, int ranks, std::mt19937& random) {
  std::vector<checkpoint::RankBoxes> layout(static_cast<std::size_t>(ranks));
  const auto parameters = checkpoint::parameters_of(model);
  const std::function<void(int, const checkpoint::Box&, int)> divide = [&](int tensor, const checkpoint::Box& box,
                                                                           int times) {
    const auto dim = random() % 2;
    if (times == 0 || box.count[dim] < 2) {
      auto& of_rank = layout[random() % layout.size()];
      const auto at = of_rank.empty() ? 0 : of_rank.back().end();
      of_rank.push_back({tensor, at + static_cast<std::int64_t>(random() % 3), box});
      return;
    }
    auto low = box, high = box;
    low.count[dim] = 1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(box.count[dim] - 1));
    high.start[dim] += low.count[dim];
    high.count[dim] -= low.count[dim];
    divide(tensor, low, times - 1);
    divide(tensor, high, times - 1);
  };
  for (std::size_t i = 0; i < parameters.size(); ++i)
    divide(static_cast<int>(i), checkpoint::whole_of(parameters[i].shape), 3);
  return layout;
}

// The number of wrong elements in the view, as h5py would read it.
std::int64_t differences_of_view(const std::string& folder, const checkpoint::RunState& s) {
  const auto file = trainyard::io::Hdf5File::open(folder + "/checkpoint.h5");
  std::int64_t wrong = 0;
  for (auto kind : checkpoint::kinds_of(s.dtype))
    for (const auto& p : checkpoint::parameters_of(s.model)) {
      if (checkpoint::dtype_of(kind, s) != DType::f32) continue;
      std::vector<float> got(static_cast<std::size_t>(p.count));
      file.read_dataset(std::string(checkpoint::path_of(kind)) + "/" + p.name, DType::f32, 0, p.count, got.data());
      for (std::int64_t i = 0; i < p.count; ++i)
        wrong += got[static_cast<std::size_t>(i)] != value(kind, p.name, i, s.dtype);
    }
  return wrong;
}

TEST(Cuts, BoxesOfAnyFormAreReadOnEveryOtherCut) {
  std::mt19937 random(1);
  for (const auto& model : {gpt(), llama()})
    for (auto dtype : {DType::f32, DType::bf16}) {
      Scratch scratch;
      const auto s = state(model, dtype, 5);
      auto boxes = random_layout(model, 4, random);
      boxes.insert(boxes.begin() + 2, checkpoint::RankBoxes{});
      save_layout(scratch.path, s, boxes, plan::Topology({{plan::Axis::data, 5}}));
      const auto folder = scratch.path + "/step-00000005";
      checkpoint::Reader reader(folder);
      reader.verify_all();
      for (int ranks : {1, 2, 3, 7}) EXPECT_EQ(differences(reader, ranks), 0) << model.name << " to " << ranks;
      EXPECT_EQ(differences_of_view(folder, s), 0);
      save(scratch.path + "/pieces", s, 3);
      const auto whole = checkpoint::Reader(scratch.path + "/pieces/step-00000005").tensors(),
                 layout = reader.tensors();
      for (std::size_t i = 0; i < whole.size(); ++i)
        EXPECT_EQ(layout[i].fingerprint, whole[i].fingerprint) << layout[i].path;
    }
}

// A checkpoint of any data- and tensor-parallel grid is read on every other grid. The files are those that this build
// predicts. Fingerprints and the view equal those of the whole model.
TEST(Cuts, EveryGridOfRanksReadsEveryOther) {
  const auto grid = [](int data, int tensor) { return plan::replicas_of(data * tensor, tensor); };
  for (const auto& model : {gpt_of_heads(), llama_of_heads()})
    for (auto dtype : {DType::f32, DType::bf16}) {
      const auto s = state(model, dtype, 5);
      std::vector<checkpoint::TensorInfo> first;
      for (const auto& from : {grid(1, 1), grid(2, 1), grid(1, 2), grid(3, 2), grid(1, 4), grid(3, 4)}) {
        Scratch scratch;
        save(scratch.path, s, from);
        const auto folder = scratch.path + "/step-00000005";
        checkpoint::Reader reader(folder);
        EXPECT_TRUE(checkpoint::layout_is_ours(reader.manifest()));
        for (const auto& to : {grid(1, 1), grid(3, 1), grid(1, 2), grid(3, 2), grid(2, 4), grid(3, 4)})
          EXPECT_EQ(differences(reader, to), 0)
              << model.name << " " << from.world() << " to " << to.world() << " " << to.size(plan::Axis::tensor);
        EXPECT_EQ(differences_of_view(folder, s), 0);
        const auto tensors = reader.tensors();
        if (first.empty()) first = tensors;
        ASSERT_EQ(tensors.size(), first.size());
        for (std::size_t i = 0; i < first.size(); ++i) {
          EXPECT_EQ(tensors[i].fingerprint, first[i].fingerprint) << tensors[i].path;
          EXPECT_EQ(tensors[i].norm, first[i].norm) << tensors[i].path;
        }
      }
    }
}

// What all tensor-parallel ranks hold is in the file of the first of them, and takes no room in other files.
TEST(Cuts, TheFirstTensorRankSavesWhatAllHold) {
  Scratch scratch;
  const auto s = state(gpt_of_heads(), DType::f32, 5);
  const plan::Topology topology({{plan::Axis::data, 3}, {plan::Axis::tensor, 2}});
  save(scratch.path, s, topology);
  const auto m = checkpoint::Reader(scratch.path + "/step-00000005").manifest();
  EXPECT_EQ(m.axes[0].axis + m.axes[1].axis, "datatensor");
  EXPECT_EQ(m.coordinates[3], (std::vector<int>{1, 1}));
  std::int64_t norms = 0;
  for (int r = 0; r < 6; ++r)
    for (const auto& stored : m.boxes[static_cast<std::size_t>(r)])
      if (const auto& name = m.parameters[static_cast<std::size_t>(stored.tensor)].name;
          name.find("norm") != std::string::npos || name.find("positions") != std::string::npos) {
        EXPECT_EQ(r % 2, 0) << name;
        norms += stored.box.elements();
      }
  EXPECT_EQ(norms, 24 * (2 * (2 * 2 + 1) + 17));
  const auto bytes = [&](int r) {
    return m.files.at(checkpoint::rank_name(r) + ".h5").payloads.at("/optimizer/m").bytes;
  };
  for (int data = 0; data < 3; ++data) EXPECT_LT(bytes(2 * data + 1), bytes(2 * data));
}

// A rank without a logical row of the token table has no box of it, and reads zeros.
TEST(Cuts, ASliceWithoutALogicalRow) {
  const plan::Topology topology({{plan::Axis::tensor, 4}});
  const auto model = llama_of_heads();  // 5 rows of 128
  for (int r = 0; r < 4; ++r) {
    std::int64_t rows = 0;
    for (const auto& stored : checkpoint::boxes_of_shards(model, topology, r))
      if (stored.tensor == 0) rows += stored.box.count[0];
    EXPECT_EQ(rows, r == 0 ? 5 : 0) << r;
  }
}

// Tensor-parallel ranks read boxes of any form, too.
TEST(Cuts, TensorRanksReadAnyBoxes) {
  std::mt19937 random(2);
  for (const auto& model : {gpt_of_heads(), llama_of_heads()}) {
    Scratch scratch;
    save_layout(scratch.path, state(model, DType::bf16, 5), random_layout(model, 4, random), plan::replicas_of(4, 1));
    checkpoint::Reader reader(scratch.path + "/step-00000005");
    for (int data : {1, 3})
      for (int tensor : {2, 4}) EXPECT_EQ(differences(reader, plan::replicas_of(data * tensor, tensor)), 0);
  }
}

TEST(Cuts, TheGridIsNamed) {
  Scratch scratch;
  const plan::Topology grid({{plan::Axis::data, 2}, {plan::Axis::tensor, 2}});
  save_layout(scratch.path, state(gpt(), DType::bf16, 5), grid_layout(gpt(), 2, 2), grid);
  checkpoint::Reader reader(scratch.path + "/step-00000005");
  EXPECT_EQ(differences(reader, 3), 0);
  const auto& m = reader.manifest();
  ASSERT_EQ(m.axes.size(), 2u);
  EXPECT_EQ(m.axes[0].axis + m.axes[1].axis, "datatensor");
  EXPECT_EQ(m.coordinates, (std::vector<std::vector<int>>{{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
  EXPECT_FALSE(checkpoint::layout_is_ours(m)) << "only fingerprints can tell";
}

// Boxes are accepted only when the fingerprints agree: two exchanged tensors of one shape are found.
TEST(Cuts, ExchangedTensorsAreFound) {
  Scratch scratch;
  auto boxes = grid_layout(gpt(), 1, 2);
  const auto s = state(gpt(), DType::f32, 5);
  save_layout(scratch.path, s, boxes, plan::Topology({{plan::Axis::tensor, 2}}));
  const auto folder = scratch.path + "/step-00000005";
  for (auto& of_rank : boxes)
    for (auto& stored : of_rank)  // the two norms before a layer's attention and feed-forward have the same shape
      if (stored.tensor == 2 || stored.tensor == 3) stored.tensor = 5 - stored.tensor;
  for (int r = 0; r < 2; ++r)
    edit_index(folder, r, [&](checkpoint::RankIndex& index) { index.boxes = boxes[static_cast<std::size_t>(r)]; });
  try {
    checkpoint::Reader reader(folder);
    ADD_FAILURE() << "exchanged tensors were believed";
  } catch (const base::InputError& e) {
    EXPECT_NE(std::string(e.what()).find("fingerprint"), std::string::npos) << e.what();
  }
}

// The publisher checks what all ranks have written together before the checkpoint gets its name.
TEST(Cuts, BoxesThatLeaveAHoleAreNotPublished) {
  Scratch scratch;
  const auto s = state(gpt(), DType::f32, 5);
  auto boxes = grid_layout(gpt(), 2, 1);
  boxes[1].pop_back();
  EXPECT_THROW(save_layout(scratch.path, s, boxes, plan::Topology({{plan::Axis::data, 2}})), base::InputError);
  EXPECT_TRUE(checkpoint::list(scratch.path).empty());
  EXPECT_FALSE(fs::exists(scratch.path + "/step-00000005.partial"));
}

}  // namespace layouts_test
