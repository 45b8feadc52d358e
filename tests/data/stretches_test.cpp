// Tests stretches. Whatever their size and however the bytes arrive, documents, refusals and lines equal a plain loop
// over the whole text. A set has the same bytes for every number of threads.
#include "tests/data/read_documents.h"
#include "tests/data/sample.h"

#include "libtrain/base/error.h"
#include "libtrain/data/builder.h"
#include "libtrain/data/shard_reader.h"
#include "libtrain/data/tokenizing.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <random>

using namespace sample;
using data::TextSplit;
using trainyard::testing::read_documents;
using trainyard::testing::ReadDocuments;

namespace {

using Strings = std::vector<std::string>;

bool only_white(const std::string& text) { return text.find_first_not_of(" \t\r\n") == std::string::npos; }

// Well-formed UTF-8 as RFC 3629 defines it, checked byte by byte.
bool well_formed(const std::string& text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned first = byte(i), second = byte(i + 1);
    const std::size_t n = first < 0x80   ? 1
                          : first < 0xC2 ? 0
                          : first < 0xE0 ? 2
                          : first < 0xF0 ? 3
                          : first < 0xF5 ? 4
                                         : 0;
    if (n == 0 || (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
        (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F))
      return false;
    for (std::size_t k = 1; k < n; ++k)
      if ((byte(i + k) & 0xC0u) != 0x80) return false;
    i += n;
  }
  return true;
}

// The documents of a text that is in memory as a whole.
class Plain {
 public:
  Plain(const std::string& name, std::size_t most) : name_(name), most_(most) {}

  ReadDocuments of(const std::string& text, TextSplit split) {
    std::string document;
    std::int64_t line = 0, first = 1;
    const auto end = [&] {
      give(document, first);
      document.clear();
      first = line + 1;
    };
    for (std::size_t at = 0; at < text.size();) {
      const auto stop = std::min(text.find('\n', at), text.size() - 1) + 1;
      const auto row = text.substr(at, stop - at);
      at = stop;
      ++line;
      if (split == TextSplit::paragraphs && only_white(row)) end();
      else if (split == TextSplit::lines && only_white(row)) first = line + 1;
      else document += row;
      if (split == TextSplit::lines) end();
    }
    give(document, first);
    if (out_.documents.empty() && out_.refusals.empty()) refuse(1, "empty document");
    return out_;
  }

 private:
  void refuse(std::int64_t line, const char* why) {
    out_.refusals.push_back(fmt::format("{}:{}: {}", name_, line, why));
  }
  void give(std::string text, std::int64_t line) {
    while (!text.empty()) {
      auto n = std::min(most_, text.size());
      for (int back = 0; back < 4 && n < text.size() && n > 0 && (text[n] & 0xC0) == 0x80; ++back) --n;
      const auto part = text.substr(0, n);
      if (only_white(part)) refuse(line, "empty document");
      else if (!well_formed(part)) refuse(line, "invalid UTF-8");
      else out_.documents.push_back(part);
      line += std::count(part.begin(), part.end(), '\n');
      text.erase(0, n);
    }
  }

  ReadDocuments out_;
  std::string name_;
  std::size_t most_;
};

std::string random_text(std::mt19937& random) {
  static const Strings words{"a",
                             "word",
                             " ",
                             "\n",
                             "\n",
                             "\n\n",
                             "\r\n",
                             "  \n",
                             "\t",
                             "\xC3\xA9",
                             "\xE2\x82\xAC",
                             "\xF0\x9F\x98\x80",
                             "long words in a row",
                             "                        ",
                             "\n \n"};
  std::string out;
  for (auto n = random() % 200; n > 0; --n) out += words[random() % words.size()];
  if (random() % 4 == 0 && !out.empty()) out.insert(random() % out.size(), "\xFF");
  return out;
}

class Stretches : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& content) {
    spit(scratch.path + "/" + name, content);
    return scratch.path + "/" + name;
  }
  Scratch scratch;
};

// Reads the text as from a pipe: some bytes at a time.
ReadDocuments in_parts(const std::string& text, const data::SplitRules& rules, std::size_t least,
                       std::mt19937& random) {
  ReadDocuments out;
  data::StretchCutter cutter(rules, least);
  data::DocumentSplitter splitter;
  data::Findings findings;
  data::Stretch stretch;
  std::int64_t lines = 0;
  bool silent = true;
  const auto split = [&] {
    splitter.split(
        stretch, rules, [&](std::string_view t) { out.documents.emplace_back(t); }, findings);
    for (const auto& f : findings.faults) out.refusals.push_back(fmt::format("a:{}: {}", lines + f.line, f.reason));
    lines += findings.lines;
    silent &= findings.silent;
  };
  for (std::size_t at = 0; at < text.size();) {
    const auto n = std::min<std::size_t>(1 + random() % 9, text.size() - at);
    text.copy(cutter.room(n), n, at);
    cutter.take(n);
    at += n;
    while (cutter.cut(stretch)) split();
  }
  cutter.cut_rest(stretch);
  split();
  if (silent) out.refusals.emplace_back("a:1: empty document");
  EXPECT_EQ(lines, std::count(text.begin(), text.end(), '\n') + (text.empty() || text.back() == '\n' ? 0 : 1));
  return out;
}

}  // namespace

TEST_F(Stretches, PlainTextIsThatOfALoopOverAllOfIt) {
  std::mt19937 random(7);
  for (int round = 0; round < 1500; ++round) {
    const auto text = random_text(random);
    for (const auto split : {TextSplit::whole, TextSplit::lines, TextSplit::paragraphs}) {
      const std::size_t most = 16 + random() % 40, least = 1 + random() % 60;
      const auto expected = Plain("a", most).of(text, split);
      data::SplitRules rules;
      rules.split = split;
      rules.largest_document = static_cast<std::int64_t>(most);
      const auto found = in_parts(text, rules, least, random);
      ASSERT_EQ(found.documents, expected.documents) << "round " << round << ", least " << least << ", most " << most;
      ASSERT_EQ(found.refusals, expected.refusals) << "round " << round << ", least " << least << ", most " << most;
    }
  }
}

TEST_F(Stretches, JsonLinesAreThoseOfAListOfThem) {
  std::mt19937 random(11);
  const auto object = [](std::size_t n) { return "{\"text\": \"" + std::string(n, 'x') + "\"}"; };
  for (int round = 0; round < 500; ++round) {
    const std::size_t most = 30 + random() % 30;
    std::string text;
    ReadDocuments expected;
    for (std::int64_t line = 1, lines = 1 + random() % 30; line <= lines; ++line) {
      const auto refuse = [&](const std::string& why) {
        expected.refusals.push_back(fmt::format("a:{}: {}", line, why));
      };
      switch (random() % 7) {
        case 0: text += " \t", refuse("empty document"); break;
        case 1: text += "no", refuse("not JSON"); break;
        case 2: text += "{\"text\": \"\xFF\"}", refuse("invalid UTF-8"); break;
        case 3:
          text += object(most - 12 + 1 + random() % 100);
          refuse(fmt::format("line longer than {} bytes", most));
          break;
        case 4: text += object(most - 12), expected.documents.emplace_back(most - 12, 'x'); break;
        case 5: text += "\xEF\xBB\xBF{\"text\": \"\\u00e9\"}", expected.documents.emplace_back("\xC3\xA9"); break;
        default: text += "{\"n\": 1}", refuse("no key 'text'");
      }
      if (line < lines || random() % 2 == 0) text += "\n";
    }
    data::SplitRules rules;
    rules.json_lines = true;
    rules.largest_document = static_cast<std::int64_t>(most);
    const auto found = in_parts(text, rules, 1 + random() % 100, random);
    ASSERT_EQ(found.documents, expected.documents) << "round " << round;
    ASSERT_EQ(found.refusals, expected.refusals) << "round " << round;
  }
}

TEST_F(Stretches, AVeryLongLineOfWhiteSpaceIsText) {
  const auto within = "one\n" + std::string(data::longest_blank - 1, ' ') + "\ntwo\n";
  const auto beyond = "one\n" + std::string(data::longest_blank, ' ') + "\ntwo\n";
  for (const std::size_t least : {std::size_t{1000}, std::size_t{3} << 20}) {
    const data::SourceOptions options{.split = TextSplit::paragraphs};
    EXPECT_EQ(read_documents({file("within", within)}, options, least).documents, (Strings{"one\n", "two\n"}));
    EXPECT_EQ(read_documents({file("beyond", beyond)}, options, least).documents, Strings{beyond});
    data::DocumentSource task({file("beyond", beyond)}, options);
    task.take({1, 2});  // its share begins within that line, and no document begins after the line
    EXPECT_TRUE(task.pieces().empty());
  }
}

TEST_F(Stretches, MemoryIsThatOfAStretchAndALargestDocument) {
  data::SplitRules rules;
  rules.split = TextSplit::paragraphs;
  rules.largest_document = 1000;
  data::StretchCutter cutter(rules, 2000);
  data::Stretch stretch;
  std::size_t most_held = 0, longest = 0;
  for (int i = 0; i < 100000; ++i) {
    std::fill_n(cutter.room(100), 100, 'x');
    cutter.take(100);
    most_held = std::max(most_held, cutter.held().size());
    while (cutter.cut(stretch)) longest = std::max(longest, stretch.size);
  }
  EXPECT_LE(most_held, 3100u);
  EXPECT_LE(longest, 3100u);
}

namespace {

// Each byte is a token. The time that a document takes is unrelated to its place.
class Uneven : public Numbers {
 public:
  explicit Uneven(std::int64_t vocabulary) : Numbers(vocabulary) {}
  void encode(std::string_view text, std::vector<std::int32_t>& out) const override {
    if (++documents == fails_at) throw base::InputError("this document cannot be encoded");
    volatile unsigned work = 0;
    for (unsigned n = static_cast<unsigned char>(text[0]) % 8 * 3000; n > 0; --n) work = work + n;
    for (const char c : text) out.push_back(static_cast<unsigned char>(c));
  }
  mutable std::atomic<int> documents{0};
  int fails_at = -1;
};

std::map<std::string, std::string> files_of(const std::string& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) out[fs::relative(entry.path(), folder).string()] = slurp(entry.path().string());
  return out;
}

}  // namespace

class Threads : public Stretches {
 protected:
  data::BuildResult build(const std::vector<std::string>& inputs, const data::Tokenizer& tokenizer, int threads,
                          std::size_t stretch_bytes, const std::string& name, const data::SourceOptions& options) {
    data::DocumentSource source(inputs, options);
    data::BuildOptions o;
    o.output = scratch.path + "/" + name;
    o.shard_tokens = 3000;
    o.validation = 0.2;
    o.largest_rejected = 1;
    o.rejects = scratch.path + "/" + name + ".tsv";
    o.threads = threads;
    o.stretch_bytes = stretch_bytes;
    return data::build_shards(source, tokenizer, o, [](std::int64_t) {});
  }

  std::string text_file(const std::string& name, unsigned seed) {
    std::mt19937 random(seed);
    std::string text;
    for (int i = 0; i < 25; ++i) text += random_text(random);
    return file(name, text);
  }
};

TEST_F(Threads, ASetHasTheSameBytesForEveryNumber) {
  const std::vector<std::string> inputs{text_file("a.txt", 1), file("empty", ""), text_file("b.txt", 2),
                                        file("c.jsonl", "{\"text\": \"json\"}\nbad\n{\"text\": \"lines\"}")};
  for (const auto split : {TextSplit::lines, TextSplit::paragraphs, TextSplit::whole}) {
    const data::SourceOptions options{.split = split, .largest_document = 100};
    for (const std::int64_t vocabulary : {257, 70000}) {
      if (vocabulary > 257 && split != TextSplit::lines) continue;
      const Uneven tokenizer(vocabulary);
      build(inputs, tokenizer, 1, 1 << 20, "one", options);
      const auto set = files_of(scratch.path + "/one");
      EXPECT_GE(set.size(), 4u);
      const auto refused = slurp(scratch.path + "/one.tsv");
      EXPECT_FALSE(refused.empty());
      using Way = std::pair<int, std::size_t>;  // threads, bytes of a stretch
      for (const auto& [threads, stretch] : {Way{1, 61}, Way{2, 1}, Way{2, 1000}, Way{3, 61}, Way{7, 1}}) {
        build(inputs, tokenizer, threads, stretch, "other", options);
        EXPECT_EQ(files_of(scratch.path + "/other"), set) << threads << " threads, stretches of " << stretch;
        EXPECT_EQ(slurp(scratch.path + "/other.tsv"), refused) << threads << " threads, stretches of " << stretch;
        fs::remove_all(scratch.path + "/other");
        fs::remove(scratch.path + "/other.tsv");
      }
      fs::remove_all(scratch.path + "/one");
      fs::remove(scratch.path + "/one.tsv");
    }
  }
}

TEST_F(Threads, TokensAreThoseOfTheDocumentsInTheirOrder) {
  const auto path = text_file("a.txt", 3);
  for (const auto split : {TextSplit::lines, TextSplit::paragraphs}) {
    const auto expected = Plain("a.txt", 100).of(slurp(path), split);
    const Uneven tokenizer(257);
    const auto name = split == TextSplit::lines ? "lines" : "paragraphs";
    const auto result = build({path}, tokenizer, 3, 50, name, {.split = split, .largest_document = 100});
    EXPECT_EQ(result.documents, static_cast<std::int64_t>(expected.documents.size()));
    EXPECT_EQ(result.rejected + result.empty, static_cast<std::int64_t>(expected.refusals.size()));
    std::map<data::Split, std::string> texts, found;
    std::int64_t bytes = 0;
    for (const auto& d : expected.documents) {
      texts[data::split_of_document(d, 0.2)] += d + "|";
      bytes += static_cast<std::int64_t>(d.size());
    }
    EXPECT_EQ(result.text_bytes, bytes);
    const auto folder = scratch.path + "/" + name;
    const auto index = data::read_index(folder);
    for (const auto s : {data::Split::train, data::Split::validation})
      for (const auto& entry : s == data::Split::train ? index.train : index.validation) {
        data::ShardReader shard(folder, index, entry);
        std::vector<std::int32_t> tokens(static_cast<std::size_t>(entry.tokens));
        shard.read(0, entry.tokens, tokens.data());
        for (const auto t : tokens) found[s] += t == 256 ? '|' : static_cast<char>(t);
      }
    EXPECT_EQ(found, texts);
  }
}

// The build may be stopped while a shard is being written.
TEST_F(Threads, AnEndWaitsForTheShardThatIsWritten) {
  const auto path = text_file("a.txt", 5);
  const Uneven tokenizer(257);
  for (int end = 1; end < 60; ++end) {
    data::DocumentSource source({path}, {.split = TextSplit::lines});
    data::BuildOptions o;
    o.output = scratch.path + "/ended";
    o.shard_tokens = 300;
    o.largest_rejected = 1;
    o.stretch_bytes = 50;
    int reads = 0;
    const auto progress = [&](std::int64_t) {
      if (++reads == 3 * end) throw base::EnvironmentError("stopped");
    };
    EXPECT_THROW(data::build_shards(source, tokenizer, o, progress), base::EnvironmentError) << end;
    EXPECT_FALSE(fs::exists(o.output) || fs::exists(o.output + ".partial"));
  }
}

TEST_F(Threads, WhatFailsEndsItAndNothingIsLeft) {
  const auto path = text_file("a.txt", 4);
  for (const int threads : {1, 3}) {
    Uneven tokenizer(257);
    tokenizer.fails_at = 40;
    EXPECT_THROW(build({path}, tokenizer, threads, 50, "failed", {.split = TextSplit::lines}), base::InputError);
    EXPECT_FALSE(fs::exists(scratch.path + "/failed") || fs::exists(scratch.path + "/failed.partial"));
    fs::remove(scratch.path + "/failed.tsv");
    int polls = 0;
    const auto poll = [&] {
      if (++polls == 2) throw base::EnvironmentError("stopped");
    };
    const Uneven good(257);
    EXPECT_THROW(build({path}, good, threads, 50, "stopped", {.split = TextSplit::lines, .poll = poll}),
                 base::EnvironmentError);
    EXPECT_FALSE(fs::exists(scratch.path + "/stopped") || fs::exists(scratch.path + "/stopped.partial"));
    fs::remove(scratch.path + "/stopped.tsv");
  }
}
