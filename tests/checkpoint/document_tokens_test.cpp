// Ids of tokens that end and begin documents, in the provenance of imported models and of runs that begin with them.
#include "libtrain/checkpoint/document_tokens.h"

#include <gtest/gtest.h>

namespace trainyard::test {
namespace document_tokens_test {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

json parsed(const json& j) { return json::parse(j.dump()); }  // ids have the type that a parsed file gives

TEST(DocumentTokens, AllEndsThatAnImportRecorded) {
  json record{{"config", R"({"eos_token_id": [601, 604]})"}, {"files", json::array()}};
  checkpoint::keep_end_ids(parsed({{"eos_token_id", {604, 605}}, {"bos_token_id", 3}}), record);
  json imported{{"imported_from", "/model"}, {"document_tokens", {{"end", 601}}}, {"hugging_face", record}};
  EXPECT_EQ(checkpoint::end_ids_of(parsed(imported)), (Ids{601, 604, 605}));
  imported.erase("hugging_face");
  checkpoint::keep_token_ids(parsed({{"eos_token_id", {601, 608}}}), imported);
  EXPECT_EQ(checkpoint::end_ids_of(parsed(imported)), (Ids{601, 608}));
  EXPECT_EQ(checkpoint::end_ids_of({{"imported_from", "/model"}}), Ids());
  EXPECT_EQ(checkpoint::end_ids_of(parsed({{"document_tokens", {{"end", 0}}}})), Ids{0});
}

// Ids mean the same tokens only as long as the tokenizer is the same file.
TEST(DocumentTokens, ARunKeepsThemWithTheirTokenizer) {
  json record{{"config", R"({"eos_token_id": [601, 604], "bos_token_id": 600})"},
              {"files", {{{"name", "tokenizer.json"}, {"crc32c", 7}}}}};
  checkpoint::keep_end_ids(parsed({{"eos_token_id", 605}}), record);
  json run{{"document_tokens", {{"end", 602}}}, {"weights_from", "base"}, {"hugging_face", record}};
  EXPECT_EQ(checkpoint::end_ids_of(parsed(run)), Ids{602}) << "no tokenizer is recorded";
  run["tokenizer"] = {{"name", "tokenizer.json"}, {"crc32c", 7}};
  EXPECT_EQ(checkpoint::end_ids_of(parsed(run)), (Ids{601, 602, 604, 605}));
  EXPECT_EQ(checkpoint::imported_begin_id(parsed(run)), 600);
  run["tokenizer"]["crc32c"] = 8;
  EXPECT_EQ(checkpoint::end_ids_of(parsed(run)), Ids{602});
  EXPECT_EQ(checkpoint::imported_begin_id(parsed(run)), -1);
}

TEST(DocumentTokens, AnExportHasTheIdsOfTheRun) {
  json record{{"config", R"({"eos_token_id": 601})"}, {"files", {{{"name", "tokenizer.json"}, {"crc32c", 7}}}}};
  checkpoint::keep_end_ids(parsed({{"eos_token_id", {601, 604}}}), record);
  const json config{{"eos_token_id", 601}, {"bos_token_id", 600}, {"pad_token_id", 599}, {"n", 1}};
  const auto exported = [&](const json& provenance, const json& from) {
    auto out = nlohmann::ordered_json(parsed(from));
    checkpoint::use_ids_of_run(parsed(provenance), out);
    return json(out);
  };
  json run{{"document_tokens", {{"end", 604}, {"begin", 5}}}, {"hugging_face", record}};
  run["tokenizer"] = {{"name", "tokenizer.json"}, {"crc32c", 7}};
  EXPECT_FALSE(checkpoint::has_other_tokenizer(parsed(run)));
  auto wanted = config;
  wanted["bos_token_id"] = 5;
  EXPECT_EQ(exported(run, config), wanted) << "generation ends there already";
  run["document_tokens"]["end"] = 602;
  wanted["eos_token_id"] = {601, 602};
  EXPECT_EQ(exported(run, config), wanted);
  EXPECT_EQ(exported(run, {{"n", 1}}), (json{{"n", 1}, {"eos_token_id", 602}}));
  for (const auto& tokenizer : {json{{"crc32c", 8}}, json{{"source", "bytes"}, {"crc32c", 0}}}) {
    run["tokenizer"] = tokenizer;
    EXPECT_TRUE(checkpoint::has_other_tokenizer(parsed(run))) << tokenizer;
    EXPECT_EQ(exported(run, config),
              (json{{"eos_token_id", 602}, {"bos_token_id", 5}, {"pad_token_id", nullptr}, {"n", 1}}));
  }
  run.erase("tokenizer");
  EXPECT_FALSE(checkpoint::has_other_tokenizer(parsed(run))) << "nothing is known";
}

// Where the import found no tokenizer, nothing says that the run's is another.
TEST(DocumentTokens, AnImportWithoutATokenizerHasNoOther) {
  const json record{{"config", R"({"eos_token_id": [601, 604], "bos_token_id": 600})"},
                    {"files", {{{"name", "generation_config.json"}, {"crc32c", 9}}}}};
  json run{{"document_tokens", {{"end", 604}}}, {"tokenizer", {{"crc32c", 8}}}, {"hugging_face", record}};
  const json config{{"eos_token_id", {601, 604}}, {"bos_token_id", 600}, {"pad_token_id", 599}};
  auto out = nlohmann::ordered_json(parsed(config));
  checkpoint::use_ids_of_run(parsed(run), out);
  EXPECT_EQ(json(out), config);
  EXPECT_FALSE(checkpoint::has_other_tokenizer(parsed(run)));
  EXPECT_FALSE(checkpoint::may_have_other_tokenizer(parsed(run))) << "both end there";
  run["document_tokens"]["end"] = 5;
  EXPECT_FALSE(checkpoint::has_other_tokenizer(parsed(run)));
  EXPECT_TRUE(checkpoint::may_have_other_tokenizer(parsed(run)));
  run["tokenizer"] = {{"source", "bytes"}, {"crc32c", 0}};
  EXPECT_TRUE(checkpoint::has_other_tokenizer(parsed(run)));
  EXPECT_FALSE(checkpoint::may_have_other_tokenizer(parsed(run)));
  run["document_tokens"]["end"] = 601;
  EXPECT_FALSE(checkpoint::has_other_tokenizer(parsed(run))) << "a model of this library has bytes for tokens";
  for (const char* name : {"tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model"}) {
    run["hugging_face"]["files"] = {{{"name", name}, {"crc32c", 9}}};
    EXPECT_TRUE(checkpoint::has_other_tokenizer(parsed(run))) << name;
  }
  run["hugging_face"]["files"] = {{{"name", "vocab.json"}, {"crc32c", 9}}};
  EXPECT_FALSE(checkpoint::has_other_tokenizer(parsed(run))) << "no data is made with it";
}

TEST(DocumentTokens, AnExportBeginsWhereTheRunDoes) {
  const json record{{"config", R"({"eos_token_id": 601, "bos_token_id": 600})"},
                    {"files", {{{"name", "tokenizer.json"}, {"crc32c", 7}}}}};
  const json run{
      {"document_tokens", {{"end", 601}, {"begin", 5}}}, {"tokenizer", {{"crc32c", 7}}}, {"hugging_face", record}};
  const auto begin = [&](const json& from) {
    auto out = nlohmann::ordered_json(parsed(from));
    checkpoint::use_ids_of_run(parsed(run), out);
    return json(out).value("bos_token_id", json("none"));
  };
  EXPECT_EQ(begin({{"bos_token_id", 600}}), 5);
  EXPECT_EQ(begin({{"bos_token_id", {600, 5}}}), 5) << "an import reads the first";
  EXPECT_EQ(begin({{"bos_token_id", {5, 600}}}), (json{5, 600}));
  EXPECT_EQ(begin({{"model_type", "llama"}}), 5) << "a family has its own where config.json has none";
  EXPECT_EQ(begin({{"do_sample", true}}), "none");
}

TEST(DocumentTokens, ADamagedRecordHasNone) {
  for (const auto& value :
       {json(nullptr), json(-1), json("x"), json(1.5), json(1ll << 40), json::array(), json{1, "x"}}) {
    const json config{{"eos_token_id", value}};
    json record{{"config", config.dump()}, {"generation", config}};
    checkpoint::keep_end_ids(parsed(config), record);
    EXPECT_EQ(checkpoint::end_ids_of(parsed({{"imported_from", "m"}, {"token_ids", config}, {"hugging_face", record}})),
              Ids())
        << value;
  }
  for (const auto& record :
       {json("x"), json::array(), json{{"config", 3}}, json{{"config", "{"}}, json{{"generation", 5}}})
    EXPECT_EQ(checkpoint::end_ids_of(parsed({{"imported_from", "m"}, {"hugging_face", record}})), Ids()) << record;
  EXPECT_EQ(checkpoint::end_ids_of(json("no object")), Ids());
  EXPECT_FALSE(checkpoint::imported_begins_texts({{"hugging_face", {{"texts_begin_with_a_token", "yes"}}}}));
  EXPECT_FALSE(checkpoint::imported_begins_texts(json()));
  EXPECT_EQ(checkpoint::imported_begins_texts({{"hugging_face", {{"texts_begin_with_a_token", false}}}}), false);
}

}  // namespace document_tokens_test
}  // namespace trainyard::test
