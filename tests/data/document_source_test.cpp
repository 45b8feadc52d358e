// Tests the division of text and JSON lines into documents: boundaries, refusals with their lines, bounded sizes.
#include "tests/data/read_documents.h"
#include "tests/data/sample.h"

#include "libtrain/base/error.h"
#include "libtrain/data/document_source.h"
#include "libtrain/data/foreign_content.h"

#include <chrono>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <thread>

using namespace sample;
using data::TextSplit;

namespace {

trainyard::testing::ReadDocuments read(const std::vector<std::string>& inputs,
                                       const data::SourceOptions& options = {}) {
  return trainyard::testing::read_documents(inputs, options);
}

class Source : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& content) {
    spit(scratch.path + "/" + name, content);
    return scratch.path + "/" + name;
  }
  Scratch scratch;
};

using Strings = std::vector<std::string>;

}  // namespace

TEST_F(Source, PlainTextIsSplitAsAsked) {
  const auto path = file("a.txt", "one\ntwo\n\n \nthree\r\n\n\nfour");
  EXPECT_EQ(read({path}, {}).documents, (Strings{"one\ntwo\n\n \nthree\r\n\n\nfour"}));
  EXPECT_EQ(read({path}, {.split = TextSplit::paragraphs}).documents, (Strings{"one\ntwo\n", "three\r\n", "four"}));
  EXPECT_TRUE(read({path}, {.split = TextSplit::paragraphs}).refusals.empty());
  const auto lines = read({path}, {.split = TextSplit::lines});
  EXPECT_EQ(lines.documents, (Strings{"one\n", "two\n", "three\r\n", "four"}));
  EXPECT_TRUE(lines.refusals.empty());  // blank lines are not documents
}

TEST_F(Source, EmptyFilesAreRefusedNotSilent) {
  for (auto split : {TextSplit::whole, TextSplit::lines, TextSplit::paragraphs}) {
    const auto out = read({file("a.txt", "text"), file("empty.txt", ""), file("b.txt", "more")}, {.split = split});
    EXPECT_EQ(out.documents, (Strings{"text", "more"}));
    EXPECT_EQ(out.refusals, (Strings{"empty.txt:1: empty document"}));
  }
  EXPECT_EQ(read({file("blank.txt", "\n\n")}, {.split = TextSplit::paragraphs}).refusals,
            (Strings{"blank.txt:1: empty document"}));
  EXPECT_EQ(read({file("empty.jsonl", "")}, {}).refusals, (Strings{"empty.jsonl:1: empty document"}));
}

TEST_F(Source, JsonLinesNameTheirFaults) {
  const auto path = file("a.jsonl",
                         "{\"text\": \"good \\u00e9\\n\", \"n\": 1}\n"
                         "not json\n"
                         "{\"other\": 1}\n"
                         "{\"text\": 5}\n"
                         "{\"text\": \"\"}\n"
                         "\n"
                         "{\"text\": \"bad \xff\"}\n"
                         "[1, 2]\n"
                         "{\"text\": \"last\"}");
  const auto out = read({path}, {});
  EXPECT_EQ(out.documents, (Strings{"good \xc3\xa9\n", "last"}));
  EXPECT_EQ(out.refusals,
            (Strings{"a.jsonl:2: not JSON", "a.jsonl:3: no key 'text'", "a.jsonl:4: key 'text' is not text",
                     "a.jsonl:5: empty document", "a.jsonl:6: empty document", "a.jsonl:7: invalid UTF-8",
                     "a.jsonl:8: not a JSON object"}));
  EXPECT_EQ(read({path}, {.json_key = "other"}).refusals.size(), 9u);
}

// Values that Python's json and most writers put into keys that nobody asks for. Of equal keys the last counts.
TEST_F(Source, JsonLinesOfOtherProgramsAreRead) {
  const auto text_of = [&](const std::string& line) {
    const auto out = read({file("a.jsonl", line + "\n{\"text\": \"next\"}\n")}, {});
    EXPECT_EQ(out.documents.empty() ? "" : out.documents.back(), "next") << line;
    return out.documents.size() == 2 ? out.documents[0] : out.refusals.empty() ? "nothing" : out.refusals[0];
  };
  const std::string deep(3000, '['), deep_end(3000, ']');
  for (const auto& value : Strings{"123456789012345678901234567890", "1e400", "-1e-999", "NaN", "Infinity", "-Infinity",
                                   "\"\\ud800\"", "\"\\uDC00 a\"", "[1, NaN, {\"b\": \"\\ud83d\"}, []]", "{}",
                                   "[{}, {\"a\": [1e999]}]", deep + deep_end}) {
    EXPECT_EQ(text_of("{\"meta\": " + value + ", \"text\": \"good \\u00e9\"}"), "good \xc3\xa9") << value.substr(0, 50);
    EXPECT_EQ(text_of("{\"text\": \"good\", \"meta\": " + value + "}"), "good") << value.substr(0, 50);
  }
  EXPECT_EQ(text_of("{\"text\": \"first\", \"text\": \"last\"}"), "last");
  EXPECT_EQ(text_of("{\"text\": \"first\", \"t\\u0065xt\": \"last\", \"n\": NaN}"), "last");
  EXPECT_EQ(text_of("{\"\\ud800\": 1, \"text\": \"good\"}"), "good");
  EXPECT_EQ(text_of("{\"text\": \"bad \\ud800\"}"), "a.jsonl:1: key 'text' holds half of a surrogate pair");
  EXPECT_EQ(text_of("{\"text\": NaN}"), "a.jsonl:1: key 'text' is not text");
  EXPECT_EQ(text_of("{\"n\": NaN}"), "a.jsonl:1: no key 'text'");
  for (const auto& line :
       Strings{"{\"text\": \"cut\", \"n\": NaN", "{\"text\": \"a\", \"n\": Nan}", "{\"text\": \"a\" \"n\": 1}",
               "{\"text\": \"a\",}", "{\"text\": \"a\", \"n\": [1,]}", "{\"text\": \"a\", \"n\": 01}",
               "{\"text\": \"a\", \"n\": 1.}", "{\"text\": \"a\", \"n\": +1}", "{\"text\": \"a\", \"n\": \"\\ud80\"}",
               "{\"text\": \"a\", \"n\": \"\\x\"}", "{\"text\": \"a\", \"n\": NaN} more", "{\"text\": \"a\", \"n\": [}",
               "{'text': 'a'}", "{\"text\"", "{\"text\": \"a\\"})
    EXPECT_EQ(text_of(line), "a.jsonl:1: not JSON") << line;
}

// An input with such a beginning is refused as a whole, packed or not, before any earlier input is read.
TEST_F(Source, WhatIsNoTextIsRefused) {
  const auto refusal = [&](const std::string& name, const std::string& content) -> std::string {
    try {
      const auto before = file("before.txt", "text"), path = file(name, content);
      data::DocumentSource source({before, path}, {});
      data::DocumentSource::SourceStretch stretch;
      source.next(stretch);
      return "taken: " + std::string(stretch.stretch.text());
    } catch (const base::InputError& e) {
      auto said = std::string(e.what()) + "; " + e.hint();
      for (auto at = said.find(scratch.path); at != std::string::npos; at = said.find(scratch.path))
        said.erase(at, scratch.path.size() + 1);
      return said;
    }
  };
  const auto wide = [](const std::string& text, bool low_first) {
    std::string out;
    for (const char c : text) out += low_first ? std::string{c, 0} : std::string{0, c};
    return out;
  };
  const std::string words = "Some words of a text that is as long as texts are.\n";
  EXPECT_EQ(refusal("a.txt", "\xFF\xFE" + wide(words, true)),
            "a.txt is UTF-16 text; iconv -f UTF-16 -t UTF-8 a.txt >utf8.txt");
  EXPECT_EQ(refusal("a.txt", "\xFE\xFF" + wide(words, false)).substr(0, 20), "a.txt is UTF-16 text");
  EXPECT_EQ(refusal("a.txt", std::string("\xFF\xFE\0\0a\0\0\0", 8)).substr(0, 20), "a.txt is UTF-32 text");
  EXPECT_EQ(refusal("a.txt", wide(words, true)).substr(0, 16), "a.txt is no text");
  std::string tar(1024, '\0');
  tar.replace(0, 5, "a.txt").replace(257, 6, std::string("ustar\0", 6));
  EXPECT_EQ(refusal("a.tar", tar).substr(0, 22), "a.tar is a tar archive");
  const std::string old =
      std::string("a.txt") + std::string(95, '\0') + "0000644" + std::string(405, '\0');  // a tar archive of 1979
  EXPECT_EQ(refusal("a.tar", old + std::string(60'000, 'x')).substr(0, 16), "a.tar is no text");
  EXPECT_EQ(refusal("a.deb", "!<arch>\ndebian-binary").substr(0, 22), "a.deb is an ar archive");
  EXPECT_EQ(refusal("a.docx", "PK\3\4 stored").substr(0, 23), "a.docx is a zip archive");
  EXPECT_EQ(refusal("a.xz", std::string("\xFD"
                                        "7zXZ\0",
                                        6)),
            "a.xz is packed with xz; xz -dc a.xz | shard-data --input -");
  EXPECT_EQ(refusal("a.Z", "\x1F\x9D\x90"), "a.Z is packed with compress; zcat a.Z | shard-data --input -");
  EXPECT_EQ(refusal("a.lz", "LZIP\1"), "a.lz is packed with lzip; lzip -dc a.lz | shard-data --input -");
  EXPECT_EQ(refusal("a.gif", "GIF89a\x01"), "a.gif is a GIF image; export it as plain text");
  EXPECT_EQ(refusal("a.txt", "[ {\"text\": \"a\"}]").substr(0, 42), "a.txt is a JSON list, and no JSON lines; j");
  EXPECT_EQ(refusal("a.parquet", "PAR1\x15\x04").substr(0, 27), "a.parquet is a Parquet file");
  EXPECT_EQ(refusal("a.jsonl", " [{\"text\": \"a\"}]"),
            "a.jsonl is a JSON list, and no JSON lines; jq -c '.[]' a.jsonl >lines.jsonl makes them");
  EXPECT_EQ(refusal("a.json", "\n{\n  \"text\": \"a\"\n}\n").substr(0, 34), "a.json is JSON over several lines,");
  for (const auto& text : Strings{"PARIS is worth a mass", "Mustard", std::string(254, 'a') + " mustard",
                                  "BZh is no word", "[a list that is text]", "{", "{\n", "PK",
                                  std::string("one \0 in many", 13) + words + words, std::string("one\0", 4)})
    EXPECT_EQ(refusal("a.txt", text), "taken: text") << text;
  EXPECT_EQ(refusal("a.jsonl", "{\"text\": \"a\"}\n"), "taken: text");
  EXPECT_EQ(refusal("a.jsonl", ""), "taken: text");
}

// What makes a plain text look like JSON lines, and what does not.
TEST_F(Source, JsonLinesUnderAnotherNameAreKnown) {
  const auto keys = [](const std::string& head, bool whole = true) -> std::string {
    const auto found = data::json_lines_in(head, whole, "text");
    return found ? fmt::format("{}", fmt::join(found->text_keys, " ")) : "none";
  };
  const std::string a = "{\"id\": 1, \"text\": \"a\", \"name\": \"b\"}", other = "{\"body\": \"a\"}";
  EXPECT_EQ(keys(a), "text name");
  EXPECT_EQ(keys("\xEF\xBB\xBF\n" + a + "\r\n \n" + a + "\n"), "text name");
  EXPECT_EQ(keys(other), "none");  // a single line may be anything
  EXPECT_EQ(keys(other + "\n" + other), "body");
  EXPECT_EQ(keys("{}\n{\"n\": NaN}\n"), "");
  EXPECT_EQ(keys(a + "\nno json\n" + a), "none");
  EXPECT_EQ(keys(a + "\n[1]\n"), "none");
  EXPECT_EQ(keys(a + "\n" + a.substr(0, 9)), "none");
  EXPECT_EQ(keys(a + "\n" + a.substr(0, 9), false), "text name");  // the head ends within a line
  for (const std::string text : {"", "\n \n", "text", "{", "{\n  \"text\": \"a\"\n}\n",
                                 "{ braces } of a text\n{ more }\n", "\"text\"\n", "{\"text\": 1}"})
    EXPECT_EQ(keys(text), "none") << text;
  const std::string longer(data::foreign_head, 'x');
  EXPECT_EQ(keys("{ \"body\" : \"" + longer, false), "body");
  EXPECT_EQ(keys("{\"id\": 1, \"" + longer, false), "");
  EXPECT_EQ(keys("{\"body\" " + longer, false), "none");
  EXPECT_EQ(keys("{" + longer, false), "none");
}

TEST_F(Source, InvalidUtf8IsRefusedWithItsFirstLine) {
  const auto path = file("a.txt", "good\n\ngood\nbad \xc3\x28\n\nalso good \xe2\x82\xac\n");
  const auto out = read({path}, {.split = TextSplit::paragraphs});
  EXPECT_EQ(out.documents, (Strings{"good\n", "also good \xe2\x82\xac\n"}));
  EXPECT_EQ(out.refusals, (Strings{"a.txt:3: invalid UTF-8"}));
  for (const char* bad : {"\x80", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf0\x9f\x98"})
    EXPECT_FALSE(data::is_utf8(bad)) << bad;
}

TEST_F(Source, LongTextIsCutBetweenCharacters) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += i % 3 == 0 ? "\xe2\x82\xac" : i % 50 == 7 ? "\n" : "x";
  for (std::int64_t limit : {16, 100, 1000}) {
    const auto out = read({file("a.txt", text)}, {.largest_document = limit});
    std::string joined;
    for (const auto& d : out.documents) {
      EXPECT_LE(static_cast<std::int64_t>(d.size()), limit);
      EXPECT_GT(static_cast<std::int64_t>(d.size()), d == out.documents.back() ? 0 : limit - 4);
      joined += d;
    }
    EXPECT_EQ(joined, text);
    EXPECT_TRUE(out.refusals.empty());
  }
}

TEST_F(Source, ALongJsonLineIsRefusedOnce) {
  const std::string good = "{\"text\": \"good\"}\n";
  const auto out = read({file("a.jsonl", good + "{\"text\": \"" + std::string(5 << 20, 'x') + "\"}\n" + good)},
                        {.largest_document = 1 << 20});
  EXPECT_EQ(out.documents, (Strings{"good", "good"}));
  EXPECT_EQ(out.refusals, (Strings{fmt::format("a.jsonl:2: line longer than {} bytes", 1 << 20)}));
}

TEST_F(Source, TheLimitOfAJsonLineIsExact) {
  const auto line = [](std::size_t bytes) { return "{\"text\": \"" + std::string(bytes - 12, 'x') + "\"}\n"; };
  EXPECT_EQ(read({file("a.jsonl", line(1000))}, {.largest_document = 1000}).documents.size(), 1u);
  EXPECT_EQ(read({file("a.jsonl", line(1001))}, {.largest_document = 1000}).refusals,
            (Strings{"a.jsonl:1: line longer than 1000 bytes"}));
}

TEST_F(Source, ANamedPipeIsOpenedOnce) {
  const auto path = scratch.path + "/pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] { spit(path, std::string(3 << 20, 'x')); });
  const auto out = read({path}, {});
  writer.join();
  ASSERT_EQ(out.documents.size(), 1u);
  EXPECT_EQ(out.documents[0].size(), std::size_t{3} << 20);
}

// However the bytes of a pipe arrive, its beginning is examined like the beginning of a file.
TEST_F(Source, APipeIsLookedAtHoweverItsBytesArrive) {
  const auto through = [&](const std::string& content, std::size_t first, const data::SourceOptions& options = {}) {
    const auto path = scratch.path + "/pipe";
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    std::thread writer([&] {
      std::ofstream pipe(path);
      pipe << content.substr(0, first) << std::flush;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      pipe << content.substr(first);
    });
    std::string said;
    try {
      for (const auto& document : read({path}, options).documents) said += "taken: " + document;
    } catch (const base::InputError& e) {
      said = e.what();
    }
    writer.join();
    fs::remove(path);
    return said;
  };
  std::string tar(1024, '\0');
  tar.replace(0, 5, "a.txt").replace(257, 6, std::string("ustar\0", 6));
  for (const std::size_t first : {1, 100, 1024})
    EXPECT_TRUE(through(tar, first).ends_with("is a tar archive")) << through(tar, first);
  const std::string list = "[\n {\"text\": \"a\"}\n]\n", one = "{\n \"text\": \"a\"\n}\n",
                    lines = "{\"text\": \"a\"}\n";
  for (const std::size_t first : {1, 5}) {
    EXPECT_TRUE(through(list, first).ends_with("is a JSON list, and no JSON lines")) << through(list, first);
    EXPECT_TRUE(through(one, first).ends_with("and no object a line")) << through(one, first);
    EXPECT_EQ(through(lines, first), "taken: a");
    EXPECT_EQ(through(list, first, {.split = TextSplit::whole}), "taken: " + list);
  }
  EXPECT_EQ(through("[a, b]", 1), "taken: [a, b]");
}

TEST_F(Source, ListsNameTheirFiles) {
  const auto a = file("a.txt", "first"), b = file("b.txt", "second");
  const auto list = file("list", b + "\n\n" + a + "\n");
  EXPECT_EQ(read({"@" + list, a}, {}).documents, (Strings{"second", "first", "first"}));
  EXPECT_THROW(read({"@" + scratch.path + "/absent"}, {}), base::InputError);
  EXPECT_THROW(read({a, scratch.path + "/absent"}, {}), base::InputError);
  EXPECT_EQ(read({scratch.path}, {.folders = {.include = {"[ab].*"}}}).documents, (Strings{"first", "second"}));
  EXPECT_THROW(read({scratch.path}, {.folders = {.include = {"c.*"}}}), base::InputError);
}

TEST_F(Source, ListsHaveEitherLineEndAndABound) {
  const auto a = file("a.txt", "one"), b = file("b.txt", "two");
  EXPECT_EQ(read({"@" + file("list", "\xEF\xBB\xBF" + a + "\r\n\r\n" + b + "\r\n")}, {}).documents,
            (Strings{"one", "two"}));
  const auto large = file("large", "");
  fs::resize_file(large, (std::uintmax_t{64} << 20) + 1);
  try {
    read({"@" + large}, {});
    FAIL();
  } catch (const base::InputError& e) {
    EXPECT_NE(std::string(e.what()).find("a list of more than 64 MiB"), std::string::npos) << e.what();
  }
}

TEST_F(Source, CuttingTakesTimeInProportionToTheText) {
  const std::string text(std::size_t{8} << 20, 'x');
  std::string all;
  for (const auto& part : read({file("long", text)}, {.largest_document = 16}).documents) all += part;
  EXPECT_EQ(all, text);
}
