// An index and a manifest of version 2 are compared with what they index. Each false entry, with right checksums, is
// refused with a message that names the file and the entry.
#include "tests/checkpoint/layouts.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace sample;
using checkpoint::RankIndex;
using trainyard::base::DType;

namespace rank_index_test {

class Index : public ::testing::Test {
 protected:
  void SetUp() override {
    auto model = gpt();
    model.layers = 1, model.hidden = 8, model.heads = 2, model.kv_heads = 2, model.ffn = 16, model.vocabulary = 129,
    model.context = 8;
    save(scratch.path, state(model, DType::f32, 5), 2);
    folder = scratch.path + "/step-00000005";
    index = index_of(folder, 1);
    bytes = sections(folder)[1];
    parameters = checkpoint::Reader(folder).manifest().parameters;
  }
  std::string refusal() { return refusal_of(folder); }
  void lie(const std::function<void(RankIndex&)>& change, const std::string& said) {
    auto other = index;
    change(other);
    replace_index(folder, 1, lying_bytes(other, parameters));
    EXPECT_NE(refusal().find(said), std::string::npos) << "expected: " << said << "\nfound: " << refusal();
  }
  template <class T> void number(std::size_t at, T value, const std::string& said) {
    auto other = bytes;
    std::memcpy(other.data() + at, &value, sizeof value);
    replace_index(folder, 1, other);
    EXPECT_NE(refusal().find(said), std::string::npos) << "expected: " << said << "\nfound: " << refusal();
  }

  Scratch scratch;
  std::string folder, bytes;
  RankIndex index;
  std::vector<checkpoint::ParameterEntry> parameters;
};

TEST_F(Index, ComesBackAsItWasWritten) {
  EXPECT_EQ(checkpoint::index_bytes(index, parameters), bytes);
  EXPECT_EQ(index.boxes, checkpoint::Reader(folder).manifest().boxes[1]);
  replace_index(folder, 1, bytes);
  EXPECT_EQ(refusal(), "");
}

TEST_F(Index, BoxesAreHeldAgainstTheirTensors) {
  lie([](RankIndex& i) { i.boxes.back().tensor = 1000; }, "a box of tensor 1000, there are");
  lie([](RankIndex& i) { i.boxes.front().box.start[0] = std::int64_t{1} << 40; },
      "in dim 0 of embedding.tokens.weight, which has 129");
  lie([](RankIndex& i) { i.boxes.front().box.count[1] = 9; },
      "a box from 0 on of 9 in dim 1 of embedding.tokens.weight, which has 8");
  lie([](RankIndex& i) { i.boxes.front().box.count[0] = 0; }, "a box from 128 on of 0");
  lie([](RankIndex& i) { i.boxes.front().box.start[0] -= 1; },
      "the boxes of embedding.tokens.weight do not hold each of its elements once");
  lie([](RankIndex& i) { i.boxes.erase(i.boxes.begin() + 1); }, "do not hold each of its elements once");
  lie([](RankIndex& i) { i.boxes.push_back(i.boxes.back()), i.boxes.back().offset += i.boxes.back().box.elements(); },
      "the boxes of layers.00.ffn.down.bias do not hold each of its elements once");
  lie([](RankIndex& i) { i.boxes.back().offset = 0; },
      "too large, or not in its shortest form");  // the padding before it may not be negative
  lie([](RankIndex& i) { i.boxes.back().offset += 100'000; }, "ends beyond the");
  lie([](RankIndex& i) { i.boxes.back().offset = (std::int64_t{1} << 56) + 5; }, "beyond what is possible");
  lie([](RankIndex& i) { i.boxes.back().offset += 8; }, "fingerprint");  // possible, but false
}

TEST_F(Index, PartsAreHeldAgainstTheFile) {
  lie([](RankIndex& i) { i.file.payloads.erase("/optimizer/v"); }, "datasets and metadata end at byte");
  lie([](RankIndex& i) { i.file.payloads.begin()->second.offset += 8; }, "begin");
  lie([](RankIndex& i) { i.file.metadata.pop_back(); }, "ranks.index: rank 1: ");
  lie([](RankIndex& i) { i.file.metadata.front().crc ^= 1; }, "HDF5 metadata");
  lie([](RankIndex& i) { std::swap(i.file.payloads["/optimizer/v"], i.file.payloads["/optimizer/m"]); },
      "is not the dataset that the manifest describes");
  lie([](RankIndex& i) { i.step = 6; }, "is of step 6, rank 1 of 2; expected step 5, rank 1 of 2");
  lie([](RankIndex& i) { i.rank = 0; }, "is of step 5, rank 0 of 2");
  lie([](RankIndex& i) { i.ranks = 3; }, "rank 1 of 3");
}

// Nothing is allocated by a count that was not compared with the bytes that follow.
TEST_F(Index, CountsAreHeldAgainstTheBytesThatFollow) {
  constexpr std::size_t rank = 40, datasets = 48, ranges = 52, boxes = 56, first_bytes = 64 + 40;
  number<std::uint32_t>(rank, 0xffffffffu, "rank 4294967295 of 2");
  number<std::uint32_t>(datasets, 0xffffffffu, "4294967295 records");
  number<std::uint32_t>(ranges, 0xffffffffu, "4294967295 records");
  number<std::uint64_t>(boxes, ~std::uint64_t{0}, "18446744073709551615 records");
  number<std::uint64_t>(boxes, index.boxes.size() - 1, "bytes follow the last box");
  number<std::uint64_t>(boxes, index.boxes.size() + 1, "it ends in the middle of a record");
  number<std::uint64_t>(first_bytes, ~std::uint64_t{0}, "is too large");
  number<std::uint64_t>(first_bytes, std::uint64_t{1} << 56, "records of 4 bytes");
  number<char>(0, 'T', "format is");
  number<char>(31, 'x', "a text has bytes after its end");
  for (std::size_t size = 0; size < bytes.size(); size += 1 + size / 16) {
    replace_index(folder, 1, bytes.substr(0, size));
    ASSERT_NE(refusal(), "") << "cut to " << size;
  }
  replace_index(folder, 1, bytes + '\0');
  EXPECT_NE(refusal().find("1 bytes follow the last box"), std::string::npos);
  ASSERT_EQ(bytes.back(), 8);  // the width of the last tensor
  replace_index(folder, 1, bytes.substr(0, bytes.size() - 1) + std::string("\x88\x00", 2));  // 8 in two bytes
  EXPECT_NE(refusal().find("not in its shortest form"), std::string::npos) << refusal();
}

TEST_F(Index, TheGridIsHeldAgainstTheRanks) {
  const auto manifest = slurp(folder + "/manifest.json");
  const auto lies = [&](const char* key, const char* value, const std::string& said) {
    spit(folder + "/manifest.json", manifest);
    edit_manifest(folder, [&](nlohmann::json& j) { j[key] = nlohmann::json::parse(value); });
    EXPECT_NE(refusal().find(said), std::string::npos) << "expected: " << said << "\nfound: " << refusal();
  };
  lies("axes", R"([{"axis": "data", "size": 3}])", "the axes do not make 2 ranks");
  lies("axes", R"([{"axis": "data", "size": 16777216}, {"axis": "tensor", "size": 16777216}])",
       "the axes do not make 2 ranks");
  lies("axes", R"([{"axis": "data", "size": 2}, {"axis": "data", "size": 1}])", "data\" is there twice");
  lies("axes", R"([{"axis": "data", "size": 0}])", "size");
  lies("coordinates", "[[0], [0]]", "two ranks have the same coordinates");
  lies("coordinates", "[[0], [2]]", "are not of the axes");
  lies("coordinates", "[[0], [1, 0]]", "are not of the axes");
  lies("coordinates", "[[0]]", "1 coordinates, but 2 ranks");
  lies("coordinates", "[[0], [-1]]", "small numbers");
  lies("parameters", "[]", "0 parameters, the model has");
  spit(folder + "/manifest.json", manifest);
  edit_manifest(folder, [](nlohmann::json& j) { j["files"].erase("ranks.index"); });
  EXPECT_NE(refusal().find("ranks.index is not among the files"), std::string::npos) << refusal();
}

}  // namespace rank_index_test
