// Names and places of the tokenizer beside a checkpoint, and the settings that transformers reads.
#include "libtrain/checkpoint/kept_tokenizer.h"
#include "libtrain/base/checksum.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace trainyard::checkpoint {
namespace kept_tokenizer_test {

namespace fs = std::filesystem;

TEST(KeptTokenizer, Names) {
  EXPECT_EQ(kept_tokenizer_name("tokenizer.json", 0x1a2b3c4d), "tokenizer-1a2b3c4d.json");
  EXPECT_EQ(kept_tokenizer_name("a/b/tokenizer.model", 0x4d), "tokenizer-0000004d.model");
  for (const char* name : {"tokenizer-1a2b3c4d.json", "tokenizer-00000000.model"})
    EXPECT_TRUE(is_kept_tokenizer_name(name)) << name;
  for (const char* name : {"tokenizer.json", "tokenizer-1a2b3c4.json", "tokenizer-1a2b3c4d.txt",
                           "tokenizer-1A2b3c4d.json", "tokenizer-1a2b3c4d5.json", "tokenizer-", ""})
    EXPECT_FALSE(is_kept_tokenizer_name(name)) << name;
}

// The copy of the run comes first, then that of the checkpoint, then the place in the data. A file of another content
// is passed over.
TEST(KeptTokenizer, Places) {
  const testing::Scratch scratch;
  const std::string text = "{\"model\": 1}", checkpoint = scratch.path + "/run/checkpoints/step-00000001",
                    data = scratch.path + "/data";
  const auto crc = base::crc32c(text.data(), text.size());
  fs::create_directories(checkpoint), fs::create_directories(data);
  const nlohmann::json provenance = {{"data", data},
                                     {"tokenizer", {{"name", "t"}, {"source", "tokenizer.json"}, {"crc32c", crc}}}};
  EXPECT_EQ(kept_tokenizer(checkpoint, provenance).path, "");
  testing::spit(data + "/tokenizer.json", text);
  EXPECT_EQ(kept_tokenizer(checkpoint, provenance).path, data + "/tokenizer.json");
  const auto name = kept_tokenizer_name("tokenizer.json", crc);
  testing::spit(checkpoint + "/" + name, text);
  EXPECT_EQ(kept_tokenizer(checkpoint, provenance).path, checkpoint + "/" + name);
  testing::spit(scratch.path + "/run/" + name, "other");
  EXPECT_EQ(kept_tokenizer(checkpoint, provenance).path, checkpoint + "/" + name);
  testing::spit(scratch.path + "/run/" + name, text);
  const auto kept = kept_tokenizer(checkpoint, provenance);
  EXPECT_EQ(kept.path, scratch.path + "/run/" + name);
  EXPECT_EQ(kept.content, text);
  for (const auto& bad : {nlohmann::json(), nlohmann::json{{"tokenizer", "bytes"}},
                          nlohmann::json{{"tokenizer", {{"source", "bytes"}, {"crc32c", 0}}}},
                          nlohmann::json{{"tokenizer", {{"source", 5}, {"crc32c", crc}}}}})
    EXPECT_EQ(kept_tokenizer(checkpoint, bad).path, "") << bad;
}

TEST(KeptTokenizer, SettingsForTransformers) {
  const KeptTokenizer json{"", "tokenizer-0.json",
                           R"({"added_tokens": [{"id": 3, "content": "<end>"}, {"id": 4, "content": "start"}, 5]})"};
  nlohmann::json alone{{"tokenizer_class", "PreTrainedTokenizerFast"}};
  const auto with = [&](const nlohmann::json& more) {
    auto all = alone;
    all.update(more);
    return all;
  };
  const auto of = [](const KeptTokenizer& kept, const std::optional<FileTokens>& tokens, const SpecialIds& ids) {
    return nlohmann::json(tokenizer_config(kept, tokens, ids));
  };
  EXPECT_EQ(of(json, {}, {3, 4, -1}), with({{"eos_token", "<end>"}, {"bos_token", "start"}, {"add_bos_token", true}}));
  EXPECT_EQ(of(json, {}, {3, -1, 4}), with({{"eos_token", "<end>"}, {"mask_token", "start"}}));
  EXPECT_EQ(of(json, {}, {9, -1, -1}), alone) << "no token has this id";
  for (const auto* name : {"tokenizer-0.json", "tokenizer-0.model"})
    EXPECT_EQ(of({"", name, "[\1"}, {}, {3, 4, 5}), alone);
  // Other tokens have a name there if it is no text, or if text with it becomes the token.
  const std::vector<std::string> names{"<unk>", "<s>", "</s>", "END", "\u2581the", "[MASK]"};
  const FileTokens tokens{5,
                          0,
                          {},
                          [&](std::int32_t id) { return id < 6 ? names[static_cast<std::size_t>(id)] : ""; },
                          [](std::int32_t id) { return id == 3; }};
  for (const auto* name : {"tokenizer-0.json", "tokenizer-0.model"}) {
    const KeptTokenizer model{"", name, "[\1"};
    EXPECT_EQ(of(model, tokens, {3, 1, 5}),
              with({{"eos_token", "END"}, {"bos_token", "<s>"}, {"add_bos_token", true}, {"mask_token", "[MASK]"}}));
    EXPECT_EQ(of(model, tokens, {2, 4, 7}), with({{"eos_token", "</s>"}})) << "a part of words, and no token";
  }
}

}  // namespace kept_tokenizer_test
}  // namespace trainyard::checkpoint
