// Damaged tokenizer.json files: refused, or a tokenizer that loses only the spaces that its tokens take.
#include "tests/mutation/harness.h"
#include "tests/scratch.h"

#include "libtrain/data/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace trainyard;
using trainyard::testing::Scratch;
using trainyard::testing::slurp;
using trainyard::testing::spit;

namespace {

std::string without_spaces(std::string text) {
  text.erase(std::remove_if(text.begin(), text.end(), [](char c) { return c == ' ' || c == '\n' || c == '\t'; }),
             text.end());
  return text;
}

void judge(const std::string& name) {
  Scratch scratch;
  const auto path = scratch.path + "/tokenizer.json", original = slurp(ROOT "/tests/golden/tokenizers/" + name);
  const std::string text =
      "The train isn't LATE:  it's 12:30\n\n<mask> é中<|a|>b \xF0\x9F\x9A\x82 <sep> <|begin_of_text|>" +
      std::string(100, 'z');
  mutation::run({name, [&](mutation::Random& random) { return mutation::mutate_json(original, random); },
                 [&](const std::string& content) -> std::string {
                   spit(path, content);
                   const auto tokenizer = data::make_tokenizer(path);
                   const auto end = tokenizer->end_of_document();
                   if (end < 0 || end >= tokenizer->vocabulary()) return "an end of document outside the vocabulary";
                   std::vector<std::int32_t> ids;
                   tokenizer->encode(text, ids);
                   std::int64_t bytes = 0;
                   for (const auto id : ids) {
                     if (id < 0 || id >= tokenizer->vocabulary()) return "an id outside the vocabulary";
                     bytes += tokenizer->text_bytes(id, data::Tokenizer::Place::inside);
                   }
                   const auto again = tokenizer->decode(ids);
                   if (bytes != static_cast<std::int64_t>(again.size())) return "bytes of text that are not its length";
                   return without_spaces(again) == without_spaces(text) ? "" : "text that is lost: " + again;
                 }});
}

// Other kinds lose text by design: it is normalized, or unknown.
void judge_kind(const std::string& name) {
  Scratch scratch;
  const auto path = scratch.path + "/tokenizer.json";
  const auto original = slurp(ROOT "/tests/golden/tokenizers/kinds/" + name);
  const std::string text =
      "The train isn't LATE:  it's 12:30\n\n[MASK] \u00e9\u4e2d \xF0\x9F\x9A\x82 </s> \u2581x" + std::string(120, 'z');
  mutation::run({name, [&](mutation::Random& random) { return mutation::mutate_json(original, random); },
                 [&](const std::string& content) -> std::string {
                   spit(path, content);
                   const auto tokenizer = data::make_tokenizer(path);
                   const auto end = tokenizer->end_of_document();
                   if (end < 0 || end >= tokenizer->vocabulary()) return "an end of document outside the vocabulary";
                   std::vector<std::int32_t> ids;
                   tokenizer->encode(text, ids);
                   for (const auto id : ids)
                     if (id < 0 || id >= tokenizer->vocabulary()) return "an id outside the vocabulary";
                   if (tokenizer->decode(ids).size() > 100 * text.size()) return "text that grows";
                   return "";
                 }});
}

}  // namespace

TEST(Tokenizers, Gpt2) { judge("gpt2.json"); }
TEST(Tokenizers, Llama3) { judge("llama3.json"); }
TEST(Tokenizers, OtherSteps) { judge("steps.json"); }
TEST(Tokenizers, CharactersAndBytes) { judge_kind("llama2.json"); }
TEST(Tokenizers, WordPiece) { judge_kind("bert_uncased.json"); }
TEST(Tokenizers, Unigram) { judge_kind("xlmr.json"); }
