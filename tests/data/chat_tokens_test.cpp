// The tokens of conversations compared with those that the packages `tokenizers` and `sentencepiece` make of the whole
// text (tests/golden/tokenizers/chats.json, made by tests/golden/chat_tokens.py).
#include "tests/scratch.h"

#include "libtrain/data/encoded_chat.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

using nlohmann::json;
using trainyard::testing::Scratch;
using trainyard::testing::slurp;
using trainyard::testing::spit;

namespace chat_tokens_test {

using namespace trainyard;
using Ids = std::vector<std::int32_t>;

std::string from_base64(const std::string& text) {
  const std::string alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  std::uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<std::uint32_t>(alphabet.find(c));
    if ((held += 6) >= 8) out += static_cast<char>(bits >> (held -= 8) & 0xFF);
  }
  return out;
}

class ChatTokens : public ::testing::Test {
 protected:
  const data::Tokenizer& tokenizer(const std::string& name, bool special_as_text = false) {
    auto& one = made_[{name, special_as_text}];
    if (one) return *one;
    std::string model;
    if (golden["models"].contains(name)) {
      model = from_base64(golden["models"][name]);
    } else {
      auto j = json::parse(slurp(GOLDEN_TOKENIZERS "/" + name));
      for (const auto& token : golden["added"][name]) j["added_tokens"].push_back(token);
      model = j.dump();
    }
    spit(scratch.path + "/model", model);
    one = data::make_tokenizer(scratch.path + "/model", {{}, {}, special_as_text});
    return *one;
  }
  const data::ChatTemplate& chat(const std::string& name) {
    auto& one = chats_[name];
    if (!one.roles.empty()) return one;
    const auto& from = golden["templates"][name];
    one.tokens = from["tokens"];
    for (const auto& [role, parts] : from["roles"].items())
      one.roles.push_back({role, parts["prefix"], parts["suffix"], parts["answer"]});
    return one;
  }
  struct Encoded {
    Ids tokens;
    std::vector<data::AnswerSpan> answers;
  };
  Encoded encoded(const json& row, bool special_as_text = false) {
    const auto& with = chat(row["template"]);
    std::vector<data::ChatMessage> messages;
    for (const auto& m : golden["conversations"][row["conversation"].get<std::size_t>()])
      messages.push_back({with.role(m[0].get<std::string>()), m[1].get_ref<const std::string&>()});
    Encoded out;
    data::EncodedChat(with, tokenizer(row["tokenizer"], special_as_text)).encode(messages, out.tokens, out.answers);
    EXPECT_EQ(out.tokens.back(), tokenizer(row["tokenizer"]).end_of_document());
    out.tokens.pop_back();
    return out;
  }
  static std::string name_of(const json& row) {
    return row["tokenizer"].get<std::string>() + ", " + row["template"].get<std::string>() + ", conversation " +
           row["conversation"].dump();
  }

  Scratch scratch;
  json golden = json::parse(slurp(GOLDEN_TOKENIZERS "/chats.json"));

 private:
  std::map<std::pair<std::string, bool>, std::unique_ptr<data::Tokenizer>> made_;
  std::map<std::string, data::ChatTemplate> chats_;
};

// Where no token of the reference lies across the border of an answer, the tokens are its own; elsewhere the text is.
TEST_F(ChatTokens, AreThoseOfTheWholeText) {
  int whole = 0, text = 0;
  for (const auto& row : golden["rows"]) {
    const auto found = encoded(row);
    if (!row["ids"].is_null()) {
      EXPECT_EQ(found.tokens, row["ids"].get<Ids>()) << name_of(row);
      ++whole;
    } else if (const auto end = tokenizer(row["tokenizer"]).end_of_document();
               std::count(found.tokens.begin(), found.tokens.end(), end) == 0) {  // it decodes to nothing here
      EXPECT_EQ(tokenizer(row["tokenizer"]).decode(found.tokens), row["text"]) << name_of(row);
      ++text;
    }
  }
  EXPECT_GT(whole, 400);
  EXPECT_GT(text, 50);
}

// What `generate` makes of the text before an answer is what the answer was learned behind.
TEST_F(ChatTokens, BeginAsAPromptDoes) {
  for (const auto& row : golden["rows"]) {
    const auto found = encoded(row);
    const auto prompts = row["prompts"].get<std::vector<Ids>>();
    ASSERT_FALSE(found.answers.empty());
    const Ids before(found.tokens.begin(), found.tokens.begin() + found.answers[0].begin);
    // A first answer of white space may have no tokens.
    const auto is_second = before != prompts[0] && row["conversation"] == 3;
    EXPECT_EQ(before, prompts[is_second ? 1 : 0]) << name_of(row);
  }
}

// So is a later answer, where no token lies across a border of an earlier one.
TEST_F(ChatTokens, GoOnAsAPromptDoes) {
  int later = 0;
  for (const auto& row : golden["rows"]) {
    const auto found = encoded(row);
    const auto prompts = row["prompts"].get<std::vector<Ids>>();
    if (row["ids"].is_null() || found.answers.size() != prompts.size()) continue;
    for (std::size_t k = 1; k < prompts.size(); ++k, ++later) {
      const Ids before(found.tokens.begin(), found.tokens.begin() + found.answers[k].begin);
      EXPECT_EQ(before, prompts[k]) << name_of(row) << ", answer " << k;
    }
  }
  EXPECT_GT(later, 300);
}

// A template's tokens are tokens where the text of users has none, with the white space that belongs to them.
TEST_F(ChatTokens, OfATemplateWhereSpecialTokensAreText) {
  int same = 0;
  for (const auto& row : golden["rows"]) {
    // SentencePiece has no such choice, and two signs of this template are tokens of Mistral's that it does not name.
    const bool names_all = row["tokenizer"] != "kinds/mistral.json" || row["template"] != "inst";
    if (golden["models"].contains(row["tokenizer"]) || !names_all) continue;
    const auto found = encoded(row, true);
    const bool has_signs = row["conversation"] == 5;
    if (row["ids"].is_null() || row["conversation"] == 6) continue;  // only some have its sign
    EXPECT_EQ(found.tokens == row["ids"].get<Ids>(), !has_signs) << name_of(row);
    same += has_signs ? 0 : 1;
  }
  EXPECT_GT(same, 250);
}

// A long text is given to SentencePiece in parts, which the tokens do not show.
TEST_F(ChatTokens, OfALongTextAreThoseOfOneText) {
  std::string words, letters;
  for (int i = 0; i < 40000; ++i) words += "ab " + std::to_string(i) + (i % 50 == 0 ? "  \n" : " "), letters += "abc";
  for (const auto* name : {"unigram", "bpe", "no_prefix"})
    for (const auto& text : {words, letters}) {
      Ids ids;
      tokenizer(name).encode(text, ids);
      EXPECT_TRUE(tokenizer(name).decode(ids) == text) << name << ": " << text.substr(0, 9);
    }
}

}  // namespace chat_tokens_test
