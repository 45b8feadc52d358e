// Tests that damaged shards and indexes are refused with exit code 3, a sentence that names the file, and a hint.
#include "tests/data/sample.h"

#include "libtrain/base/error.h"
#include "libtrain/data/window_dataset.h"

#include <sys/wait.h>
#include <unistd.h>

using namespace sample;

namespace {

class Damage : public ::testing::Test {
 protected:
  void SetUp() override {
    write_set(scratch.path, tokenizer, documents(tokenizer, 60, 40), 500);
    shard = scratch.path + "/train/shard-00001.h5";
  }

  // "" if every token can be read, otherwise the error's sentence.
  std::string refusal() {
    try {
      const auto index = data::read_index(scratch.path);
      for (const auto& entry : index.train) data::ShardReader(scratch.path, index, entry).verify_all();
      return "";
    } catch (const base::Error& e) {
      EXPECT_EQ(e.code(), base::ExitCode::input_refused) << e.what();
      EXPECT_FALSE(e.hint().empty()) << e.what();
      return e.what();
    }
  }
  void expect_refusal(const std::string& name, const std::string& words) {
    const auto said = refusal();
    EXPECT_NE(said.find(name), std::string::npos) << "says: " << said;
    EXPECT_NE(said.find(words), std::string::npos) << "says: " << said;
  }

  Scratch scratch;
  const Numbers tokenizer{300};
  std::string shard;
};

}  // namespace

TEST_F(Damage, AWholeSetIsRead) { EXPECT_EQ(refusal(), ""); }

TEST_F(Damage, NoFlippedByteOfAShardIsReadSilently) {
  const auto whole = slurp(shard);
  ASSERT_FALSE(whole.empty());
  for (std::size_t at = 0; at < whole.size(); at += 37) {
    auto bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    spit(shard, bytes);
    ASSERT_NE(refusal().find("shard-00001.h5"), std::string::npos) << "byte " << at;
  }
}

TEST_F(Damage, ATokenByteIsFoundAtFirstTouch) {
  const auto index = data::read_index(scratch.path);
  auto bytes = slurp(shard);
  auto& byte = bytes[static_cast<std::size_t>(index.train[1].payload_offset) + 10];
  byte = static_cast<char>(byte ^ 1);
  spit(shard, bytes);
  expect_refusal("shard-00001.h5", "differ from their checksum");
  data::WindowDataset set(scratch.path, index, index.train,
                          {.sequence = 16,
                           .mask = data::DocumentMask::off,
                           .order = data::Order::as_stored,
                           .seed = 1});  // opening does not read tokens
  std::vector<std::int32_t> t(4 * 16);
  std::vector<std::uint8_t> w(16);
  int refused = 0;
  for (std::uint64_t i = 0; i < set.count(); ++i) {
    try {
      set.fill(i, {t.data(), t.data() + 16, t.data() + 32, t.data() + 48, w.data()});
    } catch (const base::InputError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, static_cast<int>(set.count()));
}

TEST_F(Damage, AShorterOrLongerShardIsRefused) {
  const auto whole = slurp(shard);
  spit(shard, whole.substr(0, whole.size() - 1));
  expect_refusal("shard-00001.h5", fmt::format("has {} bytes, the index says {}", whole.size() - 1, whole.size()));
  spit(shard, whole + "x");
  expect_refusal("shard-00001.h5", "bytes, the index says");
  spit(shard, "");
  expect_refusal("shard-00001.h5", "has 0 bytes");
}

TEST_F(Damage, AMissingShardIsRefused) {
  fs::remove(shard);
  expect_refusal("shard-00001.h5", "is missing");
}

TEST_F(Damage, ShardsThatChangedPlacesAreRefused) {
  fs::rename(shard, scratch.path + "/x");
  fs::rename(scratch.path + "/train/shard-00002.h5", shard);
  fs::rename(scratch.path + "/x", scratch.path + "/train/shard-00002.h5");
  EXPECT_NE(refusal(), "");
}

TEST_F(Damage, AnIndexCutAnywhereIsRefused) {
  const auto path = scratch.path + "/index.json";
  const auto whole = slurp(path);
  for (std::size_t n = 0; n + 2 < whole.size(); n += 11) {
    spit(path, whole.substr(0, n));
    expect_refusal("index.json", "is no JSON");
  }
}

TEST_F(Damage, AnIndexOfAnotherFormatOrWithoutAKeyIsRefused) {
  const auto path = scratch.path + "/index.json";
  const auto whole = nlohmann::json::parse(slurp(path));
  auto other = whole;
  other["format"] = "trainyard.shards/9";
  spit(path, other.dump());
  expect_refusal("index.json", "trainyard.shards/9");
  for (const auto& [key, value] : whole.items()) {
    other = whole;
    other.erase(key);
    spit(path, other.dump());
    expect_refusal("index.json", key);
    other[key] = nlohmann::json::array({nullptr});
    spit(path, other.dump());
    expect_refusal("index.json", "damaged");
  }
}

TEST_F(Damage, NothingToReadIsRefused) {
  fs::remove_all(scratch.path + "/train");
  fs::remove(scratch.path + "/index.json");
  expect_refusal(scratch.path, "holds no token shards");
  fs::remove_all(scratch.path);
  expect_refusal(scratch.path, "does not exist");
}

TEST_F(Damage, ATokenizerWithAnEndlessNameIsRefused) {
  struct Endless : Numbers {
    using Numbers::Numbers;
    std::string name() const override { return std::string(1'000'000, 'n'); }
  };
  fs::remove_all(scratch.path);
  write_set(scratch.path, Endless(300), documents(tokenizer, 60, 40), 500);
  fs::remove(scratch.path + "/index.json");
  expect_refusal("shard-00000.h5", "the attribute tokenizer is \"nnn");
  EXPECT_LT(refusal().size(), 1000u);
}

// Without an index, wrong shapes are refused. The HDF5 library reads metadata without a checksum, so a flipped byte
// must not crash it.
TEST_F(Damage, WithoutAnIndexNothingCrashes) {
  fs::remove(scratch.path + "/index.json");
  EXPECT_EQ(refusal(), "");
  const auto whole = slurp(shard);
  for (std::size_t n : {std::size_t{0}, std::size_t{100}, whole.size() / 2, whole.size() - 1}) {
    spit(shard, whole.substr(0, n));
    EXPECT_NE(refusal().find("shard-00001.h5"), std::string::npos) << n << " bytes";
  }
  // In a child process, so that a crash is counted.
  int crashes = 0, children = 0;
  for (std::size_t at = 0; at < std::min<std::size_t>(whole.size(), 2048); at += 64, ++children) {
    const auto child = ::fork();
    if (child == 0) {
      auto bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
      spit(shard, bytes);
      refusal();
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    crashes += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  }
  EXPECT_GT(children, 10);
  EXPECT_EQ(crashes, 0);
}
