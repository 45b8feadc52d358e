// Tests the bytes of text of each token: their sum over a document is the length of the decoded document. For byte
// tokens and for SentencePiece models of several kinds.
#include "tests/data/sample.h"

#include "libtrain/base/checksum.h"
#include "libtrain/data/text_bytes.h"
#include "libtrain/data/tokenizer.h"

#include <fmt/format.h>

#include <cstdlib>

using namespace sample;
using data::Tokenizer;

namespace {

// Words of pseudo-random syllables, some outside ASCII.
std::string line(int i) {
  static const char* const syllables[] = {"ta", "re", "mi", "so", "lu", "né", "ü", "k", "st", "on", "I", "x"};
  std::string out;
  for (unsigned w = 0; w < 3 + static_cast<unsigned>(i) % 7; ++w) {
    if (w > 0) out += ' ';
    for (unsigned s = 0; s < 1 + (w + static_cast<unsigned>(i)) % 4; ++s)
      out += syllables[base::crc32c(&i, sizeof i, 100 * w + s) % 12];
  }
  return out;
}

class Bytes : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v spm_train >/dev/null") != 0) GTEST_SKIP() << "spm_train is not installed";
  }
  std::string model(const std::string& name, const std::string& flags) {
    std::string text;
    for (int i = 0; i < 600; ++i) text += line(i) + "\n";
    spit(scratch.path + "/text", text);
    const auto prefix = scratch.path + "/" + name;
    const auto command = fmt::format(
        "spm_train --input={0}/text --model_prefix={1} --num_threads=1 --hard_vocab_limit=false {2} >{0}/log 2>&1",
        scratch.path, prefix, flags);
    EXPECT_EQ(std::system(command.c_str()), 0) << slurp(scratch.path + "/log");
    return prefix + ".model";
  }
  Scratch scratch;
};

std::int64_t sum(const Tokenizer& tokenizer, const std::vector<std::int32_t>& tokens) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    bytes += tokenizer.text_bytes(tokens[i], i == 0 ? Tokenizer::Place::start : Tokenizer::Place::inside);
  return bytes;
}

}  // namespace

TEST_F(Bytes, SumUpToTheDecodedDocument) {
  const auto bytes = data::make_tokenizer("bytes");
  EXPECT_EQ(bytes->text_bytes(255, Tokenizer::Place::start), 1);
  EXPECT_EQ(bytes->text_bytes(256, Tokenizer::Place::inside), 0);
  int models = 0;
  for (const char* flags : {"--vocab_size=60 --character_coverage=1", "--vocab_size=340 --byte_fallback=true",
                            "--vocab_size=60 --add_dummy_prefix=false --character_coverage=1",
                            "--vocab_size=70 --model_type=bpe --eos_id=-1 --character_coverage=1",
                            "--vocab_size=60 --remove_extra_whitespaces=false --character_coverage=1"}) {
    const auto path = model(fmt::format("m{}", models), flags);
    ++models;
    const auto tokenizer = data::make_tokenizer(path);
    for (int i = 0; i < 40; ++i) {
      const bool any = std::string(flags).find("byte_fallback") != std::string::npos;
      const auto text = fmt::format("{}{}  {}{}", i % 5 == 0 ? " " : "", line(1000 + i), i % 3 == 0 ? line(i) : "",
                                    any ? " 東 \xf0\x9f\x9a\x82" : "");
      std::vector<std::int32_t> tokens;
      tokenizer->encode(text, tokens);
      EXPECT_EQ(sum(*tokenizer, tokens), static_cast<std::int64_t>(tokenizer->decode(tokens).size()))
          << flags << ": " << text;
    }
    EXPECT_EQ(tokenizer->text_bytes(tokenizer->end_of_document(), Tokenizer::Place::inside), 0);
    EXPECT_EQ(tokenizer->text_bytes(tokenizer->unknown(), Tokenizer::Place::inside), -1);
  }
}

TEST_F(Bytes, OnlyTargetsThatCountAreCounted) {
  data::SetIndex index;
  index.vocabulary = 257, index.end_of_document = 256;
  std::vector<std::int32_t> tokens{'a', 'b', 256, 'c'}, targets{'b', 256, 'c', 'd'}, unused(4);
  std::vector<std::uint8_t> weights{1, 1, 0, 1};
  const data::WindowPtrs window{tokens.data(), targets.data(), unused.data(), unused.data(), weights.data()};
  data::TextBytes::Count count;
  data::TextBytes(scratch.path, index).add(window, 4, count);
  EXPECT_EQ(count.bytes, 2);  // b, d
  EXPECT_EQ(count.unmeasured, 0);
}

// If every document has a begin token, its text starts after that token.
TEST_F(Bytes, ATextStartsAfterTheTokenThatBeginsADocument) {
  const auto path = model("begun", "--vocab_size=60 --character_coverage=1");
  const auto tokenizer = data::make_tokenizer(path);
  data::SetIndex index;
  index.tokenizer = "begun.model", index.tokenizer_source = path, index.tokenizer_crc32c = tokenizer->crc32c();
  index.vocabulary = tokenizer->vocabulary(), index.end_of_document = tokenizer->end_of_document();
  for (const std::int32_t begin : {-1, 1}) {  // none; <s>
    index.begin_of_document = begin;
    std::vector<std::int32_t> tokens{index.end_of_document};
    std::int64_t bytes = 0;
    for (int i = 0; i < 5; ++i) {
      std::vector<std::int32_t> text;
      tokenizer->encode(line(i), text);
      bytes += static_cast<std::int64_t>(tokenizer->decode(text).size());
      if (begin >= 0) tokens.push_back(begin);
      tokens.insert(tokens.end(), text.begin(), text.end());
      tokens.push_back(index.end_of_document);
    }
    const auto n = static_cast<std::int64_t>(tokens.size()) - 1;
    std::vector<std::uint8_t> weights(static_cast<std::size_t>(n), 1);
    const data::WindowPtrs window{tokens.data(), tokens.data() + 1, nullptr, nullptr, weights.data()};
    data::TextBytes::Count count;
    data::TextBytes(scratch.path, index).add(window, n, count);
    EXPECT_EQ(count.bytes, bytes) << begin;
    EXPECT_EQ(count.unmeasured, 0) << begin;
  }
}

// A vocabulary that does not fit byte tokens, a missing model, or another model of the same name: no bytes are guessed.
TEST_F(Bytes, WhatIsNotKnownIsNotGuessed) {
  std::vector<std::int32_t> tokens{1, 2}, targets{2, 3};
  std::vector<std::uint8_t> weights{1, 1};
  const data::WindowPtrs window{tokens.data(), targets.data(), nullptr, nullptr, weights.data()};
  const auto unmeasured = [&](const data::SetIndex& index) {
    const data::TextBytes text(scratch.path, index);
    data::TextBytes::Count count;
    text.add(window, 2, count);
    EXPECT_EQ(count.bytes, 0);
    EXPECT_EQ(text.why_not().empty(), count.unmeasured == 0);
    return count.unmeasured;
  };
  data::SetIndex index;
  index.vocabulary = 50257, index.end_of_document = 50256;
  EXPECT_EQ(unmeasured(index), 2);
  index.tokenizer = "gone.model", index.tokenizer_source = scratch.path + "/gone.model";
  EXPECT_EQ(unmeasured(index), 2);
  const auto path = model("here", "--vocab_size=60 --character_coverage=1");
  const auto tokenizer = data::make_tokenizer(path);
  index.tokenizer = "here.model", index.tokenizer_source = "/moved/away.model",
  index.vocabulary = tokenizer->vocabulary(), index.end_of_document = tokenizer->end_of_document();
  index.tokenizer_crc32c = tokenizer->crc32c() + 1;
  EXPECT_EQ(unmeasured(index), 2);
}
