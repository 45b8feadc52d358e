// Every kind of damage is refused with a message that names the file; no flipped byte is read silently.
#include "tests/checkpoint/layouts.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/checksum.h"
#include "libtrain/checkpoint/view.h"

#include <gtest/gtest.h>

#include <functional>
#include <sys/stat.h>
#include <unistd.h>

using namespace sample;
using trainyard::base::DType;
using trainyard::base::Error;
using trainyard::base::ExitCode;

namespace {

class Damage : public ::testing::Test {
 protected:
  void SetUp() override {
    auto model = gpt();
    model.layers = 1, model.hidden = 8, model.heads = 2, model.kv_heads = 2, model.ffn = 16, model.vocabulary = 129,
    model.context = 8;
    save(scratch.path, state(model, DType::bf16, 5), 2);
    folder = scratch.path + "/step-00000005";
  }
  // The message from opening and reading everything, or "". An error other than InputError fails the test.
  std::string refusal(const std::string& path) {
    try {
      checkpoint::Reader reader(path);
      reader.verify_all();
      return "";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::input_refused) << e.what();
      EXPECT_FALSE(e.hint().empty()) << e.what();
      return e.what();
    }
  }
  std::string refusal() { return refusal(folder); }
  void edit_manifest(const std::function<void(nlohmann::json&)>& edit) { sample::edit_manifest(folder, edit); }

  Scratch scratch;
  std::string folder;
};

}  // namespace

TEST_F(Damage, NoFlippedByteIsReadSilently) {
  ASSERT_EQ(refusal(), "");
  for (const char* name : {"manifest.json", "checkpoint.h5", "rank-00000.h5", "rank-00001.h5", "ranks.index"}) {
    const auto good = slurp(folder + "/" + name);
    const auto step = std::max<std::size_t>(1, good.size() / 400), most = std::min<std::size_t>(400, good.size());
    std::size_t tried = 0;
    for (std::size_t at = 0; at < good.size(); at += step, ++tried) {
      auto bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
      spit(folder + "/" + name, bad);
      const auto message = refusal();
      ASSERT_NE(message, "") << name << " byte " << at;
      ASSERT_NE(message.find(name), std::string::npos) << message;
    }
    EXPECT_GE(tried, most);
    spit(folder + "/" + name, good);
  }
  EXPECT_EQ(refusal(), "");
}

TEST_F(Damage, ADamagedPayloadIsNamedByTensorAndRange) {
  const auto manifest = checkpoint::Reader(folder).manifest();
  const auto& payload = manifest.files.at("rank-00001.h5").payloads.at("/optimizer/m");
  auto bytes = slurp(folder + "/rank-00001.h5");
  bytes[static_cast<std::size_t>(payload.offset)] ^= 4;
  spit(folder + "/rank-00001.h5", bytes);
  const auto message = refusal();
  EXPECT_NE(message.find("rank-00001.h5"), std::string::npos) << message;
  // The token table has 256 * 8 stored elements (rows are rounded up to 128), so rank 1 begins at 1024. The table's
  // logical end is 129 * 8.
  EXPECT_NE(message.find("/optimizer/m/embedding.tokens.weight elements 1024 to 1031"), std::string::npos) << message;
  // Other kinds of tensors can still be read, this kind cannot.
  checkpoint::Reader reader(folder);
  std::vector<float> out(1032);
  reader.read_tensor(checkpoint::Kind::state("v"), "embedding.tokens.weight", 0, 1032, out.data());
  reader.read_tensor(checkpoint::Kind::state("m"), "embedding.tokens.weight", 0, 1024, out.data());
  EXPECT_THROW(reader.read_tensor(checkpoint::Kind::state("m"), "embedding.tokens.weight", 0, 1032, out.data()),
               trainyard::base::InputError);
}

TEST_F(Damage, TruncatedMissingAndUnreadableFiles) {
  for (const char* name : {"manifest.json", "checkpoint.h5", "rank-00000.h5", "ranks.index"}) {
    const auto path = folder + "/" + name;
    const auto good = slurp(path);
    for (auto size : {std::size_t{0}, std::size_t{1}, good.size() / 2, good.size() - 1}) {
      spit(path, good.substr(0, size));
      EXPECT_NE(refusal().find(name), std::string::npos) << name << " cut to " << size;
    }
    spit(path, good + "x");
    EXPECT_NE(refusal().find(name), std::string::npos) << name << " made longer";
    fs::remove(path);
    EXPECT_TRUE(name == std::string(checkpoint::view_name) || refusal().find(name) != std::string::npos)
        << name << " missing";
    fs::create_directory(path);
    EXPECT_NE(refusal().find(name), std::string::npos) << name << " is a folder";
    fs::remove(path);
    spit(path, good);
    if (::geteuid() != 0) {
      ::chmod(path.c_str(), 0);
      EXPECT_NE(refusal().find(name), std::string::npos) << name << " unreadable";
      ::chmod(path.c_str(), 0644);
    }
  }
  EXPECT_EQ(refusal(), "");
}

TEST_F(Damage, ThingsThatAreNoCheckpoint) {
  fs::create_directory(scratch.path + "/empty");
  EXPECT_NE(refusal(scratch.path + "/empty").find("manifest.json"), std::string::npos);
  EXPECT_NE(refusal(scratch.path + "/absent").find("does not exist"), std::string::npos);
  EXPECT_NE(refusal(folder + "/manifest.json").find("not a checkpoint folder"), std::string::npos);
  fs::copy(folder, folder + ".partial");
  EXPECT_NE(refusal(folder + ".partial").find("unfinished"), std::string::npos);
}

TEST_F(Damage, FilesOfTwoCheckpointsMixed) {
  auto s = checkpoint::Reader(folder).state();
  s.step = 6;
  save(scratch.path, s, 2);
  fs::copy(scratch.path + "/step-00000006/rank-00001.h5", folder + "/rank-00001.h5",
           fs::copy_options::overwrite_existing);
  EXPECT_NE(refusal().find("rank-00001.h5"), std::string::npos);  // the file's metadata has the step
}

TEST_F(Damage, OtherFormatsAndMajors) {
  edit_manifest([](auto& j) { j["format"] = "trainyard.checkpoint/3"; });
  EXPECT_NE(refusal().find("trainyard.checkpoint/3"), std::string::npos);
  edit_manifest([](auto& j) { j["format"] = "trainyard.shard/1"; });
  EXPECT_NE(refusal().find("expected trainyard.checkpoint/1"), std::string::npos);
  edit_manifest([](auto& j) { j["format"] = "trainyard.checkpoint/1"; });
  EXPECT_NE(refusal(), "") << "version 1 has other keys";
  edit_manifest([](auto& j) { j["format"] = "trainyard.checkpoint/2"; });
  EXPECT_EQ(refusal(), "");
  edit_manifest([](auto& j) { j.erase("step"); });
  EXPECT_NE(refusal().find("step"), std::string::npos);
}

TEST_F(Damage, UnknownKeysAreIgnored) {
  edit_manifest([](auto& j) {
    j["colour"] = "green";
    j["model"]["new_knob"] = 3;
    j["files"]["rank-00000.h5"]["note"] = nullptr;
    j["parameters"][0]["unit_of_measure"] = "none";
    j["axes"][0]["colour"] = "red";
  });
  EXPECT_EQ(refusal(), "");
}

TEST_F(Damage, AManifestOfOtherContentIsFoundByFingerprints) {
  edit_manifest([](auto& j) { j["tensors"]["/optimizer/v/head.norm.bias"]["fingerprint"] = "0123456789abcdef"; });
  EXPECT_NE(refusal().find("/optimizer/v/head.norm.bias"), std::string::npos);
}
