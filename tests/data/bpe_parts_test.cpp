// Compares the parts of byte-level BPE with plain models: scanners with PCRE2, merges with a loop over all neighbours.
// The texts are random, made to be slow, or long pieces.
#include "libtrain/base/error.h"
#include "libtrain/data/bpe/categories.h"
#include "libtrain/data/bpe/composition.h"
#include "libtrain/data/bpe/merges.h"
#include "libtrain/data/bpe/pattern.h"
#include "libtrain/data/bpe/scanner.h"
#include "libtrain/data/unicode/properties.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

using namespace trainyard::data::bpe;
using trainyard::base::InputError;

namespace {

using Random = std::mt19937_64;

std::string utf8(char32_t c) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0 | c >> 6), tail(0)};
  if (c < 0x10000) return {static_cast<char>(0xE0 | c >> 12), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | c >> 18), tail(12), tail(6), tail(0)};
}

// The code points to compare.
const std::vector<char32_t>& known() {
  static const auto all = [] {
    std::vector<char32_t> out;
    for (char32_t c = 0; c < 0x110000; ++c)
      if (c < 0xD800 || c >= 0xE000) out.push_back(c);
    return out;
  }();
  return all;
}

std::vector<std::size_t> ends_by_scanner(const Scanner& scanner, const std::string& text) {
  std::vector<std::size_t> out;
  for (const char *at = text.data(), *end = at + text.size(); at != end;) {
    at = scanner.piece(at, end);
    out.push_back(static_cast<std::size_t>(at - text.data()));
  }
  return out;
}

std::vector<std::size_t> ends_by_pattern(const Pattern& pattern, const std::string& text) {
  const Pattern::Memory memory(pattern);
  std::vector<std::size_t> out;
  for (std::size_t at = 0; at < text.size();) {
    const auto match = pattern.find(text, at, memory);
    EXPECT_TRUE(match && match->begin == at && match->end > at) << "the pattern leaves a gap at " << at;
    if (!match || match->end <= at) break;
    out.push_back(at = match->end);
  }
  return out;
}

const std::vector<std::string>& snippets() {
  static const std::vector<std::string> all{
      "'s",     "'S",      "'ll",    "'LL",    "'Ll",    "'re",    "'vE",    "'m",     "'D",
      "'t",     "'\u017f", "'",      "''",     " ",      "  ",     "\t",     "\n",     "\r",
      "\r\n",   "\v",      "\u0085", "\u00a0", "\u1680", "\u180e", "\u2028", "\u202f", "\u3000",
      "\u200b", "a",       "Z",      "é",      "ſ",      "中",     "\u0301", "1",      "22",
      "333",    "٣",       "Ⅷ",      "½",      "!",      "_",      "=",      "\ufffd", "\U0001f468\u200d",
      "\0",     "\x7f"};
  return all;
}

}  // namespace

TEST(Scanner, CutsWhereThePatternsMatch) {
  for (const char* expression : {gpt2_pattern, llama3_pattern, qwen_pattern}) {
    const auto scanner = Scanner::of_pattern(expression);
    ASSERT_TRUE(scanner);
    const Pattern pattern(expression, "test");
    const auto same = [&](const std::string& text) {
      ASSERT_EQ(ends_by_scanner(*scanner, text), ends_by_pattern(pattern, text)) << ::testing::PrintToString(text);
    };
    // Every code point, alone between letters, and all of them in one row.
    std::string row;
    for (const auto c : known()) row += utf8(c);
    same(row);
    row.clear();
    for (const auto c : known()) row += " a" + utf8(c) + "1";
    same(row);
    Random random(1);
    for (int i = 0; i < 20'000 && !::testing::Test::HasFatalFailure(); ++i) {
      std::string text;
      for (auto n = random() % 12; n > 0; --n)
        text += random() % 8 == 0 ? utf8(known()[random() % known().size()]) : snippets()[random() % snippets().size()];
      same(text);
    }
  }
  EXPECT_FALSE(Scanner::of_pattern("\\p{L}+"));
}

// Texts where a careless scanner would look at the same characters again for each piece.
TEST(Scanner, LongRunsTakeLinearTime) {
  const std::size_t n = 8 << 20;
  for (const char* expression : {gpt2_pattern, llama3_pattern, qwen_pattern})
    for (const std::string unit : {" ", "\n ", "a", "!", "7", "'", "\r\n\t", "' ", "  \u3000"}) {
      std::string text = "x";
      while (text.size() < n) text += unit;
      text += "x";
      EXPECT_EQ(ends_by_scanner(*Scanner::of_pattern(expression), text).back(), text.size());
    }
}

// Text that composition does not change is not copied, and composed text stays as it is.
// tests/golden/tokenizers/variants.json has the values of the reference.
TEST(Composition, ComposesOnce) {
  std::string memory, again;
  for (const std::string text : {"", "plain", "caf\u00e9", "\ud55c\uae00 \u4e2d", "\u0300", "a\u0334b"})
    EXPECT_EQ(composed(text, memory), text);
  const std::string plain = "nothing \u00e9 to do";
  EXPECT_EQ(composed(plain, memory).data(), plain.data());
  EXPECT_EQ(composed("x e\u0301 \u212b y q\u0307\u0323", memory), "x \u00e9 \u00c5 y q\u0323\u0307");
  Random random(3);
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (auto n = random() % 12; n > 0; --n)
      text += random() % 2 == 0 ? utf8(static_cast<char32_t>(0x300 + random() % 0x70))
                                : utf8(known()[random() % known().size()]);
    const std::string once(composed(text, memory));
    ASSERT_EQ(composed(once, again), once) << ::testing::PrintToString(text);
  }
}

TEST(Composition, LongRunsTakeLinearTime) {
  for (const std::string unit : {"a\u0301", "\u0301", "\u0323\u0301", "\u1100\u1161", "\u1161", "e", "\u00e9"}) {
    std::string text = "x", memory;
    while (text.size() < 4 << 20) text += unit;
    EXPECT_GT(composed(text, memory).size(), 1u << 20);
  }
}

namespace {

Definition random_definition(Random& random, int merges) {
  Definition d;
  for (int b = 0; b < 256; ++b) d.tokens.push_back({static_cast<char>(b)});
  std::map<std::string, std::int32_t> ids;
  for (std::size_t i = 0; i < d.tokens.size(); ++i) ids[d.tokens[i]] = static_cast<std::int32_t>(i);
  while (std::ssize(d.merges) < merges) {
    const auto pick = [&] {  // letters a to d, and tokens merged from them
      const auto made = d.tokens.size() - 256, at = random() % (made + 4);
      return static_cast<std::int32_t>(at < 4 ? 'a' + at : 252 + at);
    };
    const auto left = pick(), right = pick();
    const auto text = d.tokens[static_cast<std::size_t>(left)] + d.tokens[static_cast<std::size_t>(right)];
    if (text.size() > 40 || std::any_of(d.merges.begin(), d.merges.end(),
                                        [&](const Merge& m) { return m.left == left && m.right == right; }))
      continue;
    const auto [found, made] = ids.emplace(text, static_cast<std::int32_t>(d.tokens.size()));
    if (made) d.tokens.push_back(text);
    d.merges.push_back({left, right, found->second});
  }
  std::shuffle(d.merges.begin(), d.merges.end(), random);
  return d;
}

// Merges one pair at a time: the lowest rank first, and of equal ranks the first in the text.
std::vector<std::int32_t> plainly(const Definition& d, const std::string& piece) {
  std::vector<std::int32_t> ids;
  for (const char c : piece) ids.push_back(static_cast<unsigned char>(c));
  for (;;) {
    std::size_t best_rank = d.merges.size(), best_at = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i)
      for (std::size_t rank = 0; rank < best_rank; ++rank)
        if (d.merges[rank].left == ids[i] && d.merges[rank].right == ids[i + 1]) best_rank = rank, best_at = i;
    if (best_rank == d.merges.size()) return ids;
    ids[best_at] = d.merges[best_rank].merged;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
  }
}

}  // namespace

TEST(Merges, AreThoseOfThePlainLoop) {
  Random random(2);
  for (int round = 0; round < 40; ++round) {
    const auto d = random_definition(random, 1 + static_cast<int>(random() % 60));
    const Merges merges(d);
    Merges::Memory memory;
    for (int i = 0; i < 40; ++i) {
      std::string piece;
      for (auto n = 1 + random() % (i % 4 == 0 ? 200 : 60); n > 0; --n)
        piece += random() % 20 == 0 ? static_cast<char>(random()) : static_cast<char>('a' + random() % 4);
      std::vector<std::int32_t> ids;
      merges.encode(piece, memory, ids);
      ASSERT_EQ(ids, plainly(d, piece)) << "round " << round << ", piece " << ::testing::PrintToString(piece);
    }
  }
}

// A document that is one word. With n * n steps this would never end.
TEST(Merges, OneWordOfMegabytes) {
  Random random(3);
  const auto d = random_definition(random, 60);
  const Merges merges(d);
  Merges::Memory memory;
  std::string word, again;
  for (int i = 0; i < 4 << 20; ++i) word += static_cast<char>('a' + random() % 4);
  for (const auto& text : {word, std::string(4 << 20, 'a')}) {
    std::vector<std::int32_t> ids;
    merges.encode(text, memory, ids);
    again.clear();
    for (const auto id : ids) again += d.tokens[static_cast<std::size_t>(id)];
    EXPECT_EQ(again, text);
    EXPECT_EQ(memory.heap.capacity(), 0u);  // the memory of a long word is released
  }
}

TEST(Patterns, MeanWhatOnigurumaMeans) {
  const auto first = [](const char* expression, const std::string& text) {
    const Pattern pattern(expression, "test");
    const auto match = pattern.find(text, 0, Pattern::Memory(pattern));
    return match ? text.substr(match->begin, match->end - match->begin) : "none";
  };
  EXPECT_EQ(first("\\s+", "a\u180e\u2028\u0085 b"), "\u2028\u0085 ");  // U+180E is no longer white space
  EXPECT_EQ(first("[^\\S\\n]+", "a\n \tb"), " \t");
  EXPECT_EQ(first("$", "ab\ncd"), "");
  EXPECT_EQ(first("^c.", "ab\ncd"), "cd");  // at every line
  EXPECT_EQ(first("a.c", "a\nca\rc"), "a\rc");
  EXPECT_EQ(first("(?i:'s)", "'\u017f"), "'\u017f");
  EXPECT_EQ(first("\\d+", "a½٣4"), "٣4");
  EXPECT_EQ(first("\\p{Han}+", "。、列車"), "列車");  // by the script itself, not by script extensions
  EXPECT_EQ(first("\\u00e9|\\x41", "xé"), "é");
}

// Characters that Unicode has had since versions 15 and 16 (DerivedAge.txt, Scripts.txt), which PCRE2 10.42 does not
// know.
TEST(Patterns, KnowNewCharacters) {
  const auto first = [](const char* expression, const std::string& text) {
    const Pattern pattern(expression, "test");
    const auto match = pattern.find(text, 0, Pattern::Memory(pattern));
    return match ? text.substr(match->begin, match->end - match->begin) : "none";
  };
  const std::string upper = "\u1c89\ua7cb", lower = "\u1c8a", digit = "\U00010d40", han = "\U0002ebf0", mark = "\u0897";
  EXPECT_EQ(first("\\p{L}+", "1" + upper + lower + han + "2"), upper + lower + han);
  EXPECT_EQ(first("\\p{Lu}+", "a" + upper + lower), upper);
  EXPECT_EQ(first("(?i:x\\p{Lu}+)", "aX" + upper + "b"), "X" + upper);
  EXPECT_EQ(first("[\\p{Ll}\\p{Lo}]+", upper + lower + han), lower + han);
  EXPECT_EQ(first("\\p{Han}+", "a" + han), han);
  EXPECT_EQ(first("\\p{han}+", "a" + han), han);
  EXPECT_EQ(first("\\d+", "a1" + digit), "1" + digit);
  EXPECT_EQ(first("\\D+", digit + mark + "2"), mark);
  EXPECT_EQ(first("[^\\D]+", mark + digit), digit);
  EXPECT_EQ(first("[^\\s\\p{L}\\p{N}]+", upper + digit + " !" + mark), "!" + mark);
  EXPECT_EQ(first("\\p{M}+", "a" + mark), mark);
  EXPECT_EQ(first("\\p{Cn}", mark + digit + han + "\U000e0fff"), "\U000e0fff");
  EXPECT_EQ(first("\\P{L}+", upper + "1" + lower), "1");
}

// Digits of a script that is new in Unicode 17 (UnicodeData.txt), by which the pre-tokenizer Digits goes.
TEST(Categories, NumbersOfThePreTokenizerAreNewer) {
  for (const char32_t c : {U'1', U'\u2167', U'\U00010d40', U'\U00011de0', U'\U00011de9'})
    EXPECT_NE(trainyard::data::unicode::properties()[c] & trainyard::data::unicode::is_number, 0) << std::uint32_t{c};
  EXPECT_EQ(trainyard::data::unicode::properties()[U'\U00011df0'] & trainyard::data::unicode::is_number, 0);
}

// The tables of classes and of categories were asked of the reference in different ways.
TEST(Categories, AreOneForEachCodePoint) {
  std::vector<int> of(0x110000);
  for (const char* name : {"L", "M", "N", "P", "S", "Z", "C"})
    for (const auto& r : code_points_of(name))
      for (auto c = r.first; c <= r.last; ++c) ++of[c];
  for (char32_t c = 0; c < 0x110000; ++c) ASSERT_EQ(of[c], c < 0xD800 || c >= 0xE000 ? 1 : 0) << std::uint32_t{c};
  const auto same = [](const std::vector<CodePoints>& a, std::span<const CodePoints> b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const CodePoints& x, const CodePoints& y) { return x.first == y.first && x.last == y.last; });
  };
  EXPECT_TRUE(same(code_points_of("L"), letters));
  EXPECT_TRUE(same(code_points_of("N"), numbers));
  EXPECT_TRUE(code_points_of("Nonsense").empty());
}

// Loops of alternatives need memory for each character. Nested loops need time.
TEST(Patterns, LongTextNeedsMemoryAndGetsIt) {
  const Pattern pattern("(?:a|b)+", "test");
  const Pattern::Memory memory(pattern);
  std::string text;
  while (text.size() < 2 << 20) text += "ab";
  const auto match = pattern.find(text, 0, memory);
  ASSERT_TRUE(match);
  EXPECT_EQ(match->end, text.size());
  const Pattern spaces("\\s*[\\r\\n]+|\\s+(?!\\S)", "test");  // goes back over all of the largest document
  const auto space = spaces.find(std::string(16 << 20, ' ') + "x", 0, Pattern::Memory(spaces));
  ASSERT_TRUE(space);
  EXPECT_EQ(space->end, (std::size_t{16} << 20) - 1);
}

TEST(Patterns, GiveUpWithASentence) {
  const Pattern pattern("(?:a+)+[!?]", "file.json");
  const Pattern::Memory memory(pattern);
  try {
    pattern.find(std::string(64, 'a'), 0, memory);
    ADD_FAILURE() << "it ended";
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("file.json: a pattern fails"), std::string::npos) << e.what();
  }
}
