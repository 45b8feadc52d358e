// UTF-8 compared with hand-made tables, streamed text compared with text decoded at once, and refused prompts.
#include "libtrain/base/error.h"
#include "tests/scratch.h"
#include "tools/generate/prompt.h"
#include "tools/generate/shown_text.h"
#include "tools/generate/text_stream.h"
#include "tools/generate/utf8.h"

#include <gtest/gtest.h>

#include <random>
#include <sys/stat.h>

namespace trainyard::test {
namespace {

using generate::Character;

// The expected results are those of Python 3.11, bytes.decode("utf-8", "replace").
TEST(Utf8, BrokenPartsAreReplacedAsPythonDoes) {
  const std::string r = "\xEF\xBF\xBD";
  const std::pair<std::string, std::string> table[] = {{"plain", "plain"},
                                                       {"\xC3\xA9t\xC3\xA9", "\xC3\xA9t\xC3\xA9"},
                                                       {"\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80"},
                                                       {"\xF4\x8F\xBF\xBF", "\xF4\x8F\xBF\xBF"},
                                                       {"\x80", r},
                                                       {"\xC0\x80", r + r},
                                                       {"\xC1\xBF", r + r},
                                                       {"\xED\xA0\x80", r + r + r},
                                                       {"\xED\x9F\xBF", "\xED\x9F\xBF"},
                                                       {"\xF4\x90\x80\x80", r + r + r + r},
                                                       {"\xE2\x28\xA1", r + "(" + r},
                                                       {"\xF0\x90(", r + "("},
                                                       {"\xF0\x9F\x98", r},
                                                       {"\xE0\x9F\x80", r + r + r},
                                                       {"\xF0\x8F\x80\x80", r + r + r + r},
                                                       {"\xE2\x82", r},
                                                       {"\xFF\xFE"
                                                        "a",
                                                        r + r + "a"},
                                                       {"\xC3\xC3\xA9", r + "\xC3\xA9"}};
  for (const auto& [text, want] : table) EXPECT_EQ(generate::valid_utf8(text), want) << want;
  EXPECT_EQ(generate::utf8_head("\xE2\x82").kind, Character::cut);
  EXPECT_EQ(generate::utf8_head("\xE2(").kind, Character::broken);
  EXPECT_EQ(generate::utf8_head("\xE2\x82\xAC.").bytes, 3u);
}

// Decodes as SentencePiece does with byte fallback. Ids 0 to 255 are bytes; those in a row that form no character
// become U+FFFD each. 256 ends documents. 257 to 260 are words with a space before them, which the first piece loses.
// 261 is unknown.
class Pieces : public data::Tokenizer {
 public:
  std::string name() const override { return "pieces"; }
  std::uint32_t crc32c() const override { return 1; }
  std::string source() const override { return "pieces"; }
  std::int64_t vocabulary() const override { return 262; }
  std::int32_t end_of_document() const override { return 256; }
  std::int32_t unknown() const override { return 261; }
  void encode(std::string_view text, std::vector<std::int32_t>& out) const override {
    for (const char c : text)
      out.push_back(c == '#' || static_cast<unsigned char>(c) > 0xF4 ? 261 : static_cast<unsigned char>(c));
  }
  std::string decode(std::span<const std::int32_t> tokens) const override {
    static const std::string words[] = {" the", " cat", " ", " \xC3\xA9t\xC3\xA9"};
    std::string out, run;
    bool first = true;
    const auto close = [&] {
      for (std::string_view left = run; !left.empty();) {
        const auto head = generate::utf8_head(left);
        const bool whole = head.kind == Character::whole;
        out += whole ? left.substr(0, head.bytes) : generate::replacement;
        left.remove_prefix(whole ? head.bytes : 1);
      }
      run.clear();
    };
    for (const auto t : tokens) {
      if (t == 256) continue;
      if (t < 256) {
        run += static_cast<char>(t);
      } else {
        close();
        out += words[t - 257].substr(first ? 1 : 0);
      }
      first = false;
    }
    close();
    return out;
  }
};

bool valid(std::string_view text) { return generate::valid_utf8(text) == text; }

void expect_streamed(const data::Tokenizer& tokenizer, const std::vector<std::int32_t>& tokens) {
  std::string got;
  generate::TextStream stream(tokenizer, [&](std::string_view more) {
    EXPECT_TRUE(valid(more));
    got += more;
  });
  for (const auto t : tokens) stream.push(t);
  stream.finish();
  ASSERT_EQ(got, generate::valid_utf8(tokenizer.decode(tokens)));
}

TEST(TextStream, IsTheTextDecodedAtOnce) {
  std::mt19937 random(5);
  const auto bytes = data::make_tokenizer("bytes");
  const Pieces pieces;
  const std::string alphabet =
      "ab \xC3\xA9\xF0\x9F\x98\x80\xE2\x82\xAC\xFF";  // single bytes of it, so characters are whole or broken
  for (int round = 0; round < 300; ++round) {
    std::vector<std::int32_t> a, b;
    for (unsigned i = 0; i < 300; ++i) {
      const auto byte = static_cast<unsigned char>(alphabet[random() % alphabet.size()]);
      a.push_back(byte);
      b.push_back(random() % 3 == 0 ? byte : static_cast<std::int32_t>(257 + random() % 4));
    }
    expect_streamed(*bytes, a);
    expect_streamed(pieces, b);
  }
  std::vector<std::int32_t> whole;  // characters of four bytes, none of them broken
  for (int i = 0; i < 100; ++i)
    for (const char c : std::string("\xF0\x9F\x98\x80 \xE2\x82\xAC")) whole.push_back(static_cast<unsigned char>(c));
  expect_streamed(*bytes, whole);
  expect_streamed(pieces, whole);
}

TEST(TextStream, ShowsWhatIsCertainAtOnce) {
  const auto bytes = data::make_tokenizer("bytes");
  std::string got;
  generate::TextStream stream(*bytes, [&](std::string_view more) { got += more; });
  const std::pair<int, std::string> steps[] = {{'H', "H"},
                                               {'i', "Hi"},
                                               {0xC3, "Hi"},
                                               {0xA9, "Hi\xC3\xA9"},
                                               {0xE2, "Hi\xC3\xA9"},
                                               {'!', "Hi\xC3\xA9\xEF\xBF\xBD!"},
                                               {256, "Hi\xC3\xA9\xEF\xBF\xBD!"}};
  for (const auto& [token, want] : steps) {
    stream.push(token);
    EXPECT_EQ(got, want);
  }
  stream.push(0xF0);
  stream.finish();
  EXPECT_EQ(got, "Hi\xC3\xA9\xEF\xBF\xBD!\xEF\xBF\xBD");
}

TEST(TextStream, ATokenCostsTheSameHoweverLongTheText) {
  struct Counting : Pieces {
    mutable std::size_t decoded = 0;
    std::string decode(std::span<const std::int32_t> tokens) const override {
      decoded += tokens.size();
      return Pieces::decode(tokens);
    }
  } pieces;
  generate::TextStream stream(pieces, [](std::string_view) {});
  for (int i = 0; i < 20000; ++i) stream.push(257 + i % 4);
  EXPECT_LT(pieces.decoded, 20000u * 50);
}

// What a text is up to its stop text: by the definition, prefix by prefix.
std::pair<std::string, bool> until_stop(const std::string& text, const std::vector<std::string>& stops) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    const auto so_far = text.substr(0, end);
    std::size_t longest = 0;
    for (const auto& stop : stops)
      if (so_far.ends_with(stop)) longest = std::max(longest, stop.size());
    if (longest > 0) return {so_far.substr(0, end - longest), true};
  }
  return {text, false};
}

TEST(StopTexts, TheFirstThatIsCompleteEndsTheText) {
  std::mt19937 random(3);
  std::size_t stopped = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    const auto word = [&](std::size_t most) {
      std::string out;
      for (auto n = 1 + random() % most; n > 0; --n) out += static_cast<char>('a' + random() % 2);
      return out;
    };
    const std::vector<std::string> stops{word(6), word(4), word(6)};
    const auto text = word(14);
    std::string written;
    generate::StopTexts stop(stops, [&](std::string_view more) { written += more; });
    for (std::size_t at = 0; at < text.size() && !stop.found();) {
      const auto n = 1 + random() % 3;
      stop.push(std::string_view(text).substr(at, n));
      at += n;
      EXPECT_TRUE(text.starts_with(written));
    }
    stop.finish();
    const auto [want, found] = until_stop(text, stops);
    EXPECT_EQ(written, want) << text << ": " << stops[0] << " " << stops[1] << " " << stops[2];
    EXPECT_EQ(stop.found(), found);
    stopped += found ? 1 : 0;
  }
  EXPECT_GT(stopped, 500u);
  EXPECT_LT(stopped, 2900u);
}

// What cannot begin a stop text is written at once.
TEST(StopTexts, HoldsBackNoMoreThanItMust) {
  std::string written;
  const std::vector<std::string> stops{"User:"};
  generate::StopTexts stop(stops, [&](std::string_view more) { written += more; });
  stop.push("yes\nUs");
  EXPECT_EQ(written, "yes\n");
  stop.push("ed UUser");
  EXPECT_EQ(written, "yes\nUsed U");
  stop.finish();
  EXPECT_EQ(written, "yes\nUsed UUser");
}

// Tokens 257 to 260 are words, so that stop texts begin and end in the midst of tokens.
TEST(ShownText, EndsInTheMidstOfATokenBehindThePrompt) {
  const Pieces pieces;
  const auto shown = [&](const std::vector<std::string>& stops, const std::vector<std::int32_t>& prompt,
                         const std::vector<std::int32_t>& tokens) {
    std::string out;
    const auto write = [&](std::string_view more) { out += more; };
    generate::ShownText text(pieces, stops, prompt, write, write);
    std::size_t pushed = 0;
    bool goes_on = true;
    for (const auto token : tokens)
      if (goes_on) goes_on = text.push(token), ++pushed;
    goes_on = text.finish();
    return fmt::format("{}|{}{}", out, pushed, goes_on ? "" : " stopped");
  };
  EXPECT_EQ(shown({}, {257}, {258, 257}), "the cat the|2");
  EXPECT_EQ(shown({"he"}, {257}, {258, 257, 258}), "the cat t|2 stopped") << "not in the prompt";
  EXPECT_EQ(shown({"t t"}, {257}, {258, 257, 258}), "the ca|2 stopped") << "across two tokens";
  EXPECT_EQ(shown({" cat the"}, {257}, {258, 257, 258}), "the|2 stopped");
  EXPECT_EQ(shown({"e c"}, {257}, {258}), "the cat|1") << "its beginning lies in the prompt";
  EXPECT_EQ(shown({"t\xC3\xA9"}, {257}, {260, 257}), "the \xC3\xA9|1 stopped");
  EXPECT_EQ(shown({"\xE2\x82\xAC"}, {257}, {0xE2, 0x82, 0xAC, 258}), "the|3 stopped") << "a character of three tokens";
  EXPECT_EQ(shown({"\xEF\xBF\xBD"}, {257}, {0xE2, 0x82}), "the|2 stopped") << "seen when the text ends";
}

TEST(Prompt, Tokens) {
  const auto bytes = data::make_tokenizer("bytes");
  const generate::Beginning end{{256}, {256}, ""};
  using Ids = std::vector<std::int32_t>;
  EXPECT_EQ(generate::prompt_tokens(*bytes, "", 16, end).tokens, (Ids{256}));
  EXPECT_EQ(generate::prompt_tokens(*bytes, std::string("a\0\xFF", 3), 16, end).tokens, (Ids{256, 97, 0, 255}));
  EXPECT_EQ(generate::prompt_tokens(*bytes, std::string(15, 'x'), 16, end).tokens.size(), 16u);
  EXPECT_THROW(generate::prompt_tokens(*bytes, std::string(16, 'x'), 16, end), base::InputError);
}

TEST(Prompt, WhatStandsBeforeIt) {
  const auto bytes = data::make_tokenizer("bytes");
  using Ids = std::vector<std::int32_t>;
  const auto tokens = [&](const std::string& prompt, const Ids& before, const Ids& alone) {
    const auto made = generate::prompt_tokens(*bytes, prompt, 6, {before, alone, ""});
    return std::pair(made.tokens, made.put);
  };
  const auto made = [](const Ids& ids, std::size_t put) { return std::pair(ids, put); };
  EXPECT_EQ(tokens("ab", {7, 8}, {7, 8}), made({7, 8, 97, 98}, 2));
  EXPECT_EQ(tokens("", {7, 8}, {7, 8}), made({7, 8}, 2));
  EXPECT_EQ(tokens("ab", {}, {9}), made({97, 98}, 0));
  EXPECT_EQ(tokens("", {}, {9}), made({9}, 1));
  EXPECT_EQ(tokens("\x07\x08 a", {7, 8}, {7, 8}), made({7, 8, 32, 97}, 0)) << "the prompt has them itself";
  EXPECT_EQ(tokens("\x07", {7, 8}, {7, 8}), made({7, 8, 7}, 2)) << "the prompt has one of them";
  EXPECT_EQ(tokens("abcdef", {}, {}).first.size(), 6u);
  EXPECT_EQ(tokens("abcd", {7, 8}, {}).first.size(), 6u);
  EXPECT_THROW(tokens("abcdefg", {}, {}), base::InputError);
  EXPECT_THROW(tokens("abcde", {7, 8}, {}), base::InputError);
  EXPECT_THROW(tokens("", {}, {}), base::InputError);
}

TEST(Prompt, Lines) {
  const testing::Scratch folder;
  const auto path = folder.path + "/lines";
  constexpr std::size_t most = 16 << 20;
  testing::spit(path, "one\n\n" + std::string("a\0b\r\n", 5) + std::string(most, 'x') + "\n" +
                          std::string(most + 1, 'y') + "\nlast");
  std::FILE* file = std::fopen(path.c_str(), "r");
  ASSERT_NE(file, nullptr);
  for (const auto& want : {std::string("one"), std::string(), std::string("a\0b\r", 4), std::string(most, 'x')}) {
    const auto line = generate::read_line(file, "lines");
    ASSERT_TRUE(line);
    EXPECT_FALSE(line->too_long);
    EXPECT_TRUE(line->text == want) << want.substr(0, 10);
  }
  EXPECT_TRUE(generate::read_line(file, "lines").value().too_long);
  EXPECT_EQ(generate::read_line(file, "lines").value().text, "last");
  EXPECT_FALSE(generate::read_line(file, "lines"));
  std::fclose(file);
  file = std::fopen("/", "r");
  ASSERT_NE(file, nullptr);
  EXPECT_THROW(generate::read_line(file, "/"), base::InputError);
  std::fclose(file);
}

TEST(Prompt, WhatTheTokenizerLacksIsNamed) {
  const auto refused = [](const std::string& prompt) -> std::string {
    try {
      generate::prompt_tokens(Pieces(), prompt, 100, {{256}, {256}, ""});
    } catch (const base::InputError& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refused("fine"), "accepted");
  EXPECT_NE(refused("caf\xC3\xA9 #1").find("'#' at byte 6"), std::string::npos) << refused("caf\xC3\xA9 #1");
  EXPECT_NE(refused("a\xFF").find("byte 1 of the prompt, 0xff"), std::string::npos) << refused("a\xFF");
}

TEST(Prompt, Sources) {
  EXPECT_EQ(generate::read_prompt("a\n", std::nullopt), "a\n");
  EXPECT_EQ(generate::read_prompt(std::nullopt, std::nullopt), "");
  const testing::Scratch files;
  for (const std::string text : {"a", "a\n", "a\r\n\n", "\n"}) {
    testing::spit(files.path + "/prompt", text);
    EXPECT_EQ(generate::read_prompt(std::nullopt, files.path + "/prompt"), text);
  }
  EXPECT_THROW(generate::read_prompt("", std::nullopt), base::UsageError);
  EXPECT_THROW(generate::read_prompt("a", "b"), base::UsageError);
  EXPECT_THROW(generate::read_prompt(std::nullopt, "/nonexistent"), base::InputError);
  EXPECT_THROW(generate::read_prompt(std::nullopt, "/"), base::InputError);
  EXPECT_THROW(generate::read_prompt(std::nullopt, "/dev/null"), base::InputError);
  EXPECT_THROW(generate::read_prompt(std::nullopt, "/dev/zero"), base::InputError);
  const testing::Scratch folder;
  const auto pipe = folder.path + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);  // nobody ever writes into it
  EXPECT_THROW(generate::read_prompt(std::nullopt, pipe), base::InputError);
}

}  // namespace
}  // namespace trainyard::test
