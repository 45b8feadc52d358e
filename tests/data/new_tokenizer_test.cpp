// New tokenizers: the merges of the package `tokenizers`, the same bytes however the text comes, samples, special
// tokens, and what is refused.
#include "tests/data/sample.h"
#include "tests/refusal.h"

#include "libtrain/base/error.h"
#include "libtrain/data/bpe/byte_alphabet.h"
#include "libtrain/data/chat_template.h"
#include "libtrain/data/new_tokenizer.h"
#include "libtrain/data/sentencepiece_training.h"
#include "libtrain/data/text_sample.h"

#include <nlohmann/json.hpp>

#include <algorithm>

using namespace sample;

namespace new_tokenizer_test {

using nlohmann::json;
using trainyard::testing::refusal_of;

struct Text {
  Scratch scratch;
  std::string path;
  explicit Text(const std::string& text, const std::string& name = "text.txt") : path(scratch.path + "/" + name) {
    spit(path, text);
  }
  data::NewTokenizer train(const data::TokenizerPlan& plan, data::TrainingText how = {},
                           data::SourceOptions options = {}) const {
    if (how.sample == 0) how.sample = data::usual_sample(plan.kind);
    if (path.ends_with(".txt") && !options.split) options.split = data::TextSplit::lines;
    data::DocumentSource source({path}, options);
    return data::train_tokenizer(source, plan, how, [](const data::Refusal&) {}, {[](std::int64_t) {}, {}});
  }
};

std::string words_in_lines(int lines, std::uint32_t x = 1) {
  const std::vector<std::string> syllables{"the", "re", "in", "er", "a", "e", "tr", "yard", "ü", "列", "12", "."};
  std::string out;
  const auto next = [&] { return (x = x * 1664525u + 1013904223u) >> 8; };
  for (int i = 0; i < lines; ++i) {
    for (int w = 0; w < 12; ++w) {
      for (auto n = next() % 4; n-- > 0;) out += syllables[next() % syllables.size()];
      out += ' ';
    }
    out += std::to_string(i) + "\n";
  }
  return out;
}

std::string joined(const json& lines) {
  std::string out;
  for (const auto& line : lines) out += line.get<std::string>();
  return out;
}

// training.json holds what BpeTrainer learns (tests/golden/tokenizer_training.py).
TEST(NewTokenizer, HasTheVocabularyAndTheMergesOfThePackage) {
  const auto rows = json::parse(slurp(std::string(GOLDEN_TOKENIZERS) + "/training.json"));
  ASSERT_GE(rows.size(), 5u);
  for (const auto& row : rows) {
    const auto first = row.at("first").get<std::vector<std::string>>();
    auto names = row.at("vocabulary").get<std::vector<std::string>>();
    const auto special = row.at("special").get<std::vector<std::string>>();
    const auto size = names.size() + 257 + special.size();
    const Text text(joined(row.at("lines")));
    const auto plan = data::tokenizer_plan(row.at("kind").get<std::string>() + ":" + std::to_string(size), special);
    for (const int threads : {1, 3}) {
      data::TrainingText how;
      how.threads = threads, how.stretch_bytes = threads == 1 ? 100'000 : 200;
      const auto made = json::parse(text.train(plan, how).model);
      const auto& vocabulary = made.at("model").at("vocab");
      ASSERT_EQ(vocabulary.size(), size);
      for (std::size_t id = 0; id < first.size(); ++id) EXPECT_EQ(vocabulary.at(first[id]), id) << first[id];
      for (std::size_t i = 0; i < names.size(); ++i)
        EXPECT_EQ(vocabulary.at(names[i]), 257 + special.size() + i) << names[i];
      EXPECT_EQ(made.at("model").at("merges"), row.at("merges"));
    }
  }
}

TEST(NewTokenizer, IsReadAndDecodesWhatItEncodes) {
  const auto words = words_in_lines(300);
  const Text text(words);
  for (const char* kind : {"bpe:400", "bpe-gpt2:400", "unigram:400", "sentencepiece-bpe:400"}) {
    const auto plan = data::tokenizer_plan(kind, {"<|im_start|>", "[MASK]"});
    const auto made = text.train(plan);
    EXPECT_EQ(made.documents, 300);
    EXPECT_EQ(made.text_bytes, std::ssize(words));
    EXPECT_EQ(made.sample_bytes, std::ssize(words));
    const auto tokenizer = data::tokenizer_of_model(data::file_name_of(plan.kind), made.model, {});
    EXPECT_EQ(tokenizer->vocabulary(), 400) << kind;
    EXPECT_FALSE(tokenizer->made_its_end()) << kind;
    EXPECT_EQ(tokenizer->name_of_token(tokenizer->end_of_document()),
              plan.by_sentencepiece() ? "</s>" : "<|endoftext|>");
    EXPECT_GE(tokenizer->token_named("<|im_start|>"), 0) << kind;
    EXPECT_EQ(tokenizer->mask(), tokenizer->token_named("[MASK]")) << kind;
    EXPECT_GE(tokenizer->mask(), 0) << kind;
    for (const std::string& piece : {words, std::string("  two\n\n\nthe \xF0\x9F\x9A\x82 in\t[x] \xE5\x88\x97")}) {
      std::vector<std::int32_t> ids;
      tokenizer->encode(piece, ids);
      EXPECT_EQ(tokenizer->decode(ids), piece) << kind;
      EXPECT_EQ(std::count(ids.begin(), ids.end(), tokenizer->unknown()), 0) << kind;
      EXPECT_LT(ids.size(), piece.size() < 1000 ? piece.size() : piece.size() / 2) << kind;  // merged, in part
    }
  }
}

TEST(NewTokenizer, HasTheSameBytesForEveryThreadCountAndStretch) {
  const Text text(words_in_lines(400));
  for (const char* kind : {"bpe:350", "unigram:330", "sentencepiece-bpe:330"}) {
    const auto plan = data::tokenizer_plan(kind);
    const auto whole = text.train(plan, {0, 1, false, std::size_t{1} << 20}).model;
    for (const int threads : {2, 5}) {
      data::TrainingText how;
      how.threads = threads, how.stretch_bytes = 777;
      EXPECT_EQ(text.train(plan, how).model, whole) << kind << ", " << threads << " threads";
    }
  }
}

// The sample is a function of the passages alone.
TEST(NewTokenizer, ASampleFitsItsLimitInAnyOrderOfTheText) {
  const auto words = words_in_lines(2000);
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < words.size();) {
    const auto end = words.find('\n', at) + 1;
    lines.push_back(words.substr(at, end - at));
    at = end;
  }
  std::string reversed;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) reversed += *line;
  const Text forward(words), backward(reversed);
  const auto plan = data::tokenizer_plan("bpe:300");
  for (const std::int64_t limit : {std::ssize(words) - 1, std::ssize(words) / 3, std::ssize(words) / 20}) {
    data::TrainingText how;
    how.sample = limit, how.threads = 3, how.stretch_bytes = 1000;
    const auto made = forward.train(plan, how);
    EXPECT_LE(made.sample_bytes, limit);
    EXPECT_GT(made.sample_bytes, limit / 4);
    EXPECT_EQ(made.text_bytes, std::ssize(words));
    const auto other = backward.train(plan, {limit, 1, false, 100'000});
    EXPECT_EQ(other.sample_bytes, made.sample_bytes);
    EXPECT_EQ(other.model, made.model);
    EXPECT_EQ(other.words, made.words);
    // The lines that hashes draw, alone: the same tokenizer.
    data::TextSample sample(limit, false);
    for (const auto& line : lines)
      if (const auto level = sample.level_of(line); level >= sample.lowest()) sample.count(level, std::ssize(line));
    std::string drawn;
    for (const auto& line : lines)
      if (sample.level_of(line) >= sample.lowest()) drawn += line;
    EXPECT_EQ(std::ssize(drawn), made.sample_bytes);
    EXPECT_EQ(Text(drawn).train(plan).model, made.model);
  }
  data::TrainingText how;
  how.sample = 2000;
  for (const char* kind : {"unigram:300", "sentencepiece-bpe:300"}) {
    const auto made = forward.train(data::tokenizer_plan(kind), how);
    EXPECT_LE(made.sample_bytes, 2000);
    how.threads = 4, how.stretch_bytes = 500;
    EXPECT_EQ(forward.train(data::tokenizer_plan(kind), how).model, made.model);
  }
}

// A document that is longer than a passage is drawn in parts, at ends of words.
TEST(NewTokenizer, ALongDocumentIsDrawnInPassages) {
  const auto words = words_in_lines(20000);
  ASSERT_GT(words.size(), std::size_t{10} << 16);
  const Text text(words);
  data::SourceOptions whole;
  whole.split = data::TextSplit::whole;
  const auto all = text.train(data::tokenizer_plan("bpe:300"), {}, whole);
  EXPECT_EQ(all.documents, 1);
  EXPECT_EQ(all.sample_bytes, std::ssize(words));
  const auto half = text.train(data::tokenizer_plan("bpe:300"), {std::ssize(words) / 2}, whole);
  EXPECT_LE(half.sample_bytes, std::ssize(words) / 2);
  EXPECT_GE(half.sample_bytes, std::int64_t{1} << 16);
  const auto refusal = refusal_of<base::Error>([&] { text.train(data::tokenizer_plan("bpe:300"), {1000}, whole); });
  EXPECT_NE(refusal.find("tokenizer-sample"), std::string::npos) << refusal;
}

TEST(NewTokenizer, EqualDocumentsCountOnceIfAskedFor) {
  const auto words = words_in_lines(200);
  const Text once(words), twice(words + words_in_lines(50) + words);
  for (const char* kind : {"bpe:300", "sentencepiece-bpe:300"}) {
    const auto plan = data::tokenizer_plan(kind);
    const auto expected = once.train(plan);
    for (const int threads : {1, 4}) {
      const auto made = twice.train(plan, {0, threads, true, 500});
      EXPECT_EQ(made.model, expected.model) << kind;
      EXPECT_EQ(made.documents, 200);
    }
    EXPECT_EQ(twice.train(plan).documents, 450);
  }
}

// What a conversation counts: the texts between tokens of the template and borders of answers.
TEST(NewTokenizer, ConversationsCountAsTheirTexts) {
  std::string chats, parts;
  std::int64_t bytes = 0;
  for (int i = 0; i < 100; ++i) {
    const auto question = "where is yard " + std::to_string(i * i), answer = "there, in the yard " + std::to_string(i);
    chats += json{{"prompt", question}, {"response", answer}}.dump() + "\n";
    for (const auto& part : {"user asks " + question + " over", std::string("assistant says "), answer + " and out"}) {
      parts += json{{"text", part}}.dump() + "\n";
      bytes += std::ssize(part);
    }
  }
  data::SourceOptions options;
  const data::ChatRole user{"user", "<|im_start|>user asks ", " over<|im_end|>"},
      assistant{"assistant", "<|im_start|>assistant says ", " and out<|im_end|>", true};
  options.chat =
      std::make_shared<const data::ChatTemplate>(data::ChatTemplate{{"<|im_start|>", "<|im_end|>"}, {user, assistant}});
  const Text conversations(chats, "chats.jsonl"), texts(parts, "parts.jsonl");
  for (const char* kind : {"bpe:340", "sentencepiece-bpe:340"}) {
    const auto plan = data::tokenizer_plan(kind, {"<|im_start|>", "<|im_end|>"});
    const auto made = conversations.train(plan, {}, options);
    EXPECT_EQ(made.documents, 100);
    EXPECT_EQ(made.text_bytes, bytes);
    EXPECT_EQ(made.sample_bytes, bytes);
    EXPECT_EQ(made.model, texts.train(plan).model) << kind;
    const auto twice = Text(chats + chats, "chats.jsonl").train(plan, {0, 3, true, 500}, options);
    EXPECT_EQ(twice.model, made.model) << kind;
  }
}

TEST(NewTokenizer, NoMergeMakesASpecialToken) {
  std::string words;
  for (int i = 0; i < 50; ++i) words += "special special\n";
  const Text text(words);
  const auto plain = data::tokenizer_of_model("tokenizer.json", text.train(data::tokenizer_plan("bpe:264")).model, {});
  const auto with = data::tokenizer_of_model(
      "tokenizer.json", text.train(data::tokenizer_plan("bpe:265", {"special"})).model, {"", "", true});
  std::vector<std::int32_t> one, more;
  plain->encode("special", one);
  with->encode("special", more);
  EXPECT_EQ(one.size(), 1u);
  EXPECT_GT(more.size(), 1u);
  EXPECT_EQ(std::count(more.begin(), more.end(), with->token_named("special")), 0);
  EXPECT_EQ(with->decode(more), "special");
}

TEST(NewTokenizer, ATextThatIsTooSmallSaysWhatItGives) {
  const Text text("aa bb aa bb cc\n");
  // Words are aa, bb and cc with a space before, and the line feed.
  const auto refusal = refusal_of<base::Error>([&] { text.train(data::tokenizer_plan("bpe:1000")); });
  EXPECT_NE(refusal.find("it gives 263 tokens"), std::string::npos) << refusal;
  EXPECT_NO_THROW(text.train(data::tokenizer_plan("bpe:263")));
  EXPECT_THROW(text.train(data::tokenizer_plan("bpe:264")), base::InputError);
  EXPECT_NO_THROW(text.train(data::tokenizer_plan("bpe:257")));  // no merge at all
  EXPECT_THROW(text.train(data::tokenizer_plan("unigram:5000")), base::InputError);
  EXPECT_THROW(text.train(data::tokenizer_plan("unigram:261")), base::InputError);
  EXPECT_THROW(Text(" \n\t\n").train(data::tokenizer_plan("bpe:300")), base::InputError);
  EXPECT_THROW(Text("").train(data::tokenizer_plan("unigram:300")), base::InputError);
}

TEST(NewTokenizer, PlansAreReadOrRefused) {
  EXPECT_EQ(data::tokenizer_plan("bpe:257").vocabulary, 257);
  EXPECT_EQ(data::tokenizer_plan("unigram:8000").kind, data::TokenizerKind::unigram);
  EXPECT_EQ(data::tokenizer_plan("bpe:300", {"[MASK]"}).special, (std::vector<std::string>{"<|endoftext|>", "[MASK]"}));
  for (const char* wrong : {"", "bpe", "bpe:", ":300", "bpe:x", "bpe:300x", "bpe:-300", "bpe:256", "bpe:99999999999",
                            "bpe:99999999999999999999", "wordpiece:300", "unigram:258", "BPE:300"})
    EXPECT_THROW(data::tokenizer_plan(wrong), base::UsageError) << wrong;
  for (const std::string& wrong :
       {std::string(), std::string("x"), std::string("\u00e9"), std::string("<|endoftext|>"), std::string(300, 'x'),
        std::string("\xff\xff"), std::string("\u0120the"), std::string("<|\u00e9|>")})
    EXPECT_THROW(data::tokenizer_plan("bpe:1000", {wrong}), base::UsageError) << wrong;
  EXPECT_THROW(data::tokenizer_plan("bpe:1000", {"[A]", "[A]"}), base::UsageError);
  EXPECT_NO_THROW(data::tokenizer_plan("bpe:1000", {"\u5217\u8eca", " the", "<|\u03b1|>"}));
  EXPECT_THROW(data::tokenizer_plan("unigram:1000", {"</s>"}), base::UsageError);
  EXPECT_THROW(data::tokenizer_plan("bpe:257", {"[A]"}), base::UsageError);
}

TEST(NewTokenizer, SentencesAreWholeTextAndShort) {
  EXPECT_EQ(data::first_sentence("a b"), "a b");
  std::string text;
  for (int i = 0; i < 3000; ++i) text += i % 3 == 0 ? "\u5217" : i % 50 == 1 ? "\n" : i % 7 == 2 ? " " : "x";
  text += std::string(10000, 'y');
  for (int i = 0; i < 4000; ++i) text += "\u5217";
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto sentence = data::first_sentence(rest);
    ASSERT_GT(sentence.size(), 0u);
    ASSERT_LE(sentence.size(), data::longest_sentence);
    EXPECT_TRUE(data::is_utf8(sentence));
    rest.remove_prefix(sentence.size());
  }
}

}  // namespace new_tokenizer_test
