// Scores of tokens: equal to what a text model says that reads one token at a time, whatever else is in the batch;
// questions, their rules and refusals.
#include "tests/generate/saved_run.h"
#include "tools/generate/questions.h"
#include "tools/generate/sampler.h"
#include "tools/generate/scorer.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace trainyard::test {
namespace score_test {

using generate::Question, generate::ToScore, generate::WeightsAre;

plan::ModelConfig with_experts() {
  auto m = tiny_llama();
  m.experts.count = {4}, m.experts.top_k = 2, m.experts.capacity_factor = "0.5";
  return m;
}

plan::ModelConfig with_file_layout() {
  auto m = tiny();
  m.attention.layout = {"file"}, m.attention.block = 16, m.attention.file_blocks = "0";
  return m;
}

TEST(Score, IsWhatTheTextModelSaysTokenByToken) {
  for (const auto& config : {tiny(), tiny_llama(), with_experts(), with_file_layout()}) {
    SavedRun saved(config);
    checkpoint::Reader reader(generate::find_checkpoint(saved.folder.string()));
    generate::LanguageModel model(reader, 1);
    std::vector<ToScore> texts;
    for (std::int32_t t = 0; t < 7; ++t) {
      ToScore text;
      for (std::int32_t i = 0; i < 2 + 2 * t; ++i) text.tokens.push_back((t * 37 + i * i * 11) % 257);
      text.first = static_cast<std::size_t>(1 + t / 2);
      texts.push_back(text);
    }
    // The likeliest tokens of all, so that some are counted.
    ToScore greedy{{256}, 1};
    while (greedy.tokens.size() < 6) {
      const auto logits = model.begin(greedy.tokens);
      greedy.tokens.push_back(
          static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    }
    texts.push_back(greedy);
    generate::Scorer scorer(reader, 2, 3);
    const auto scores = scorer.score(texts);
    EXPECT_EQ(scores.back().likeliest, 5);
    for (std::size_t n = 0; n < texts.size(); ++n) {
      const auto& tokens = texts[n].tokens;
      ASSERT_EQ(scores[n].log_probabilities.size(), tokens.size() - texts[n].first);
      double sum = 0;
      for (std::size_t i = 1; i < tokens.size(); ++i) {
        const auto logits = i == 1 ? model.begin({tokens.data(), 1}) : model.append(tokens[i - 1]);
        if (i < texts[n].first) continue;
        const auto expected = generate::log_probability(logits, tokens[i]);
        EXPECT_NEAR(scores[n].log_probabilities[i - texts[n].first], expected, 1e-5 * (1 - expected)) << n << ": " << i;
        sum += expected;
      }
      EXPECT_NEAR(scores[n].sum(), sum, 1e-5 * (1 - sum));
    }
    // The same bits alone, in larger batches, with other threads, and with streamed weights.
    for (const auto batch : {1, 8}) {
      generate::Scorer other(reader, batch == 1 ? 1 : 3, batch, batch == 1 ? WeightsAre::streamed : WeightsAre::kept);
      const auto again = other.score(texts);
      for (std::size_t n = 0; n < texts.size(); ++n)
        EXPECT_EQ(again[n].log_probabilities, scores[n].log_probabilities) << config.name << " " << n;
    }
  }
}

const generate::Beginning with_256{{256}, {256}, ""};
Question read(const std::string& line, std::int64_t room = 16, const generate::Beginning& before = with_256) {
  return generate::question_of(line, "file, line 1", *data::make_tokenizer("bytes"), before, room);
}
std::vector<std::int32_t> scored(const ToScore& t) {
  return {t.tokens.begin() + static_cast<std::ptrdiff_t>(t.first), t.tokens.end()};
}

TEST(Question, EndingsFollowTheContext) {
  const auto q = read(R"({"context": "ab  ", "endings": ["c", "dé"], "answer": 1, "id": "x", "group": "g"})");
  EXPECT_EQ(q.id, "x");
  EXPECT_EQ(q.group, "g");
  EXPECT_EQ(q.answer, 1);
  ASSERT_EQ(q.parts.size(), 2u);
  EXPECT_EQ(q.parts[0].tokens, (std::vector<std::int32_t>{256, 'a', 'b', ' ', ' ', 'c'}));
  EXPECT_EQ(scored(q.parts[0]), (std::vector<std::int32_t>{' ', ' ', 'c'}));  // spaces belong to the ending
  EXPECT_EQ(q.characters, (std::vector<std::int64_t>{1, 2}));
  // A context that does not fit loses its beginning; the last token is predicted and not read.
  const auto cut = read(R"({"context": "abcdef", "endings": ["gh"]})", 4);
  EXPECT_EQ(cut.parts[0].tokens, (std::vector<std::int32_t>{'d', 'e', 'f', 'g', 'h'}));
  EXPECT_EQ(cut.parts[0].first, 3u);
  EXPECT_EQ(cut.cut, 4) << "three letters, and what was put before them";
  EXPECT_EQ(read(R"({"context": "abcdef", "endings": ["g", "gh"]})", 7).cut, 1) << "of the ending that leaves least";
  EXPECT_EQ(q.cut, 0);
  const auto ids = read(R"({"context_ids": [1, 2], "endings_ids": [[3], [4, 5]]})");
  EXPECT_EQ(ids.parts[1].tokens, (std::vector<std::int32_t>{1, 2, 4, 5})) << "nothing is put before ids";
  EXPECT_FALSE(ids.put);
  const auto alone = read(R"({"endings_ids": [[3], [4, 5]]})");
  EXPECT_EQ(alone.parts[1].tokens, (std::vector<std::int32_t>{256, 4, 5})) << "the model needs a token to begin with";
  EXPECT_TRUE(alone.put);
  EXPECT_EQ(ids.characters, (std::vector<std::int64_t>{0, 0}));
  EXPECT_EQ(read(R"({"endings": ["a"]})", 4, {{}, {256}, ""}).parts[0].tokens, (std::vector<std::int32_t>{256, 'a'}));
}

// Expected: str.isspace() of Python 3.11.
TEST(Question, SpacesAtTheEndOfAContextAreThoseOfPython) {
  for (const char* space :
       {" ", "\t", "\u000b", "\u000c", "\u001c", "\u001d", "\u001e", "\u001f", "\u0085", "\u00a0", "\u1680", "\u2000",
        "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\u3000\u001f \u00a0"}) {
    const auto line = nlohmann::json{{"context", std::string("a") + space}, {"endings", {"b"}}}.dump();
    EXPECT_EQ(read(line).parts[0].first, 2u) << line;
  }
  for (const char* none : {"\u200b", "\ufeff", "\u180e", "\u001b", "\u0001"}) {
    const auto context = std::string("a") + none;
    const auto line = nlohmann::json{{"context", context}, {"endings", {"b"}}}.dump();
    EXPECT_EQ(read(line).parts[0].first, 1 + context.size()) << line;
  }
}

// The context has its own tokens also where the whole text has another one across the border.
TEST(Question, ATokenAcrossTheBorder) {
  const std::string model = R"({"model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab":
      {"[UNK]": 0, "[SEP]": 1, "x": 2, "##a": 3, "##ab": 4, "##b": 5, "##d": 6, "##abc": 7},
      "continuing_subword_prefix": "##", "max_input_chars_per_word": 100},
      "pre_tokenizer": {"type": "BertPreTokenizer"}})";
  const auto tokenizer = data::tokenizer_of_model("tokenizer.json", model, {});
  const auto part = [&](const char* line) {
    return generate::question_of(line, "file, line 1", *tokenizer, {}, 16).parts[0];
  };
  // "xa" is x ##a, "xabd" is x ##ab ##d; of these, ##d is behind two.
  const auto across = part(R"({"context": "xa", "endings": ["bd"]})");
  EXPECT_EQ(across.tokens, (std::vector<std::int32_t>{2, 3, 6}));
  EXPECT_EQ(across.first, 2u);
  const auto apart = part(R"({"context": "xab", "endings": ["d"]})");
  EXPECT_EQ(apart.tokens, (std::vector<std::int32_t>{2, 4, 6}));
  // All of the ending is in the token across the border: nothing is left to score.
  EXPECT_THROW(part(R"({"context": "xab", "endings": ["c"]})"), base::InputError);
}

// A space at the beginning of an ending separates it from its context.
TEST(Question, CharactersOfAnEnding) {
  const auto q =
      read(R"({"context": "a", "endings": [" dog", "dog", "  dog", " ", " \u00e9t\u00e9", "\ndog"], "answer": 1})");
  EXPECT_EQ(q.characters, (std::vector<std::int64_t>{3, 3, 4, 1, 3, 4}));
}

// What texts begin with is there once, and is not scored. Here that is "<s>", ids 60, 115 and 62 of bytes.
TEST(Question, WhatTextsBeginWithIsThereOnce) {
  const generate::Beginning three{{60, 115, 62}, {60, 115, 62}, ""};
  const auto with = read(R"({"context": "<s>ab", "endings": ["c"]})", 16, three),
             without = read(R"({"context": "ab", "endings": ["c"]})", 16, three),
             ids = read(R"({"context_ids": [60, 115, 62, 97, 98], "endings_ids": [[99]]})", 16, three);
  for (const auto* q : {&with, &without, &ids}) {
    EXPECT_EQ(q->parts[0].tokens, (std::vector<std::int32_t>{60, 115, 62, 97, 98, 99}));
    EXPECT_EQ(scored(q->parts[0]), std::vector<std::int32_t>{99});
    EXPECT_EQ(q->put, q == &without);
  }
  const auto text = read(R"({"text": "<s>ab"})", 16, three), plain = read(R"({"text": "ab"})", 16, three),
             of_ids = read(R"({"ids": [60, 115, 62, 97, 98]})", 16, three);
  EXPECT_EQ(text.parts[0].tokens, plain.parts[0].tokens);
  EXPECT_EQ(scored(text.parts[0]), (std::vector<std::int32_t>{97, 98}));
  EXPECT_EQ(scored(plain.parts[0]), (std::vector<std::int32_t>{97, 98}));
  EXPECT_TRUE(plain.put && !text.put && !of_ids.put);
  EXPECT_EQ(scored(of_ids.parts[0]), (std::vector<std::int32_t>{115, 62, 97, 98})) << "ids are as they are";
  EXPECT_EQ(plain.bytes, 2);
  EXPECT_EQ(text.bytes, 0) << "bytes have no tokens with names";
}

// Every token is in one part, and the last part sees as much as fits.
TEST(Question, ALongTextHasParts) {
  const std::string text = "abcdefghijklmnopqrstuvwxyz";
  for (const std::int64_t room : {1, 2, 3, 5, 24, 25, 26, 27, 40})
    for (const bool begins : {true, false}) {
      const auto q = read(R"({"text": ")" + text + "\"}", room,
                          begins ? generate::Beginning{{256}, {256}, ""} : generate::Beginning());
      std::string all = begins ? "" : "a";
      for (const auto& part : q.parts) {
        EXPECT_LE(static_cast<std::int64_t>(part.tokens.size()), room + 1);
        for (const auto token : scored(part)) all += static_cast<char>(token);
      }
      EXPECT_EQ(all, text) << room;
      const auto most = std::min<std::size_t>(static_cast<std::size_t>(room) + 1, text.size() + (begins ? 1 : 0));
      EXPECT_EQ(q.parts.back().tokens.size(), most) << room;
      EXPECT_EQ(q.bytes, begins ? 26 : 0);  // the first byte is not scored without anything before it
    }
}

TEST(Question, RefusesWhatItCannotScore) {
  for (const auto& [line, words] : std::initializer_list<std::pair<const char*, const char*>>{
           {"[]", "is no object"},
           {"{\"text\": 7}", "'text' is no text"},
           {"{\"text\": \"a\", \"ids\": [1]}", "has both 'text' and 'ids'"},
           {"{\"text\": \"\"}", "the text has no token"},
           {"{\"context\": \"a\"}", "has neither or both of 'endings' and 'endings_ids'"},
           {"{\"context\": \"a\", \"endings\": []}", "'endings' is no list"},
           {"{\"context\": \"a\", \"endings\": [\"\"]}", "an ending has no tokens"},
           {"{\"context\": \"a\", \"endings\": [\"b\"], \"answer\": 1}",
            "'answer' is \"1\", and there is 1 ending, counted from 0"},
           {"{\"context\": \"a\", \"endings\": [\"b\"], \"answer\": -1}", "'answer' is \"-1\""},
           {"{\"context\": \"a\", \"endings\": [\"b\"], \"label\": 0}", "the key \"label\" is not known"},
           {"{\"context_ids\": [1], \"endings\": [\"b\"]}", "'context_ids' goes with"},
           {"{\"context_ids\": [257], \"endings_ids\": [[1]]}", "\"257\", which is no token"},
           {"{\"context_ids\": [1.5], \"endings_ids\": [[1]]}", "\"1.5\", which is no token"},
           {"{\"context\": \"a\", \"endings\": [\"0123456789abcdefg\"]}",
            "an ending has 17 tokens, the model has room for 16"},
           {"{\"context\": \"a\", \"endings\": [\"b\", \"c\"], \"answer\": 2}", "there are 2 endings, counted"},
           {"In the beginning", "file, line 1 is no JSON: \"In the beginning\""},
           {"{\"text\": \"a\"", "file, line 1"}})
    try {
      read(line);
      ADD_FAILURE() << "not refused: " << line;
    } catch (const base::InputError& e) {
      EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
      EXPECT_TRUE(std::string(e.what()).starts_with("file, line 1")) << e.what();
    }
  EXPECT_THROW(read(R"({"endings": ["a"]})", 16, {}), base::InputError);
}

}  // namespace score_test
}  // namespace trainyard::test
