// A checkpoint of expert-parallel ranks that is damaged, or has false contents with right checksums. The result is an
// InputError, or the saved numbers.
#include "tests/checkpoint/damaged.h"
#include "tests/checkpoint/dealt_out.h"

#include "libtrain/checkpoint/manifest_checks.h"

using namespace sample;
using trainyard::base::DType;

namespace damage_experts_test {

// Four ranks: two hold shards of the first half of the experts, two of the second half. With two stages, each stage has
// one rank for each half.
class ExpertDamage : public GridDamage, public ::testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    const int stages = GetParam();
    write(plan::replicas_of(4, 1, stages).with_experts(2),
          stages == 1 ? plan::Stages{} : plan::Stages{stages, {0, 2, 4}}, [](plan::ModelConfig& m) {
            m.layers = 2;
            m.experts.count = {4}, m.experts.top_k = 1;
          });
  }
};

INSTANTIATE_TEST_SUITE_P(Stages, ExpertDamage, ::testing::Values(1, 2));

TEST_P(ExpertDamage, TheUndamagedOneIsRead) {
  EXPECT_EQ(refusal(), "");
  EXPECT_EQ(reshard_refusal(), "");
  EXPECT_TRUE(checkpoint::layout_is_ours(checkpoint::Reader(folder).manifest()));
}

TEST_P(ExpertDamage, RankFilesThatAreMissingOrOfAnotherSize) {
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

// Flips a bit of each dataset in the first box of an expert that the rank has. The message names that expert.
TEST_P(ExpertDamage, AFlippedBitOfAnExpertIsNamed) {
  const auto manifest = whole(folder).manifest();
  for (int rank = 0; rank < 4; ++rank) {
    const auto& boxes = manifest.boxes[static_cast<std::size_t>(rank)];
    const auto of_expert = std::find_if(boxes.begin(), boxes.end(), [&](const auto& stored) {
      return expert_of(manifest.parameters[static_cast<std::size_t>(stored.tensor)].name) >= 0;
    });
    ASSERT_NE(of_expert, boxes.end()) << rank;
    const auto& tensor = manifest.parameters[static_cast<std::size_t>(of_expert->tensor)].name;
    EXPECT_EQ(expert_of(tensor) / 2, rank % 2) << tensor;
    const auto name = checkpoint::rank_name(rank) + ".h5", good = slurp(file(rank));
    for (auto kind : checkpoint::kinds_of(DType::bf16)) {
      auto bad = good;
      const auto& p = manifest.files.at(name).payloads.at(checkpoint::path_of(kind));
      const auto size = base::size_of(checkpoint::dtype_of(kind, DType::bf16, DType::f32));
      bad[static_cast<std::size_t>(p.offset + of_expert->offset * size)] ^= 8;
      spit(file(rank), bad);
      expect_refused(name + " is damaged between bytes", name);
      expect_refused(fmt::format("it holds {}/", checkpoint::path_of(kind)), name);
    }
    spit(file(rank), good);
  }
  EXPECT_EQ(refusal(), "");
}

// Files of ranks with other experts exchange names; they have one size. First as they are, then with sizes and
// checksums exchanged, then with the parts of the index, too.
TEST_P(ExpertDamage, RankFilesThatAreExchanged) {
  for (const auto& [a, b] : {std::pair{0, 1}, std::pair{2, 3}, std::pair{0, 2}, std::pair{1, 2}}) {
    const auto what = fmt::format("ranks {} and {}", a, b);
    const auto manifest = slurp(folder + "/manifest.json"), indices = slurp(folder + "/ranks.index");
    const auto exchange_files = [&, a = a, b = b] {
      fs::rename(file(a), file(a) + "x");
      fs::rename(file(b), file(a));
      fs::rename(file(a) + "x", file(b));
    };
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

// Experts of two parts, of one shape, exchange names: fingerprints find it. An expert on no rank or on two ranks: the
// boxes show it.
TEST_P(ExpertDamage, ExpertsOfAnotherPart) {
  const auto indices = slurp(folder + "/ranks.index"), manifest = slurp(folder + "/manifest.json");
  const auto again = [&] { spit(folder + "/ranks.index", indices), spit(folder + "/manifest.json", manifest); };
  const auto parameters = bare_manifest(folder).parameters;
  const auto number = [&](const std::string& name) {
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (parameters[i].name == name) return static_cast<std::int32_t>(i);
    return std::int32_t{-1};
  };
  const auto one = number("layers.01.experts.01.up.weight"), other = number("layers.01.experts.02.up.weight");
  ASSERT_GE(std::min(one, other), 0);
  const auto exchange = [&](bool both) {
    for (int rank = 0; rank < 4; ++rank)
      edit_index(folder, rank, [&](auto& index) {
        for (auto& stored : index.boxes)
          if (both && stored.tensor == one) stored.tensor = other;
          else if (stored.tensor == other) stored.tensor = one;
      });
  };
  exchange(true);
  EXPECT_NE(reshard_refusal().find("fingerprint"), std::string::npos) << "two experts exchanged";
  EXPECT_NE(refusal().find("fingerprint"), std::string::npos) << "two experts exchanged";
  again();
  exchange(false);
  expect_refused("do not hold each of its elements once", "an expert twice and one not at all");
  again();
  EXPECT_EQ(refusal(), "");
}

// The plan's record may claim anything: readers follow the files' boxes.
TEST_P(ExpertDamage, APlanThatTheFilesAreNotOf) {
  for (const auto* value : {"1", "4", "3", "-2", "\"two\"", "null", "[2]", "1e300", "2.5"}) {
    edit_manifest(folder, [&](nlohmann::json& j) { j["plan"]["expert_parallel"] = nlohmann::json::parse(value); });
    EXPECT_EQ(refusal(), "") << value;
    EXPECT_EQ(reshard_refusal(), "") << value;
  }
  edit_manifest(folder, [&](nlohmann::json& j) { j["plan"] = nlohmann::json::object(); });
  EXPECT_EQ(refusal(), "");
}

}  // namespace damage_experts_test
