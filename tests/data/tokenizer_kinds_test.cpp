// Tests each kind of tokenizer.json: ids and texts of the `tokenizers` package (tests/golden/tokenizers/kinds, made by
// tests/golden/tokenizer_kinds.py), words and masks, and what files may contain.
#include "tests/scratch.h"

#include "libtrain/base/error.h"
#include "libtrain/data/json_tokenizer/scores.h"
#include "libtrain/data/tokenizer.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <thread>

using namespace trainyard;
using nlohmann::json;
using trainyard::testing::Scratch;
using trainyard::testing::slurp;
using trainyard::testing::spit;
using Ids = std::vector<std::int32_t>;

namespace {

std::string kind_file(const std::string& name) { return GOLDEN_TOKENIZERS "/kinds/" + name + ".json"; }

const json& golden_rows() {
  static const auto rows = json::parse(slurp(kind_file("ids")));
  return rows;
}

Ids ids_of(const data::Tokenizer& tokenizer, const std::string& text) {
  Ids ids;
  tokenizer.encode(text, ids);
  return ids;
}

class KindFiles : public ::testing::Test {
 protected:
  std::unique_ptr<data::Tokenizer> with(const std::string& name, const std::function<void(json&)>& change) {
    auto j = json::parse(slurp(kind_file(name)));
    change(j);
    spit(scratch.path + "/tokenizer.json", j.dump());
    return data::make_tokenizer(scratch.path + "/tokenizer.json");
  }
  void refused(const std::string& says, const std::string& name, const std::function<void(json&)>& change) {
    try {
      with(name, change);
      ADD_FAILURE() << "accepted, though " << says;
    } catch (const base::InputError& e) {
      EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("tokenizer.json"), std::string::npos) << e.what();
    }
  }
  Scratch scratch;
};

}  // namespace

TEST(TokenizerKinds, IdsAndTextsAreThoseOfTheReference) {
  std::map<std::string, std::unique_ptr<data::Tokenizer>> tokenizers;
  for (const auto& [name, ids] : golden_rows()[0]["ids"].items())
    tokenizers[name] = data::make_tokenizer(kind_file(name));
  EXPECT_EQ(tokenizers.size(), 21u);
  std::map<std::string, int> decoded;
  for (int round = 0; round < 2; ++round)  // the second round finds its pieces in the cache
    for (const auto& row : golden_rows())
      for (const auto& [name, tokenizer] : tokenizers) {
        const auto expected = row["ids"][name].get<Ids>();
        ASSERT_EQ(ids_of(*tokenizer, row["text"]), expected) << name << ": " << row["text"];
        const bool has_end = std::count(expected.begin(), expected.end(), tokenizer->end_of_document()) > 0;
        const auto text = row["decoded"].contains(name) ? row["decoded"][name] : row["text"];
        if (text.is_null() || has_end) continue;
        ASSERT_EQ(tokenizer->decode(expected), text) << name << ": " << row["text"];
        ++decoded[name];
      }
  for (const auto& [name, count] : decoded) EXPECT_GT(count, 100) << name;
}

// Words that a text begins or continues, and the token that hides one.
TEST(TokenizerKinds, SayTheirKindMaskAndWords) {
  struct Expected {
    const char *name, *kind, *end, *mask;
  };
  for (const auto& e :
       {Expected{"llama2", "BPE", "</s>", ""}, Expected{"gemma", "BPE", "<eos>", "<mask>"},
        Expected{"roberta", "byte-level BPE", "</s>", "<mask>"}, Expected{"bert_cased", "WordPiece", "[SEP]", "[MASK]"},
        Expected{"t5", "Unigram", "</s>", ""}, Expected{"albert", "Unigram", "[SEP]", "[MASK]"}}) {
    const auto tokenizer = data::make_tokenizer(kind_file(e.name));
    EXPECT_EQ(tokenizer->kind(), e.kind);
    EXPECT_EQ(tokenizer->name_of_token(tokenizer->end_of_document()), e.end) << e.name;
    EXPECT_FALSE(tokenizer->made_its_end());
    EXPECT_EQ(tokenizer->name_of_token(tokenizer->mask()), e.mask) << e.name;
    EXPECT_EQ(tokenizer->mask() < 0, std::string(e.mask).empty());
    // A long made-up word begins once, however many tokens it has.
    const auto word = ids_of(*tokenizer, " xylotrainyardishness");
    EXPECT_GT(word.size(), 3u);
    const auto begins = [&](std::int32_t t) { return tokenizer->begins_word(t); };
    EXPECT_EQ(std::count_if(word.begin(), word.end(), begins), 1) << e.name;
    EXPECT_TRUE(begins(word[0]) && begins(tokenizer->end_of_document())) << e.name;
    const auto several = ids_of(*tokenizer, "the train and the yard");
    EXPECT_EQ(std::count_if(several.begin() + 1, several.end(), begins), 4) << e.name;
  }
  EXPECT_EQ(data::make_tokenizer(kind_file("bert_cased"))->unknown(), 1);
  EXPECT_EQ(data::make_tokenizer(kind_file("roberta"))->unknown(), -1);
}

// The bytes of each token are what the text grows by.
TEST(TokenizerKinds, TokensHaveTheBytesOfTheirText) {
  for (const char* name : {"llama2", "mistral", "gemma", "bert_cased", "t5", "unigram_bytes", "unigram_byte_level"}) {
    const auto tokenizer = data::make_tokenizer(kind_file(name));
    const auto ids = ids_of(*tokenizer, "the train, leaves the yard at noon");
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      using Place = data::Tokenizer::Place;
      bytes += tokenizer->text_bytes(ids[i], i == 0 ? Place::start : Place::inside);
      EXPECT_EQ(bytes, std::ssize(tokenizer->decode({ids.data(), i + 1}))) << name << " token " << i;
    }
    EXPECT_GT(bytes, 30) << name;
    EXPECT_EQ(tokenizer->text_bytes(tokenizer->end_of_document(), data::Tokenizer::Place::inside), 0) << name;
  }
}

// Bytes of a character come one by one, and are whole at its end.
TEST(TokenizerKinds, BytesOfCharactersDecodeToCharacters) {
  for (const char* name : {"llama2", "gemma", "unigram_bytes"}) {
    const auto tokenizer = data::make_tokenizer(kind_file(name));
    const std::string text = "a\u9f98\U0001f682b";
    const auto ids = ids_of(*tokenizer, text);
    EXPECT_GE(ids.size(), 9u) << name;
    EXPECT_EQ(tokenizer->decode(ids), text) << name;
    for (std::size_t n = 1; n < ids.size(); ++n)
      EXPECT_TRUE(text.starts_with(tokenizer->decode({ids.data(), n}))) << name << " " << n;
  }
}

TEST(TokenizerKinds, SeveralThreadsAtOnce) {
  const auto albert = data::make_tokenizer(kind_file("albert")), bert = data::make_tokenizer(kind_file("bert_uncased")),
             behaviors = data::make_tokenizer(kind_file("behaviors"));
  std::vector<int> wrong(3);
  {
    std::vector<std::jthread> team;
    for (std::size_t t = 0; t < wrong.size(); ++t)
      team.emplace_back([&, t] {
        for (const auto& row : golden_rows()) {
          wrong[t] += ids_of(*albert, row["text"]) != row["ids"]["albert"].get<Ids>();
          wrong[t] += ids_of(*bert, row["text"]) != row["ids"]["bert_uncased"].get<Ids>();
          wrong[t] += ids_of(*behaviors, row["text"]) != row["ids"]["behaviors"].get<Ids>();
        }
      });
  }
  EXPECT_EQ(wrong, std::vector<int>(3));
}

// A text of a hundred thousand characters in one piece, and words that never end.
TEST(TokenizerKinds, LongTexts) {
  for (const char* name : {"llama2", "mistral", "gemma", "bert_cased", "t5", "xlmr", "albert", "unigram_bytes"}) {
    const auto tokenizer = data::make_tokenizer(kind_file(name));
    for (const std::string unit : {"a", "ab ", "\u4e2d", " ", "\n", "\u0301"}) {
      std::string text;
      while (text.size() < 300'000) text += unit;
      EXPECT_NO_THROW(ids_of(*tokenizer, text)) << name;
    }
  }
}

// serde_json, which the package reads numbers with, divides all digits by a power of ten.
TEST(TokenizerKinds, ScoresAreReadAsTheReferenceReadsThem) {
  using data::json_tokenizer::score_of;
  EXPECT_EQ(score_of("-9.458559036254883"), -(9458559036254883.0 / 1e15));
  EXPECT_EQ(score_of("0.1"), 0.1);
  EXPECT_EQ(score_of("-12"), -12.0);
  EXPECT_EQ(score_of("1.5e3"), 1500.0);
  EXPECT_EQ(score_of("25E-1"), 2.5);
  EXPECT_EQ(score_of("123456789012345678901234567890"), 12345678901234567890.0 * 1e10);
  EXPECT_EQ(score_of("0.000"), 0.0);
  EXPECT_EQ(score_of("1e-400"), 0.0);
  EXPECT_EQ(score_of("-0.1234567890123456789012"), -(12345678901234567890.0 / 1e20));
}

TEST_F(KindFiles, EndsAndBeginningsAreNamed) {
  const auto path = kind_file("llama2");
  const auto named = data::make_tokenizer(path, {"</s>", "<s>", false});
  EXPECT_EQ(named->end_of_document(), 2);
  EXPECT_EQ(named->begin_of_document(), 1);
  EXPECT_EQ(named->before_text(), Ids{1});
  EXPECT_EQ(named->decode(Ids{1, 2}), "");
  EXPECT_EQ(data::make_tokenizer(kind_file("bert_cased"))->before_text(), Ids{2});
  // Special tokens in text are text where that is asked for.
  const auto as_text = data::make_tokenizer(path, {"", "", true});
  const auto ids = ids_of(*as_text, "a</s>");
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 2), 0);
  const auto read = ids_of(*named, "a</s>");
  EXPECT_EQ(std::count(read.begin(), read.end(), 2), 1);
  // A tag of HTML that the vocabulary has is no end where a special token is one.
  const auto tag = with("gemma", [](json& j) { j["model"]["vocab"]["</s>"] = 5000; });
  EXPECT_EQ(tag->name_of_token(tag->end_of_document()), "<eos>");
  // A file without such a token gets a new one.
  const auto none = data::make_tokenizer(kind_file("no_bytes"));
  EXPECT_TRUE(none->made_its_end());
  EXPECT_EQ(none->end_of_document(), none->vocabulary() - 1);
}

TEST_F(KindFiles, RefusedByName) {
  const auto model = [](const char* key, const json& value) { return [=](json& j) { j["model"][key] = value; }; };
  const auto root = [](const char* key, const json& value) { return [=](json& j) { j[key] = value; }; };
  refused("the vocabulary lacks the unknown token \"<none>\"", "llama2", model("unk_token", "<none>"));
  refused("continuing_subword_prefix is", "llama2", model("continuing_subword_prefix", "##"));
  refused("which the vocabulary lacks", "llama2", [](json& j) { j["model"]["merges"].push_back("\u9f98 a"); });
  refused("the vocabulary lacks the unknown token \"[UNK]\"", "bert_cased",
          [](json& j) { j["model"]["vocab"].erase("[UNK]"); });
  refused("'max_input_chars_per_word'", "bert_cased", model("max_input_chars_per_word", "many"));
  refused("entry 3 of the vocabulary is", "t5", [](json& j) { j["model"]["vocab"][3] = "a"; });
  refused("entry 3 of the vocabulary is", "t5", [](json& j) { j["model"]["vocab"][3] = {"a", "b"}; });
  refused("is there twice", "t5", [](json& j) { j["model"]["vocab"].push_back(j["model"]["vocab"][5]); });
  refused("a token without text", "t5", [](json& j) { j["model"]["vocab"][5][0] = ""; });
  refused("a vocabulary without tokens", "t5", [](json& j) {
    j["model"]["vocab"] = json::array();
    j["added_tokens"] = json::array();
  });
  refused("'unk_id'", "t5", model("unk_id", 100'000));
  refused("'vocab' must be a list", "t5", model("vocab", json::object()));
  refused("is no object", "bert_cased", model("vocab", json::array()));
  refused("precompiled_charsmap is not written in base64", "t5",
          [](json& j) { j["normalizer"]["precompiled_charsmap"] = "!!!!"; });
  refused("precompiled_charsmap is too short", "t5", [](json& j) { j["normalizer"]["precompiled_charsmap"] = "AA=="; });
  refused("precompiled_charsmap has no whole double array", "t5",
          [](json& j) { j["normalizer"]["precompiled_charsmap"] = "/////w=="; });
  refused("unknown key 'what'", "t5", [](json& j) { j["normalizer"]["what"] = 1; });
  refused("unknown key 'what'", "bert_cased", [](json& j) { j["pre_tokenizer"]["what"] = 1; });
  refused("unknown key 'what'", "bert_cased", [](json& j) { j["decoder"]["what"] = 1; });
  refused("the prepend_scheme \"last\" is not known", "mistral",
          [](json& j) { j["pre_tokenizer"]["prepend_scheme"] = "last"; });
  refused("add_prefix_space is false, prepend_scheme is first", "mistral",
          [](json& j) { j["pre_tokenizer"]["add_prefix_space"] = false; });
  refused("the decoder \"CTC\" is not supported", "llama2", root("decoder", {{"type", "CTC"}}));
  refused("at most 16", "bert_cased", [](json& j) {
    json steps = json::array();
    for (int i = 0; i < 17; ++i) steps.push_back({{"type", "WhitespaceSplit"}});
    j["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", steps}};
  });
  refused("more than 32 normalizers", "bert_cased", [](json& j) {
    json steps = json::array();
    for (int i = 0; i < 33; ++i) steps.push_back({{"type", "NFC"}});
    j["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
  });
  for (const char* key : {"normalizer", "pre_tokenizer", "decoder"})
    refused("sequences in sequences", "bert_cased", [&](json& j) {
      const char* list = key[0] == 'n' ? "normalizers" : key[0] == 'p' ? "pretokenizers" : "decoders";
      for (int i = 0; i < 8; ++i) j[key] = {{"type", "Sequence"}, {list, json::array({j[key]})}};
    });
  refused("prepend_scheme first, behind another pretokenizer", "t5", [](json& j) {
    const json first = {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "first"}, {"split", true}};
    const json space = {{"type", "WhitespaceSplit"}};
    j["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", json::array({space, first})}};
  });
  refused("nothing of the added token", "bert_cased", [](json& j) {
    j["added_tokens"].push_back({{"id", 5000}, {"content", "\u00ad"}, {"normalized", true}, {"special", false}});
  });
  refused("which the vocabulary lacks", "roberta", [](json& j) {
    j["model"]["merges"].push_back({"\u0120", "\u4e2d"});
  });
  // Rules that make a text long, and those that are no text.
  const auto grows = with("bert_cased", [](json& j) {
    json steps = json::array();
    for (int i = 0; i < 8; ++i)
      steps.push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(256, 'a')}});
    j["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
  });
  EXPECT_THROW(ids_of(*grows, std::string(1000, 'a')), base::InputError);
  EXPECT_NO_THROW(ids_of(*grows, "bcd"));
  refused("has texts that are no UTF-8", "t5",
          [](json& j) { j["normalizer"]["precompiled_charsmap"] = "BAAAAAAAAAD/AA=="; });
  // Text without a token, where there is no unknown one.
  const auto none = with("t5", model("unk_id", nullptr));
  EXPECT_THROW(ids_of(*none, "\u9f98"), base::InputError);
  EXPECT_NO_THROW(ids_of(*none, "the"));
}
