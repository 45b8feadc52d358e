// Which tokens generate puts before a prompt. They depend on the tokenizer's file, the files beside it, and where the
// weights come from.
#include "tools/generate/beginning.h"
#include "libtrain/base/error.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <optional>

namespace trainyard::test {
namespace {

using Ids = std::vector<std::int32_t>;
using nlohmann::json;
using testing::slurp;
using testing::spit;

json special(const char* name) { return {{"SpecialToken", {{"id", name}, {"type_id", 0}}}}; }
const json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
json ids_of(const char* name, const Ids& ids) { return {{name, {{"id", name}, {"ids", ids}}}}; }
json template_of(const json& single, const json& tokens) {
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", json::array()}, {"special_tokens", tokens}};
}
// The post_processor in the file of Llama 3.
json llama(std::int32_t id = 704) {
  return {{"type", "Sequence"},
          {"processors",
           {{{"type", "ByteLevel"}, {"trim_offsets", true}},
            template_of({special("<|begin_of_text|>"), text}, ids_of("<|begin_of_text|>", {id}))}}};
}

class Beginning : public ::testing::Test {
 protected:
  std::unique_ptr<data::Tokenizer> with(const json& post_processor) {
    auto j = json::parse(slurp(GOLDEN_TOKENIZERS "/llama3.json"));
    j["post_processor"] = post_processor;
    spit(folder.path + "/tokenizer.json", j.dump());
    return data::make_tokenizer(folder.path + "/tokenizer.json");
  }
  static checkpoint::RunState state(const json& provenance) {
    checkpoint::RunState s;
    s.model.vocabulary = 720;
    s.provenance = json::parse(provenance.dump());  // ids have the type that a parsed file gives
    return s;
  }
  // An imported model; `begin` is the beginning token that the import found (-1: none).
  static checkpoint::RunState imported(int begin, const json& ids = json::object()) {
    json tokens{{"end", 705}};
    if (begin >= 0) tokens["begin"] = begin;
    return state({{"imported_from", "/model"}, {"document_tokens", tokens}, {"token_ids", ids}});
  }
  static checkpoint::RunState trained(int begin) {
    json tokens{{"end", 705}};
    if (begin >= 0) tokens["begin"] = begin;
    return state({{"data", "shards"}, {"document_tokens", tokens}});
  }
  testing::Scratch folder;
};

bool has(const std::string& words, const std::string& part) { return words.find(part) != std::string::npos; }

TEST_F(Beginning, TheFilesOwnWord) {
  EXPECT_EQ(with(nullptr)->before_text(), Ids());
  EXPECT_EQ(with(llama())->before_text(), Ids{704});
  const auto tokens = [&] {
    auto all = ids_of("<|a|>", {706});
    all.update(ids_of("two", {3, 4}));
    all.update(ids_of("broken", {}));
    all["wrong"] = 5;
    return all;
  }();
  EXPECT_EQ(with(template_of({special("two"), special("<|a|>"), text}, tokens))->before_text(), (Ids{3, 4, 706}));
  EXPECT_EQ(with(template_of({text, special("<|a|>")}, tokens))->before_text(), Ids()) << "behind the text";
  EXPECT_EQ(with(template_of({special("<|a|>"), special("unknown"), text}, tokens))->before_text(), Ids{706});
  EXPECT_EQ(with(template_of({special("wrong"), text}, tokens))->before_text(), Ids());
  EXPECT_EQ(with(template_of({special("broken"), text}, tokens))->before_text(), Ids());
  EXPECT_EQ(with(template_of("text", tokens))->before_text(), Ids());
  EXPECT_EQ(with({{"type", "ByteLevel"}, {"trim_offsets", false}})->before_text(), Ids());
  EXPECT_EQ(with({{"type", "RobertaProcessing"}, {"sep", {"</s>", 2}}, {"cls", {"<s>", 9}}})->before_text(), Ids{9});
  EXPECT_EQ(with({{"type", "RobertaProcessing"}, {"cls", {"<s>", -9}}})->before_text(), Ids());
  const json two{
      {"type", "Sequence"},
      {"processors",
       {template_of({special("<|a|>"), text}, tokens), template_of({special("two"), text}, tokens), "no step"}}};
  EXPECT_EQ(with(two)->before_text(), (Ids{3, 4, 706})) << "the last is outermost";
}

TEST_F(Beginning, NamesOfTokens) {
  const auto tokenizer = with(nullptr);
  EXPECT_EQ(tokenizer->name_of_token(704), "<|begin_of_text|>");
  EXPECT_EQ(tokenizer->token_named("<|begin_of_text|>"), 704);
  EXPECT_EQ(tokenizer->name_of_token(tokenizer->token_named("a")), "a");
  EXPECT_EQ(tokenizer->token_named("<|nothing|>"), -1);
  EXPECT_EQ(tokenizer->token_named(""), -1);
  for (const std::int32_t id : {-1, 1 << 30}) EXPECT_EQ(tokenizer->name_of_token(id), "") << id;
}

TEST_F(Beginning, WhatTheSettingsBesideSay) {
  const auto beside = [&](const std::string& config) {
    spit(folder.path + "/tokenizer_config.json", config);
    return data::begin_beside(folder.path + "/tokenizer.json");
  };
  EXPECT_FALSE(data::begin_beside("bytes").added);
  EXPECT_FALSE(data::begin_beside(folder.path + "/tokenizer.json").added) << "there is none";
  EXPECT_FALSE(beside("[]").added);
  EXPECT_FALSE(beside(R"({"add_bos_token": null, "bos_token": 5})").added);
  EXPECT_EQ(beside(R"({"add_bos_token": true, "bos_token": "<s>"})").token, "<s>");
  EXPECT_EQ(beside(R"({"add_bos_token": true, "bos_token": {"content": "<s>"}})").token, "<s>");
  EXPECT_EQ(beside(R"({"add_bos_token": false})").added, std::optional(false));
  EXPECT_THROW(beside("{"), base::InputError);
}

TEST_F(Beginning, OfAModelThatWasTrainedHere) {
  const auto plain = with(nullptr);
  const auto end = generate::beginning_of(trained(-1), *plain, {});
  EXPECT_EQ(end.tokens, Ids{705});
  EXPECT_EQ(end.alone, Ids{705});
  EXPECT_TRUE(has(end.reported, "<|end_of_text|> (token 705) is put before the text, as between the documents"))
      << end.reported;
  EXPECT_TRUE(has(end.reported, "--no-bos leaves it out")) << end.reported;
  const auto bytes = data::make_tokenizer("bytes");
  EXPECT_TRUE(has(generate::beginning_of(state({{"data", "shards"}}), *bytes, {}).reported,
                  "end of document (token 256) is put before the text"));
  const auto begin = generate::beginning_of(trained(704), *plain, {});
  EXPECT_EQ(begin.tokens, Ids{704});
  EXPECT_EQ(begin.alone, Ids{704});
  EXPECT_TRUE(has(begin.reported, "<|begin_of_text|> (token 704) is put before the text")) << begin.reported;
  EXPECT_TRUE(has(begin.reported, "training data")) << begin.reported;
  EXPECT_EQ(generate::beginning_of(state({{"tokenizer", "bytes"}}), *plain, {}).tokens, Ids{705}) << "older ones";
  // The shards decide, whatever the tokenizer puts before other texts, and generate reports that.
  const auto other = generate::beginning_of(trained(-1), *with(llama()), {true, "<|a|>"});
  EXPECT_EQ(other.tokens, Ids{705});
  EXPECT_TRUE(has(other.reported, "<|end_of_text|> (token 705) is put before the text")) << other.reported;
  EXPECT_TRUE(has(other.reported, "do not begin with <|begin_of_text|> (token 704)")) << other.reported;
}

// Under the document mask no document saw the end of another one. Its own begin token it saw.
TEST_F(Beginning, OfAModelWhoseDocumentsSawThemselvesAlone) {
  const auto plain = with(nullptr);
  for (const auto* mask : {"on", "off"}) {
    auto ended = trained(-1), begun = trained(704);
    ended.identity["document_mask"] = begun.identity["document_mask"] = mask;
    const auto end = generate::beginning_of(ended, *plain, {});
    EXPECT_EQ(end.tokens, mask == std::string("on") ? Ids() : Ids{705});
    EXPECT_EQ(end.reported.empty(), mask == std::string("on"));
    EXPECT_EQ(end.alone, Ids{705}) << "a text needs a token to begin with";
    EXPECT_EQ(generate::beginning_of(begun, *plain, {}).tokens, Ids{704});
  }
}

// A run that began with imported weights, and whose shards have no begin token.
TEST_F(Beginning, OfAModelThatWasTrainedOn) {
  const auto plain = with(nullptr), templated = with(llama());
  const auto of = [](const json& record, const data::Tokenizer& tokenizer) {
    return generate::beginning_of(state({{"data", "shards"},
                                         {"document_tokens", {{"end", 705}}},
                                         {"weights_from", "imported, step 0"},
                                         {"tokenizer", {{"name", "tokenizer.json"}, {"crc32c", 7}}},
                                         {"hugging_face", record}}),
                                  tokenizer, {});
  };
  const json files = json::array({{{"name", "tokenizer.json"}, {"bytes", 1}, {"crc32c", 7}}});
  json record{{"config", R"({"bos_token_id": 704})"}, {"files", files}, {"texts_begin_with_a_token", false}};
  const auto none = of(record, *plain);
  EXPECT_EQ(none.tokens, Ids()) << "as before the prompts of the imported model";
  EXPECT_EQ(none.alone, Ids{704});
  EXPECT_EQ(none.reported, "");
  record["texts_begin_with_a_token"] = true;
  EXPECT_EQ(of(record, *plain).tokens, Ids{705});
  EXPECT_EQ(of(record, *data::make_tokenizer("bytes")).tokens, Ids{256});
  // Older imports recorded no word about it.
  record.erase("texts_begin_with_a_token");
  EXPECT_EQ(of(record, *plain).tokens, Ids{705}) << "there is a bos_token_id";
  record["config"] = "{}";
  EXPECT_EQ(of(record, *plain).tokens, Ids());
  EXPECT_EQ(of(record, *templated).tokens, Ids{705});
  record["config"] = "damaged";
  EXPECT_EQ(of(record, *plain).tokens, Ids());
}

TEST_F(Beginning, OfAnImportedModel) {
  const auto of = [](const checkpoint::RunState& state, const data::Tokenizer& tokenizer,
                     const data::BeginBeside& beside = {}) { return generate::beginning_of(state, tokenizer, beside); };
  const auto plain = with(nullptr), templated = with(llama());
  // Nothing gives a beginning token, so nothing is put before a prompt. An empty prompt begins as config.json says.
  auto nothing = of(imported(-1), *plain);
  EXPECT_EQ(nothing.tokens, Ids());
  EXPECT_EQ(nothing.alone, Ids{705});
  EXPECT_EQ(nothing.reported, "");
  EXPECT_EQ(of(imported(-1, {{"bos_token_id", 704}}), *plain).alone, Ids{704});
  EXPECT_EQ(of(imported(-1, {{"bos_token_id", {706, 704}}}), *plain).alone, Ids{706});
  EXPECT_EQ(of(imported(-1, {{"bos_token_id", 720}}), *plain).alone, Ids{705}) << "the model has no row for it";
  EXPECT_EQ(of(imported(-1, {{"bos_token_id", "x"}}), *plain).alone, Ids{705});
  // The import knows a beginning token; the tokenizer's file says which.
  EXPECT_EQ(of(imported(704), *plain).tokens, Ids{704});
  EXPECT_EQ(of(imported(706), *templated).tokens, Ids{704});
  EXPECT_EQ(of(imported(704), *plain, {false, ""}).tokens, Ids{704});
  // Here the tokenizer was added after the import.
  const auto begin = of(imported(-1), *templated);
  EXPECT_EQ(begin.tokens, Ids{704});
  EXPECT_EQ(begin.alone, Ids{704});
  EXPECT_TRUE(has(begin.reported, "<|begin_of_text|> (token 704) is put before the text, as the post_processor of"))
      << begin.reported;
  EXPECT_TRUE(has(begin.reported, "--no-bos leaves it out")) << begin.reported;
  // As transformers 5.24: where the post_processor puts a token, add_bos_token does not count.
  for (const int recorded : {-1, 706}) {
    const auto denied = of(imported(recorded), *templated, {false, "<|a|>"});
    EXPECT_EQ(denied.tokens, Ids{704}) << recorded;
    EXPECT_TRUE(has(denied.reported, "json says, and not add_bos_token. --no-bos")) << denied.reported;
  }
  EXPECT_EQ(of(imported(-1), *plain, {false, "<|a|>"}).tokens, Ids()) << "add_bos_token: false";
  EXPECT_EQ(of(imported(-1), *plain, {true, "<|a|>"}).tokens, Ids{706});
  EXPECT_EQ(of(imported(-1), *plain, {{}, "<|a|>"}).tokens, Ids()) << "bos_token alone does not say that it is fed";
  const auto bytes = data::make_tokenizer("bytes");  // the model was exported by this library
  EXPECT_EQ(of(imported(-1), *bytes).tokens, Ids{256});
  EXPECT_EQ(of(imported(5), *bytes).tokens, Ids{5});
  EXPECT_THROW(of(imported(-1), *plain, {true, "<|nothing|>"}), base::InputError);
  EXPECT_THROW(of(imported(-1), *with(llama(720))), base::InputError) << "the model has no row for it";
}

}  // namespace
}  // namespace trainyard::test
