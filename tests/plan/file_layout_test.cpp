// Tests layouts from files once they are read: what a model keeps of them, what it refuses, and what it drops.
#include "libtrain/plan/spec/file_layout.h"

#include "libtrain/base/error.h"
#include "libtrain/plan/attention_text.h"
#include "libtrain/plan/cost/attention_lists.h"
#include "libtrain/plan/model_file/load_model.h"
#include "libtrain/plan/model_file/model_json.h"
#include "libtrain/plan/model_file/model_problems.h"
#include "libtrain/plan/problems.h"
#include "libtrain/plan/spec/block_layout.h"
#include "libtrain/plan/spec/block_ranges.h"
#include "libtrain/plan/spec/layer_model.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <functional>

namespace trainyard::plan {
namespace file_layout_test {

using testing::Scratch;
using testing::spit;

std::string asked;     // the path that the last reader was asked for
base::BlockMap given;  // the map that it returned

base::BlockMap reader(const std::string& path) {
  asked = path;
  return given;
}

base::BlockMap map_of(std::int64_t heads, std::int64_t n,
                      const std::function<bool(std::int64_t head, std::int64_t i, std::int64_t j)>& there) {
  base::BlockMap map;
  map.block = 32, map.heads = heads, map.n = n;
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) map.present.push_back(there(h, i, j) ? 1 : 0);
  return map;
}

const auto every_other = [](std::int64_t, std::int64_t i, std::int64_t j) { return (i + j) % 2 == 0; };

std::string refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const base::InputError& e) {
    return e.what();
  }
  return "nothing is refused";
}

struct FileLayout : ::testing::Test {
  ModelConfig load(const std::string& attention, LayoutReader read = reader) const {
    spit(scratch.path + "/m.toml",
         "layers = 4\nhidden = 32\nheads = 4\nkv-heads = 4\ncontext = 128\nvocabulary = 256\nlanes = 1\n[attention]\n" +
             attention);
    return load_model(scratch.path + "/m.toml", read);
  }
  void expect_refused(const std::string& attention, const std::string& words) const {
    const auto said = refusal([&] { load(attention); });
    EXPECT_NE(said.find(words), std::string::npos) << attention << said;
  }
  void SetUp() override { given = map_of(1, 4, every_other); }
  Scratch scratch;
};

TEST_F(FileLayout, IsTakenIntoTheModel) {
  const auto m = load("layout = \"file\"\nfile = \"of/it.h5\"\n");
  EXPECT_EQ(asked, scratch.path + "/of/it.h5") << "beside the model's file";
  EXPECT_EQ(m.attention.file, "of/it.h5");
  EXPECT_EQ(m.attention.block, 32);
  EXPECT_EQ(m.attention.file_blocks, "0 2;1 3;0 2;1 3");
  EXPECT_EQ(model_from_json(model_to_json(m), "it", ""), m) << "and the file is needed no more";
  load("layout = \"file\"\nfile = \"/of/it.h5\"\n");
  EXPECT_EQ(asked, "/of/it.h5");
  EXPECT_EQ(load("layout = \"file\"\nfile = \"it.h5\"\nblock = 32\n"), load("layout = \"file\"\nfile = \"it.h5\"\n"));
}

TEST_F(FileLayout, IsSaidInTheModelInPlaceOfAFile) {
  asked.clear();
  const auto m = load("layout = \"file\"\nblock = 32\nfile-blocks = \"0;0:2; 2 ;1 3\"\n", nullptr);
  EXPECT_EQ(asked, "");
  const auto l = block_layout(layer_model(m, 0), 0, 128);
  EXPECT_EQ(l.columns, (std::vector<std::int32_t>{0, 0, 1, 2, 1, 3}));
}

TEST_F(FileLayout, IsRefusedWhereItDoesNotFitTheModel) {
  expect_refused("layout = \"file\"\nfile = \"it.h5\"\nblock = 64\n",
                 "attention-block is 64, the blocks of " + scratch.path + "/it.h5 are of 32");
  expect_refused("layout = \"file\"\n", "neither is set");
  expect_refused("layout = \"sliding\"\nfile = \"it.h5\"\n", "attention-file is read by the layouts file");
  expect_refused("layout = \"sliding\"\nfile-blocks = \"0\"\n", "attention-file-blocks is read by the layouts file");
  const std::string file = "layout = \"sliding, file\"\nfile = \"it.h5\"\n";
  EXPECT_NE(refusal([&] { load(file, nullptr); }).find("is not read here"), std::string::npos);
  given = map_of(3, 4, every_other);
  expect_refused(file, "the layout of it.h5 is for 3 heads, the model has 4");
  given = map_of(1, 5, every_other);
  expect_refused(file, "has 5 blocks of 32 a side, a context of 128 tokens only 4");
  given = map_of(2, 4096, every_other);  // "0 2 4 ...": about 10,000 bytes a row
  expect_refused(file, "as ranges, and a model holds at most 4,194,304");
}

TEST_F(FileLayout, ThatAnEditedFileSaysIsJudged) {
  const struct {
    const char *blocks, *says;
  } table[] = {
      {"0;1;2;3|0;1;2;3|0;1;2;3|0;1;2", "has 3 rows in head 3, 4 in head 0"},
      {"0;1;2;4", "row 3 of head 0"},
      {"0;1;2;1:5", "row 3 of head 0"},
      {"0;1 0;2;3", "row 1 of head 0"},
      {"0;1:3 2;2;3", "row 1 of head 0"},
      {"0;1;2;x", "names no blocks"},
      {"0;1;2;3:2", "names no blocks"},
      {"0;1;2;-1", "names no blocks"},
      {"0;1;2;3|0;1;2;3", "is for 2 heads, the model has 4"},
      {"0;1;2;3;3", "a context of 128 tokens only 4"},
  };
  for (const auto& t : table)
    expect_refused(fmt::format("layout = \"file\"\nblock = 32\nfile-blocks = \"{}\"\n", t.blocks), t.says);
  ModelConfig m = load("layout = \"file\"\nfile = \"it.h5\"\n");
  m.attention.file_blocks = std::string(longest_file_blocks + 1, ' ');
  ASSERT_EQ(problems(m).size(), 1u);
  EXPECT_NE(problems(m)[0].find("4194305 bytes long, more than 4194304"), std::string::npos) << problems(m)[0];
  auto json = model_to_json(m);
  EXPECT_NE(refusal([&] { model_from_json(json, "it", ""); }).find("attention_file_blocks is \""), std::string::npos);
  m.attention.file_blocks = std::string(8193, ' ');
  const auto layers = layer_model(m, 0), copy = m;
  EXPECT_EQ(&layers.attention.file_blocks.str(), &m.attention.file_blocks.str()) << "once in memory";
  EXPECT_EQ(&copy.attention.file_blocks.str(), &m.attention.file_blocks.str());
  EXPECT_EQ(model_from_json(model_to_json(m), "it", ""), m) << "longer than a name";
}

// Columns of the same model: one list for all heads in one layer, one for each in another.
TEST_F(FileLayout, HasListsOfHeadsWhereTheFileHas) {
  given = map_of(4, 4, [](std::int64_t h, std::int64_t i, std::int64_t j) { return j == i || (h == 3 && j < i); });
  const auto m = load("layout = \"sliding, file\"\nfile = \"it.h5\"\nwindow = 1\n");
  const auto sliding = layer_model(m, 0), file = layer_model(m, 1);
  EXPECT_EQ(block_layout(sliding, 0, 128).heads, 1);
  EXPECT_EQ(sliding.attention.file_blocks, "");
  const auto l = block_layout(file, 1, 128);
  EXPECT_EQ(l.heads, 4);
  EXPECT_EQ(l.row(2, 3).size(), 1u);
  EXPECT_EQ(l.row(3, 3).size(), 4u);
  EXPECT_EQ(block_count(file, 128), 3 * 4 + 10);
  EXPECT_DOUBLE_EQ(density(file, 128), 22.0 / 40);
  EXPECT_EQ(list_room(file, 128).begins, 4 * 2 + 1) << "two tiles of 64 a head";
  EXPECT_EQ(attention_text(m, 128),
            "sliding in 2 layers: 4 of 10 blocks of 32 (40.0 %); file in 2 layers: 22 of 40 blocks of 32 in 4 heads "
            "(55.0 %)");
}

TEST_F(FileLayout, OfACausalModelLosesWhatLiesAboveTheDiagonal) {
  auto m = load("layout = \"file\"\nfile = \"it.h5\"\n");
  const auto blocks = count_file_blocks(m.attention);
  EXPECT_EQ(blocks.all, 8);
  EXPECT_EQ(blocks.above, 2);
  EXPECT_EQ(dropped_text(m),
            "2 of the 8 blocks of it.h5 lie above the diagonal, and the model is causal: they are left out");
  EXPECT_EQ(block_count(layer_model(m, 0), 128), 6);
  given = map_of(1, 4, [](std::int64_t, std::int64_t i, std::int64_t j) { return j <= i; });
  EXPECT_EQ(dropped_text(load("layout = \"file\"\nfile = \"it.h5\"\n")), "");
  m.attention.causal = false;
  EXPECT_EQ(dropped_text(m), "");
}

// A plan says before a run that the sequence has as many blocks as the file.
TEST_F(FileLayout, GoesWithOneLengthOfSequences) {
  Plan p;
  p.model = load("layout = \"file\"\nfile = \"it.h5\"\n");
  p.topology = topology_of(p, 1);
  p.sequence = 128;
  EXPECT_EQ(text_of(decision_problems(p)), "");
  p.sequence = 97;
  EXPECT_EQ(text_of(decision_problems(p)), "") << "the last block is short";
  p.sequence = 96;
  ASSERT_EQ(decision_problems(p).size(), 1u) << text_of(decision_problems(p));
  EXPECT_EQ(decision_problems(p)[0].message, "the layout of it.h5 has 4 blocks of 32 a side, --sequence 96 has 3");
  EXPECT_EQ(decision_problems(p)[0].hint, "--sequence 128, or a layout of another size");
  given = map_of(1, 2, every_other);
  p.model = load("layout = \"file\"\nfile = \"it.h5\"\n");
  EXPECT_EQ(longest_sequence(p.model), 64) << "of a context of 128";
  p.sequence = 128;
  ASSERT_EQ(decision_problems(p).size(), 1u);
  EXPECT_EQ(decision_problems(p)[0].hint, "--sequence 64, or a layout of another size");
  p.sequence = 256;
  ASSERT_EQ(decision_problems(p).size(), 1u) << text_of(decision_problems(p));
  EXPECT_NE(decision_problems(p)[0].message.find("longer than the model's context"), std::string::npos);
}

}  // namespace file_layout_test
}  // namespace trainyard::plan
