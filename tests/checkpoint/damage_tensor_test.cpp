// A checkpoint of data-parallel and tensor-parallel ranks that is damaged, or has false contents with right checksums.
// The result is an InputError, or the saved numbers.
#include "tests/checkpoint/damaged.h"

using namespace sample;
using trainyard::base::DType;

namespace damage_tensor_test {

class TensorDamage : public GridDamage {
 protected:
  void SetUp() override { write(plan::replicas_of(4, 2)); }
};

TEST_F(TensorDamage, TheUndamagedOneIsRead) {
  EXPECT_EQ(refusal(), "");
  EXPECT_EQ(reshard_refusal(), "");
}

TEST_F(TensorDamage, RankFilesThatAreMissingOrOfAnotherSize) {
  for (int rank = 0; rank < 4; ++rank) {
    const auto name = checkpoint::rank_name(rank) + ".h5", good = slurp(file(rank));
    fs::remove(file(rank));
    expect_refused(name + " is missing", name);
    fs::create_directory(file(rank));
    expect_refused(name, "a folder");
    fs::remove(file(rank));
    for (const auto size : {std::size_t{0}, std::size_t{1}, good.size() / 2, good.size() - 1, good.size() + 1}) {
      auto other = good;
      other.resize(size, 'x');
      spit(file(rank), other);
      expect_refused(fmt::format("{} has {} bytes, expected {}", name, size, good.size()), name);
    }
    spit(file(rank), good);
  }
  EXPECT_EQ(refusal(), "");
}

// Flips a bit of each payload, in its first byte, middle and last, and a bit between payloads.
TEST_F(TensorDamage, AFlippedBitIsNamed) {
  const auto manifest = whole(folder).manifest();
  for (int rank = 0; rank < 4; ++rank) {
    const auto name = checkpoint::rank_name(rank) + ".h5", good = slurp(file(rank));
    const auto flipped = [&](std::int64_t at, const std::string& words) {
      auto bad = good;
      bad[static_cast<std::size_t>(at)] ^= 8;
      spit(file(rank), bad);
      expect_refused(name + " is damaged between bytes", fmt::format("{} byte {}", name, at));
      expect_refused(words, fmt::format("{} byte {}", name, at));
    };
    const auto& entry = manifest.files.at(name);
    for (auto kind : checkpoint::kinds_of(DType::bf16)) {
      const auto& p = entry.payloads.at(checkpoint::path_of(kind));
      ASSERT_GT(p.bytes, 0);
      for (const auto at : {std::int64_t{0}, p.bytes / 2, p.bytes - 1})
        flipped(p.offset + at, fmt::format("it holds {}/", checkpoint::path_of(kind)));
    }
    for (const auto& range : entry.metadata)
      for (const auto at : {std::int64_t{0}, range.bytes - 1}) flipped(range.offset + at, "(HDF5 metadata)");
    spit(file(rank), good);
  }
  EXPECT_EQ(refusal(), "");
}

// Files of two ranks exchange names: first as they are, then with right sizes and checksums, then with the parts of the
// index exchanged, too. In the last case only the files themselves tell whose they are.
TEST_F(TensorDamage, RankFilesThatAreExchanged) {
  for (int a = 0; a < 4; ++a)
    for (int b = a + 1; b < 4; ++b) {
      const auto what = fmt::format("ranks {} and {}", a, b);
      const auto exchange_files = [&] {
        fs::rename(file(a), file(a) + "x");
        fs::rename(file(b), file(a));
        fs::rename(file(a) + "x", file(b));
      };
      const auto manifest = slurp(folder + "/manifest.json"), indices = slurp(folder + "/ranks.index");
      exchange_files();
      expect_refused("rank-0000", what);
      edit_manifest(folder, [&](nlohmann::json& j) {
        std::swap(j["files"][checkpoint::rank_name(a) + ".h5"], j["files"][checkpoint::rank_name(b) + ".h5"]);
      });
      expect_refused("rank", what + ", sizes too");
      auto parts = sections(folder);
      std::swap(parts[static_cast<std::size_t>(a)], parts[static_cast<std::size_t>(b)]);
      replace_joined_index(folder, checkpoint::joined_index_bytes(5, parts));
      expect_refused(fmt::format("rank {}", b), what + ", their sections too");
      auto of_a = index_of(folder, a), of_b = index_of(folder, b);
      of_a.rank = a, of_b.rank = b;
      replace_index(folder, a, lying_bytes(of_a, bare_manifest(folder).parameters));
      replace_index(folder, b, lying_bytes(of_b, bare_manifest(folder).parameters));
      expect_refused("rank", what + ", with the numbers of the others");
      exchange_files();
      spit(folder + "/manifest.json", manifest);
      spit(folder + "/ranks.index", indices);
    }
  EXPECT_EQ(refusal(), "");
}

// Boxes of one tensor-parallel rank overlap another rank's boxes, leave elements out, or exchange places with boxes of
// the same shape. Only fingerprints can find the exchange.
TEST_F(TensorDamage, BoxesThatOverlapOrLeaveAHole) {
  const auto indices = slurp(folder + "/ranks.index"), manifest = slurp(folder + "/manifest.json");
  const auto number = [&](const std::string& name) {
    const auto parameters = bare_manifest(folder).parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (parameters[i].name == name) return static_cast<std::int32_t>(i);
    return std::int32_t{-1};
  };
  const auto again = [&] { spit(folder + "/ranks.index", indices), spit(folder + "/manifest.json", manifest); };
  const auto box_of = [&](checkpoint::RankIndex& index, std::int32_t tensor) {
    return std::find_if(index.boxes.begin(), index.boxes.end(), [&](auto& b) { return b.tensor == tensor; });
  };
  int changed = 0;
  for (const char* name : {"layers.00.attention.q.weight", "layers.00.attention.output.weight",
                           "layers.00.ffn.down.weight", "layers.00.ffn.up.bias", "embedding.tokens.weight"}) {
    const auto tensor = number(name);
    ASSERT_GE(tensor, 0);
    const auto not_once = fmt::format("the boxes of {} do not hold each of its elements once", name);
    for (int rank = 0; rank < 4; ++rank) {
      auto original = index_of(folder, rank);
      if (box_of(original, tensor) == original.boxes.end()) continue;  // all of the rank's rows are padding
      ++changed;
      const bool columns = std::string(name).ends_with("output.weight") || std::string(name).ends_with("down.weight");
      edit_index(folder, rank, [&](auto& index) { index.boxes.erase(box_of(index, tensor)); });
      expect_refused(not_once, fmt::format("a hole in {} of rank {}", name, rank));
      again();
      edit_index(folder, rank, [&](auto& index) {
        auto& start = box_of(index, tensor)->box.start[columns ? 1 : 0];
        start += start > 0 ? -1 : 1;
      });
      expect_refused(name, fmt::format("{} of rank {} one further", name, rank));
      again();
    }
  }
  EXPECT_GE(changed, 10);
  for (const char* name : {"layers.00.attention.q.weight", "layers.00.attention.output.weight"}) {
    const auto tensor = number(name);
    auto one = index_of(folder, 0), other = index_of(folder, 1);
    const auto a = box_of(one, tensor), b = box_of(other, tensor);
    ASSERT_EQ(a->box.count, b->box.count);
    edit_index(folder, 0, [&](auto& index) { box_of(index, tensor)->box = b->box; });
    edit_index(folder, 1, [&](auto& index) { box_of(index, tensor)->box = a->box; });
    expect_refused("fingerprint", fmt::format("{} of two tensor ranks exchanged", name));
    again();
  }
  EXPECT_EQ(refusal(), "");
}

// The grid in the manifest is for people, and tells a reshard what to leave as it is. If it differs from the files, the
// boxes are accepted once all fingerprints agree. An impossible grid is refused.
TEST_F(TensorDamage, AGridThatTheFilesAreNotOf) {
  const auto manifest = slurp(folder + "/manifest.json");
  using Sizes = std::vector<std::pair<const char*, std::int64_t>>;
  const auto say = [&](const Sizes& axes, const std::vector<std::vector<int>>& coordinates) {
    spit(folder + "/manifest.json", manifest);
    edit_manifest(folder, [&](nlohmann::json& j) {
      j["axes"] = nlohmann::json::array();
      for (const auto& [axis, size] : axes) j["axes"].push_back({{"axis", axis}, {"size", size}});
      j["coordinates"] = coordinates;
    });
  };
  const std::vector<std::vector<int>> in_two{{0, 0}, {0, 1}, {1, 0}, {1, 1}}, in_a_row{{0, 0}, {0, 1}, {0, 2}, {0, 3}};
  say({{"data", 1}, {"tensor", 4}}, in_a_row);
  EXPECT_EQ(refusal(), "");
  say({{"data", 4}}, {{0}, {1}, {2}, {3}});
  EXPECT_EQ(refusal(), "");
  say({{"tensor", 2}, {"data", 2}}, in_two);
  EXPECT_EQ(refusal(), "");
  say({{"data", 2}, {"colour", 2}}, in_two);
  EXPECT_EQ(refusal(), "");
  say({{"data", 2}, {"tensor", 4}}, in_two);
  expect_refused("the axes do not make 4 ranks", "eight ranks");
  say({{"data", 1 << 23}, {"tensor", 1 << 23}}, in_two);
  expect_refused("the axes do not make 4 ranks", "2^46 ranks");
  say({{"data", 4}, {"tensor", 0}}, in_two);
  expect_refused("size", "no tensor ranks");
  say({{"data", -2}, {"tensor", -2}}, in_two);
  expect_refused("size", "fewer than none");
  say({{"tensor", 2}, {"tensor", 2}}, in_two);
  expect_refused("is there twice", "the same axis");
  say({{"data", 2}, {"tensor", 2}}, in_a_row);
  expect_refused("are not of the axes", "coordinates of another grid");
  say({{"data", 2}, {"tensor", 2}}, {{0, 0}, {0, 1}, {1, 0}, {1, 0}});
  expect_refused("two ranks have the same coordinates", "one place twice");
  say({{"data", 1}, {"context", 1}, {"tensor", 4}}, {{0, 0, 0}, {0, 0, 1}, {0, 0, 2}, {0, 0, 3}});
  EXPECT_EQ(refusal(), "");
}

// The plan's record is for people: no reader uses it, whatever it claims.
TEST_F(TensorDamage, APlanThatTheFilesAreNotOf) {
  for (const auto& plan : {R"({"tensor": 4, "ranks": 4})", R"({"tensor": -1, "topology": 7, "ranks": "many"})", "[]",
                           R"({"topology": [{"axis": "tensor", "size": 4}], "tensor": null, "dtype": 5})"}) {
    edit_manifest(folder, [&](nlohmann::json& j) { j["plan"] = nlohmann::json::parse(plan); });
    const auto said = refusal();
    if (std::string(plan) == "[]") EXPECT_NE(said.find("plan"), std::string::npos) << said;
    else EXPECT_EQ(said, "") << plan;
  }
}

// Lanes belong to the numerics of a run, not to its files. A number that the model can have leaves the values as saved;
// any other number is refused.
TEST_F(TensorDamage, LanesThatTheModelCannotHave) {
  const auto say = [&](const nlohmann::json& lanes, bool identity) {
    edit_manifest(folder, [&](nlohmann::json& j) {
      j["model"]["lanes"] = lanes;
      if (identity) j["identity"]["model"]["lanes"] = lanes;
    });
  };
  const nlohmann::json wrong[] = {0,
                                  -1,
                                  -2,
                                  3,
                                  8,
                                  4096,
                                  4097,
                                  1LL << 32,
                                  1LL << 62,
                                  18446744073709551615u,
                                  2.5,
                                  1e300,
                                  "2x",
                                  "",
                                  true,
                                  nullptr,
                                  nlohmann::json::array({2})};
  for (const auto& lanes : wrong)
    for (const bool identity : {false, true}) {
      say(lanes, identity);
      expect_refused("model: ", lanes.dump());
    }
  for (const int lanes : {1, 4}) {
    say(lanes, false);
    expect_refused("in the identity", fmt::format("{} lanes", lanes));
    say(lanes, true);
    EXPECT_EQ(refusal(), "") << lanes;
    EXPECT_EQ(checkpoint::Reader(folder).state().model.lanes, lanes);
  }
  // A record without lanes means one lane, in the model and in the identity alike.
  edit_manifest(folder, [](nlohmann::json& j) { j["model"].erase("lanes"); });
  expect_refused("lanes of the model is 1, but \"4\" in the identity", "no lanes in the model");
  edit_manifest(folder, [](nlohmann::json& j) { j["identity"]["model"].erase("lanes"); });
  EXPECT_EQ(refusal(), "");
  edit_manifest(folder, [](nlohmann::json& j) { j["model"]["lanes"] = 2; });
  expect_refused("lanes of the model is 2, but \"1\" in the identity", "no lanes in the identity");
}

}  // namespace damage_tensor_test
