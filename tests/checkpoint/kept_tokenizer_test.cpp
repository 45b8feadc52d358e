// Names and places of the tokenizer beside a checkpoint, and the settings that transformers reads.
#include "libtrain/checkpoint/kept_tokenizer.h"
#include "libtrain/base/checksum.h"
#include "libtrain/checkpoint/document_tokens.h"
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
  const std::string json = R"({"added_tokens": [{"id": 3, "content": "<end>"}, {"id": 4, "content": "<s>"}, 5]})";
  const auto of = [&](int end, int begin) {
    nlohmann::json provenance;
    provenance["document_tokens"] = document_ids_to_json({end, begin});
    const auto read = nlohmann::json::parse(provenance.dump());
    return nlohmann::json::parse(tokenizer_config({"", "tokenizer-0.json", json}, read));
  };
  EXPECT_EQ(
      of(3, 4),
      (nlohmann::json{{"tokenizer_class", "PreTrainedTokenizerFast"}, {"eos_token", "<end>"}, {"bos_token", "<s>"}}));
  EXPECT_EQ(of(3, -1)["eos_token"], "<end>");
  EXPECT_FALSE(of(3, -1).contains("bos_token"));
  const nlohmann::json alone{{"tokenizer_class", "PreTrainedTokenizerFast"}};
  EXPECT_EQ(of(9, -1), alone) << "no token has this id";
  for (const auto* name : {"tokenizer-0.json", "tokenizer-0.model"})
    EXPECT_EQ(nlohmann::json::parse(tokenizer_config({"", name, "[\1"}, {})), alone);
}

}  // namespace kept_tokenizer_test
}  // namespace trainyard::checkpoint
