// What an exported model says about tokens: the id of padding behind which positions begin, the token before texts, the
// names in tokenizer_config.json.
#include "libtrain/base/error.h"
#include "libtrain/checkpoint/companions.h"
#include "libtrain/checkpoint/export_model.h"
#include "libtrain/checkpoint/import_model.h"
#include "tests/checkpoint/layouts.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace trainyard::test {
namespace export_tokens_test {

using nlohmann::json;
namespace fs = std::filesystem;
using trainyard::testing::Scratch, trainyard::testing::slurp, trainyard::testing::spit;

plan::ModelConfig roberta(std::int64_t offset) {
  plan::ModelConfig m;
  m.name = "sample-roberta";
  m.layers = 1, m.hidden = 8, m.heads = m.kv_heads = 2, m.ffn = 12, m.vocabulary = 40, m.context = 12;
  m.norm_position = plan::NormPosition::post, m.embedding_norm = true, m.head = plan::HeadForm::masked;
  m.activation = plan::Activation::gelu_erf, m.attention.causal = false, m.norm_epsilon = 1e-12;
  m.segments = 1, m.position_offset = offset;
  return m;
}

// A run with a tokenizer of these names, and what an export of it says.
struct SampleRun {
  Scratch scratch;
  std::string out = scratch.path + "/out", tokenizer = "{}", said = {};
  std::vector<std::string> names{"<pad>", "<s>", "</s>", "<unk>", "a"}, warnings = {};
  std::vector<std::int32_t> before_text = {};
  checkpoint::RunState state = sample::state(roberta(2), base::DType::f32, 1);

  // Whether it is exported. `said` is why not, `warnings` what else.
  bool exports() {
    fs::remove_all(out), fs::remove_all(scratch.path + "/run");
    warnings.clear(), said.clear();
    const auto folder = scratch.path + "/run/checkpoints";
    fs::create_directories(folder);
    if (!state.provenance.contains("tokenizer"))
      state.provenance["tokenizer"] = {{"name", "tokenizer.json"},
                                       {"source", "tokenizer.json"},
                                       {"crc32c", base::crc32c(tokenizer.data(), tokenizer.size())}};
    sample::save(folder, state, 1);
    const auto recorded = state.provenance["tokenizer"];
    if (recorded["source"] != "bytes")
      spit(scratch.path + "/run/" +
               checkpoint::kept_tokenizer_name(recorded["source"].get<std::string>(), recorded["crc32c"]),
           tokenizer);
    checkpoint::ExportOptions o;
    o.read_tokens = [this](const std::string&) -> std::optional<checkpoint::FileTokens> {
      if (names.empty()) return {};
      return checkpoint::FileTokens{-1, 3, before_text,
                                    [this](std::int32_t id) {
                                      return id >= 0 && id < std::ssize(names) ? names[static_cast<std::size_t>(id)]
                                                                               : "";
                                    },
                                    [](std::int32_t) { return false; }};
    };
    try {
      warnings = checkpoint::export_model(checkpoint::Reader(folder + "/step-00000001"), out, o).warnings;
      return true;
    } catch (const base::InputError& e) {
      EXPECT_FALSE(e.hint().empty());
      EXPECT_FALSE(fs::exists(out) || fs::exists(out + ".partial"));
      said = e.what();
      return false;
    }
  }
  json file(const char* name) const { return json::parse(slurp(out + "/" + name)); }
  bool warned(const std::string& words) const {
    for (const auto& one : warnings)
      if (one.find(words) != std::string::npos) return true;
    return false;
  }
};

// transformers 5.24: positions are counted over the tokens that are not config.pad_token_id, beginning behind this id.
TEST(ExportTokens, TheIdOfPaddingIsNoTokenOfTheData) {
  SampleRun run;
  for (const char* name :
       {"<pad>", "[PAD]", "<|finetune_right_pad_id|>", "[unused0]", "<|reserved_special_token_0|>", ""}) {
    run.names[1] = name;
    EXPECT_TRUE(run.exports() && run.warnings.empty()) << name << run.said;
    EXPECT_EQ(run.file("config.json")["pad_token_id"], 1);
  }
  for (const char* name : {"!", "pad", "##pad", "\u2581padding"}) {
    run.names[1] = name;
    EXPECT_FALSE(run.exports()) << name;
    EXPECT_NE(run.said.find(std::string("token 1, \"") + name + "\" of the run's tokenizer is padding in a roberta"),
              std::string::npos)
        << run.said;
  }
  run.names[1] = "<s>";
  EXPECT_TRUE(run.exports() && run.warned("a text that has it needs position_ids there: 2, 3, ...")) << run.said;
  for (const auto& [key, part] : {std::pair("end", "the end"), std::pair("begin", "the beginning")}) {
    run.state.provenance["document_tokens"] = {{key, 1}};
    EXPECT_FALSE(run.exports());
    EXPECT_NE(run.said.find(std::string("token 1, \"<s>\", ") + part + " of documents,"), std::string::npos)
        << run.said;
  }
  run.state.provenance.erase("document_tokens");
  run.state.identity["mask_token"] = 1;
  run.names[1] = "<pad>";
  EXPECT_FALSE(run.exports());
  EXPECT_NE(run.said.find("token 1, \"<pad>\", the mask,"), std::string::npos) << run.said;
  run.state.identity["mask_token"] = 39;
  EXPECT_TRUE(run.exports() && run.warnings.empty()) << run.said;
  run.state.model = roberta(4);  // the unknown token
  EXPECT_FALSE(run.exports());
  run.names.clear();
  EXPECT_TRUE(run.exports() && run.warned("nothing says what token 3 of the run's tokenizer is")) << run.said;
  run.state.model = roberta(0);
  EXPECT_TRUE(run.exports() && run.warnings.empty()) << "a BERT counts all tokens";
}

TEST(ExportTokens, BytesAreTokensOfTheData) {
  SampleRun run;
  run.state.model = roberta(2), run.state.model.vocabulary = 258;
  run.state.provenance["tokenizer"] = {{"name", "bytes"}, {"source", "bytes"}, {"crc32c", 0}};
  EXPECT_TRUE(run.exports() && run.warned("token 1, \"byte 1\" of")) << run.said;
  run.state.model.position_offset = 11;  // a line feed
  EXPECT_FALSE(run.exports());
  run.state.model.position_offset = 258, run.state.identity["mask_token"] = 257;
  EXPECT_FALSE(run.exports());
  run.state.identity["mask_token"] = 256;
  EXPECT_TRUE(run.exports() && run.warnings.empty()) << run.said;
}

json config_of_import(std::int64_t offset) {
  std::vector<std::string> notes;
  const auto m = roberta(offset);
  auto config = checkpoint::config_of(checkpoint::family_of(m), m, "float32", notes);
  config["eos_token_id"] = 2, config["bos_token_id"] = 0;
  return json::parse(config.dump());
}

// Where the weights were imported, the offset was theirs before the run had a tokenizer.
TEST(ExportTokens, AnImportedModelKeepsItsPadding) {
  SampleRun run;
  run.names[1] = "a";
  run.state.provenance["hugging_face"] = {
      {"folder", run.scratch.path}, {"config", config_of_import(2).dump()}, {"files", json::array()}};
  run.state.provenance["document_tokens"] = {{"end", 2}};
  EXPECT_TRUE(run.exports() && run.warned("token 1, \"a\" of the run's tokenizer is padding")) << run.said;
  EXPECT_EQ(run.file("config.json")["pad_token_id"], 1);
  run.state.provenance["hugging_face"]["files"] = {{{"name", "tokenizer.json"}, {"bytes", 1}, {"crc32c", 1}}};
  EXPECT_TRUE(run.exports() && run.warned("the run has another tokenizer")) << run.said;
  EXPECT_EQ(run.file("config.json")["pad_token_id"], 1);
  EXPECT_EQ(run.file("config.json")["bos_token_id"], nullptr);
  run.state.identity["mask_token"] = 1;
  EXPECT_FALSE(run.exports());
}

TEST(ExportTokens, FilesOfAnImportWithoutATokenizerStay) {
  SampleRun run;
  run.names[1] = "<pad>";
  const std::string generation = R"({"eos_token_id": [2, 4], "do_sample": true})";
  spit(run.scratch.path + "/generation_config.json", generation);
  run.state.provenance["hugging_face"] = checkpoint::record_of_model(run.scratch.path, config_of_import(2).dump());
  run.state.provenance["document_tokens"] = {{"end", 2}};
  EXPECT_TRUE(run.exports() && run.warnings.empty()) << run.said;
  EXPECT_EQ(slurp(run.out + "/generation_config.json"), generation);
  EXPECT_EQ(run.file("config.json"), config_of_import(2));
  EXPECT_EQ(slurp(run.out + "/tokenizer.json"), run.tokenizer);
  run.state.provenance["document_tokens"] = {{"end", 3}};
  EXPECT_TRUE(run.exports() && run.warned("nothing says whether the run's tokenizer is the imported model's"));
  EXPECT_EQ(run.file("config.json")["eos_token_id"], (json{2, 3}));
}

TEST(ExportTokens, TextsBeginAsTheRunsDocumentsDo) {
  SampleRun run;
  run.names[0] = "<s>", run.names[1] = "<pad>";
  run.state.provenance["document_tokens"] = {{"end", 2}, {"begin", 0}};
  run.before_text = {0};
  EXPECT_TRUE(run.exports() && run.warnings.empty()) << run.said;
  EXPECT_EQ(run.file("tokenizer_config.json"), (json{{"tokenizer_class", "PreTrainedTokenizerFast"},
                                                     {"eos_token", "</s>"},
                                                     {"bos_token", "<s>"},
                                                     {"add_bos_token", true}}));
  // Imported again, texts begin with it.
  const auto back = checkpoint::import_model(run.out, run.scratch.path + "/back", {}).manifest.state;
  EXPECT_EQ(back.provenance["document_tokens"], (json{{"end", 2}, {"begin", 0}}));
  run.before_text = {};
  EXPECT_TRUE(run.exports() && run.warned("texts of the run begin with token 0, which AutoTokenizer")) << run.said;
  run.names[0] = "a";
  EXPECT_TRUE(run.exports() && run.warned("the token has no name")) << run.said;

  // Beside the files of the import, whose texts began otherwise.
  const std::string settings = R"({"bos_token": "<x>", "tokenizer_class": "GPT2Tokenizer"})";
  spit(run.scratch.path + "/tokenizer_config.json", settings);
  spit(run.scratch.path + "/tokenizer.json", run.tokenizer);
  auto config = config_of_import(2);
  config["bos_token_id"] = 4;
  auto& record = run.state.provenance["hugging_face"] = checkpoint::record_of_model(run.scratch.path, config.dump());
  run.names[0] = "<s>", run.before_text = {0};
  for (const bool began : {false, true}) {
    record["texts_begin_with_a_token"] = began;
    EXPECT_TRUE(run.exports() && run.warnings.empty()) << run.said;
    EXPECT_EQ(run.file("tokenizer_config.json"),
              (json{{"bos_token", "<s>"}, {"tokenizer_class", "GPT2Tokenizer"}, {"add_bos_token", true}}));
    EXPECT_EQ(run.file("config.json")["bos_token_id"], 0);
  }
  config["bos_token_id"] = 0, record["config"] = config.dump();  // it began with this one
  EXPECT_TRUE(run.exports() && run.warnings.empty()) << run.said;
  EXPECT_EQ(slurp(run.out + "/tokenizer_config.json"), settings);
}

TEST(ExportTokens, TheMaskOfTheRunHasItsName) {
  SampleRun run;
  run.names[1] = "<pad>", run.names[4] = "<mask>";
  run.state.identity["mask_token"] = 4;
  EXPECT_TRUE(run.exports()) << run.said;
  EXPECT_EQ(run.file("tokenizer_config.json")["mask_token"], "<mask>");
  run.state.identity["mask_token"] = 5;
  EXPECT_TRUE(run.exports()) << run.said;
  EXPECT_FALSE(run.file("tokenizer_config.json").contains("mask_token")) << "the tokenizer has no such token";
}

}  // namespace export_tokens_test
}  // namespace trainyard::test
