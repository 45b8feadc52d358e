// A checkpoint of pipeline stages that is damaged, or has false contents with right checksums. The result is an
// InputError, or the saved numbers.
#include "tests/checkpoint/damaged.h"

#include "libtrain/checkpoint/manifest_checks.h"

using namespace sample;
using trainyard::base::DType;

namespace damage_stages_test {

// Two stages of two ranks each: tensor-parallel ranks, or replicas.
class StageDamage : public GridDamage, public ::testing::WithParamInterface<int> {
 protected:
  void SetUp() override { write(plan::replicas_of(4, GetParam(), 2), {2, {0, 1, 3}}); }
};

INSTANTIATE_TEST_SUITE_P(Ranks, StageDamage, ::testing::Values(1, 2));

TEST_P(StageDamage, TheUndamagedOneIsRead) {
  EXPECT_EQ(refusal(), "");
  EXPECT_EQ(reshard_refusal(), "");
}

TEST_P(StageDamage, RankFilesThatAreMissingOrOfAnotherSize) {
  for (int rank = 0; rank < 4; ++rank) {
    const auto name = checkpoint::rank_name(rank) + ".h5", good = slurp(file(rank));
    fs::remove(file(rank));
    expect_refused(name + " is missing", name);
    for (const auto size : {std::size_t{0}, good.size() - 1, good.size() + 1}) {
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
TEST_P(StageDamage, AFlippedBitIsNamed) {
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
      if (p.bytes == 0) continue;
      for (const auto at : {std::int64_t{0}, p.bytes / 2, p.bytes - 1})
        flipped(p.offset + at, fmt::format("it holds {}/", checkpoint::path_of(kind)));
    }
    for (const auto& range : entry.metadata) flipped(range.offset + range.bytes - 1, "(HDF5 metadata)");
    spit(file(rank), good);
  }
  EXPECT_EQ(refusal(), "");
}

// Files of two ranks, of one stage and of two, exchange names: first as they are, then with right sizes and checksums,
// then with the parts of the index exchanged, too.
TEST_P(StageDamage, RankFilesThatAreExchanged) {
  for (const auto& [a, b] : {std::pair{0, 1}, std::pair{0, 2}, std::pair{1, 2}, std::pair{2, 3}}) {
    const auto what = fmt::format("ranks {} and {}", a, b);
    const auto exchange_files = [&, a = a, b = b] {
      fs::rename(file(a), file(a) + "x");
      fs::rename(file(b), file(a));
      fs::rename(file(a) + "x", file(b));
    };
    const auto manifest = slurp(folder + "/manifest.json"), indices = slurp(folder + "/ranks.index");
    exchange_files();
    expect_refused("rank-0000", what);
    edit_manifest(folder, [&, a = a, b = b](nlohmann::json& j) {
      std::swap(j["files"][checkpoint::rank_name(a) + ".h5"], j["files"][checkpoint::rank_name(b) + ".h5"]);
    });
    expect_refused("rank", what + ", sizes too");
    auto of_a = index_of(folder, a), of_b = index_of(folder, b);
    of_a.rank = b, of_b.rank = a;
    replace_index(folder, a, lying_bytes(of_b, bare_manifest(folder).parameters));
    replace_index(folder, b, lying_bytes(of_a, bare_manifest(folder).parameters));
    expect_refused("rank", what + ", with the numbers of the others");
    exchange_files();
    spit(folder + "/manifest.json", manifest);
    spit(folder + "/ranks.index", indices);
  }
  EXPECT_EQ(refusal(), "");
}

// A flat group that no stage has, or that two stages have: the tied table, as if the last stage had saved its copy over
// its own norm. Then tensors of two stages, of one shape, exchange places, which only fingerprints can find.
TEST_P(StageDamage, FlatGroupsOfAnotherStage) {
  const auto indices = slurp(folder + "/ranks.index"), manifest = slurp(folder + "/manifest.json");
  const auto again = [&] { spit(folder + "/ranks.index", indices), spit(folder + "/manifest.json", manifest); };
  const auto parameters = bare_manifest(folder).parameters;
  const auto not_once = [&](std::int32_t tensor) {
    return fmt::format("the boxes of {} do not hold each of its elements once",
                       parameters[static_cast<std::size_t>(tensor)].name);
  };
  for (const int rank : {0, 2}) {
    const auto tensor = index_of(folder, rank).boxes.front().tensor;
    edit_index(folder, rank, [](auto& index) { index.boxes.erase(index.boxes.begin()); });
    expect_refused(not_once(tensor), fmt::format("a hole in rank {}", rank));
    again();
  }
  edit_index(folder, 2, [](auto& index) {
    index.boxes.front().tensor = 0;
    index.boxes.front().box = checkpoint::Box{{0, 0, 0, 0}, {1, 8, 1, 1}};
  });
  expect_refused(not_once(0), "a row of the token table twice");
  again();
  const auto number = [&](const std::string& name) {
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (parameters[i].name == name) return static_cast<std::int32_t>(i);
    return std::int32_t{-1};
  };
  const auto one = number("layers.00.ffn_norm.weight"), other = number("head.norm.weight");
  ASSERT_EQ(parameters[static_cast<std::size_t>(one)].shape, parameters[static_cast<std::size_t>(other)].shape);
  for (int rank = 2; rank < 4; ++rank)
    edit_index(folder, rank, [&](auto& index) {
      for (auto& stored : index.boxes)
        if (stored.tensor == one || stored.tensor == other) stored.tensor = one + other - stored.tensor;
    });
  EXPECT_NE(reshard_refusal().find("fingerprint"), std::string::npos) << "two flat groups of a stage exchanged";
  again();
  EXPECT_EQ(refusal(), "");
}

// The grid in the manifest may claim any stages. An impossible grid is refused. A grid that differs from the files is
// accepted once all fingerprints agree, and resharded like any foreign layout.
TEST_P(StageDamage, AGridThatTheFilesAreNotOf) {
  const auto manifest = slurp(folder + "/manifest.json");
  using Sizes = std::vector<std::pair<const char*, std::int64_t>>;
  const std::vector<std::vector<int>> in_two{{0, 0}, {0, 1}, {1, 0}, {1, 1}}, in_a_row{{0}, {1}, {2}, {3}};
  const auto say = [&](const Sizes& axes, const std::vector<std::vector<int>>& coordinates) {
    spit(folder + "/manifest.json", manifest);
    edit_manifest(folder, [&](nlohmann::json& j) {
      j["axes"] = nlohmann::json::array();
      for (const auto& [axis, size] : axes) j["axes"].push_back({{"axis", axis}, {"size", size}});
      j["coordinates"] = coordinates;
    });
  };
  const auto is_read = [&](bool ours) {
    EXPECT_EQ(refusal(), "");
    const auto m = checkpoint::Reader(folder).manifest();
    EXPECT_EQ(checkpoint::layout_is_ours(m), ours);
  };
  say({{"data", 4}}, in_a_row);
  is_read(false);
  say({{"data", 2}, {"pipe", 2}}, in_two);
  is_read(false);
  say({{"pipe", 2}, {GetParam() == 1 ? "tensor" : "data", 2}}, in_two);
  is_read(false);
  say({{"pipe", 2}, {GetParam() == 1 ? "data" : "tensor", 2}}, {{1, 0}, {1, 1}, {0, 0}, {0, 1}});
  is_read(false);
  say({{"pipe", 2}, {GetParam() == 1 ? "data" : "tensor", 2}}, in_two);
  is_read(true);  // the true grid
  say({{"pipe", 4}}, in_a_row);
  is_read(false);
  remove_made();
  try {
    reshard(folder, scratch.path + "/to", {});
    ADD_FAILURE() << "four stages of three items";
  } catch (const base::UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("of 4 pipeline stages, more than the 3 items"), std::string::npos);
  }
  say({{"pipe", 4}, {"data", 2}}, in_two);
  expect_refused("the axes do not make 4 ranks", "eight ranks");
  say({{"pipe", 2}, {"pipe", 2}}, in_two);
  expect_refused("is there twice", "the same axis");
  say({{"pipe", 2}, {"data", 2}}, {{0, 0}, {0, 1}, {2, 0}, {1, 1}});
  expect_refused("are not of the axes", "a stage that is not there");
}

// The plan's record is for people: neither a reader nor a reshard that keeps the stages uses it.
TEST_P(StageDamage, APlanThatTheFilesAreNotOf) {
  for (const auto& plan :
       {R"({"pipeline": 3, "stage_boundaries": [0, 2, 3]})", R"({"pipeline": -1, "stage_boundaries": 7})",
        R"({"pipeline": "two", "stage_boundaries": [3, 2, 1, 0], "partition": 5})",
        R"({"pipeline": null, "stage_boundaries": [0, 1e300, -4], "partition": "0,0,0"})", R"({})"}) {
    edit_manifest(folder, [&](nlohmann::json& j) { j["plan"] = nlohmann::json::parse(plan); });
    EXPECT_EQ(refusal(), "") << plan;
    remove_made();
    reshard(folder, scratch.path + "/to", {});
    expect_same_ranks(scratch.path + "/to", folder, plan);
    const auto found = whole(scratch.path + "/to").state().plan;
    EXPECT_EQ(found["pipeline"], 2) << plan;
    EXPECT_EQ(found["stage_boundaries"], (nlohmann::json{0, 1, 3})) << plan;
  }
}

}  // namespace damage_stages_test
