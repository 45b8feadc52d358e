// Tests packed inputs: gzip and zstd are recognized by their first bytes, members follow one another, and every
// truncation and flipped byte is refused by name. Also byte order marks and names of sources.
#include "tests/data/read_documents.h"
#include "tests/data/sample.h"

#include "libtrain/base/error.h"
#include "libtrain/data/document_source.h"
#include "libtrain/io/input_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <thread>

using namespace sample;

namespace packed_test {

std::string unpacked(const std::string& path, std::size_t step = 1000) {
  trainyard::io::InputStream in(path, {});
  EXPECT_EQ(in.read(nullptr, 0), 0u);
  std::string out, buffer(step, '\0');
  while (const auto n = in.read(buffer.data(), buffer.size())) out.append(buffer, 0, n);
  EXPECT_EQ(in.read(buffer.data(), buffer.size()), 0u);  // reading on returns the end again
  return out;
}

std::string refusal(const std::string& path) {
  try {
    unpacked(path);
    return "";
  } catch (const base::InputError& e) {
    EXPECT_FALSE(e.hint().empty());
    return e.what();
  }
}

class Packed : public ::testing::Test {
 protected:
  void SetUp() override {
    std::uint32_t x = 1;
    for (int i = 0; i < 20000; ++i) text += fmt::format("line {} {}\n", i, (x = x * 1664525u + 1013904223u) >> 12);
    for (int i = 0; i < 3000; ++i) text += "again and again ";
    spit(scratch.path + "/text", text);
  }
  // The program's output, or "" where it is not installed.
  std::string pack(const std::string& command) {
    const auto out = scratch.path + "/packed";
    if (std::system(fmt::format("cd {} && {} <text >packed 2>/dev/null", scratch.path, command).c_str()) != 0)
      return "";
    return slurp(out);
  }
  std::string file(const std::string& name, const std::string& content) {
    spit(scratch.path + "/" + name, content);
    return scratch.path + "/" + name;
  }
  void expect_all_of(const std::string& packed, const std::string& kind) {
    for (const std::size_t step : {1, 7, 4096, 1 << 20}) {
      if (step == 1 && text.size() > 1000000) continue;
      EXPECT_EQ(unpacked(file("x", packed), step), text) << kind << " in steps of " << step;
    }
    EXPECT_EQ(unpacked(file("x", packed + packed)), text + text) << kind << " twice";
    int cuts = 0;
    for (std::size_t n = 5; n < packed.size(); n += packed.size() / 61 + 1, ++cuts)
      EXPECT_NE(refusal(file("cut", packed.substr(0, n))).find("cut is cut off: its " + kind), std::string::npos) << n;
    EXPECT_NE(refusal(file("cut", packed.substr(0, packed.size() - 1))).find("is cut off"), std::string::npos);
    EXPECT_NE(refusal(file("cut", packed + packed.substr(0, packed.size() / 2))).find("is cut off"), std::string::npos);
    EXPECT_GT(cuts, 40);
    EXPECT_NE(refusal(file("more", packed + "and more")).find("more is damaged"), std::string::npos) << kind;
    auto bad = packed;
    bad[bad.size() / 2] = static_cast<char>(bad[bad.size() / 2] ^ 0x10);
    EXPECT_NE(refusal(file("bad", bad)), "") << kind;
  }
  Scratch scratch;
  std::string text;
};

trainyard::testing::ReadDocuments read(const std::vector<std::string>& inputs,
                                       const data::SourceOptions& options = {}) {
  return trainyard::testing::read_documents(inputs, options);
}

using Strings = std::vector<std::string>;
const std::string mark = "\xEF\xBB\xBF";

TEST_F(Packed, Gzip) {
  const auto packed = pack("gzip -n");
  ASSERT_FALSE(packed.empty());
  expect_all_of(packed, "gzip");
  EXPECT_EQ(unpacked(file("padded", packed + std::string(600000, '\0'))), text);  // padding of a tape
  EXPECT_NE(refusal(file("padded", packed + std::string(10, '\0') + packed)).find("something follows its end"),
            std::string::npos);
}

TEST_F(Packed, Zstd) {
  const auto packed = pack("zstd -q --check");
  if (packed.empty()) GTEST_SKIP() << "zstd is not installed";
  expect_all_of(packed, "zstd");
  EXPECT_EQ(unpacked(file("skippable", std::string("\x50\x2a\x4d\x18\x02\0\0\0ab", 10) + packed)), text);
}

TEST_F(Packed, WhatOnlyBeginsAlikeIsPlain) {
  for (const std::string plain : {"\x1f", "\x28\xb5", "(", "P", "P*M", "", "plain text"})
    EXPECT_EQ(unpacked(file("plain", plain)), plain);
}

TEST_F(Packed, NamesSayWhatIsInsideBytesSayHowItIsPacked) {
  spit(scratch.path + "/text", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
  const auto packed = pack("gzip");
  for (const char* name : {"a.jsonl.gz", "a.jsonl", "a.json.zst"})
    EXPECT_EQ(read({file(name, packed)}).documents, (Strings{"one", "two"})) << name;
  const auto path = file("a.gz", packed);  // a name of plain text
  EXPECT_THROW(read({path}), base::InputError);
  EXPECT_EQ(read({path}, {.split = data::TextSplit::whole}).documents.size(), 1u);
  EXPECT_EQ(read({path}, {.json_key = "text"}).documents, (Strings{"one", "two"}));
  data::DocumentSource source({file("a.jsonl.gz", packed)}, {});
  EXPECT_EQ(source.total_bytes(), static_cast<std::int64_t>(packed.size()));
  trainyard::testing::read_documents(source);
  EXPECT_EQ(source.bytes_read(), source.total_bytes());
}

TEST_F(Packed, APipeTellsByItsFirstByte) {
  const auto path = scratch.path + "/pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  for (const auto& head : {std::string(), mark}) {
    std::thread writer([&] { spit(path, head + "{\"text\": \"one\"}\n" + head + "{\"text\": \"two\"}\n"); });
    EXPECT_EQ(read({path}).documents, (Strings{"one", "two"}));
    writer.join();
  }
}

TEST_F(Packed, AByteOrderMarkIsNoText) {
  EXPECT_EQ(read({file("a.jsonl", mark + "{\"text\": \"one\"}\n" + mark + "{\"text\": \"two\"}\n")}).documents,
            (Strings{"one", "two"}));
  EXPECT_EQ(read({file("a.txt", mark + "plain")}).documents, (Strings{"plain"}));
  EXPECT_EQ(read({file("a.txt", mark)}).refusals, (Strings{"a.txt:1: empty document"}));
  EXPECT_EQ(read({file("a.txt", "in " + mark + "side")}).documents, (Strings{"in " + mark + "side"}));
  EXPECT_EQ(read({file("a.txt", mark.substr(0, 2))}).refusals, (Strings{"a.txt:1: invalid UTF-8"}));
}

TEST_F(Packed, NamesOfSourcesAreOneField) {
  EXPECT_EQ(data::source_name("plain/caf\xC3\xA9.txt"), "plain/caf\xC3\xA9.txt");
  EXPECT_EQ(data::source_name("a\tb\nc\rd\\e\x1b[31m"), "a\\tb\\nc\\rd\\\\e\\x1b[31m");
  EXPECT_EQ(data::source_name("\xC2\x9B"
                              "31m \x7f"),
            "\\xc2\\x9b31m \\x7f");
  EXPECT_EQ(data::source_name("\xFF\xC3\xA9"), "\\xff\\xc3\\xa9");
  EXPECT_EQ(read({file("a\tb\nc.txt", "")}).refusals, (Strings{"a\\tb\\nc.txt:1: empty document"}));
}

TEST_F(Packed, WhatIsNoInputIsRefused) {
  EXPECT_NE(refusal("/dev/zero").find("/dev/zero is a device"), std::string::npos);
  EXPECT_NE(refusal("/dev/null").find("/dev/null is a device"), std::string::npos);
  EXPECT_NE(refusal(scratch.path).find("is a folder"), std::string::npos);
  EXPECT_NE(refusal(scratch.path + "/absent").find("cannot read"), std::string::npos);
}

// The file becomes longer, shorter, or keeps its length. The change is found at the end, when the first part is gone.
TEST_F(Packed, AFileThatIsWrittenWhileItIsReadIsRefused) {
  const std::pair<std::size_t, std::size_t> sizes[] = {{100000, 150000}, {100000, 50000}, {100000, 100000}};
  for (const auto& [before, after] : sizes) {
    const auto path = file("moving", std::string(before, 'a'));
    trainyard::io::InputStream in(path, {});
    std::string buffer(1000, '\0');
    ASSERT_GT(in.read(buffer.data(), buffer.size()), 0u);
    file("moving", std::string(after, 'b'));
    const timespec times[2] = {{1, 0}, {1, 0}};  // clocks of file systems are coarse
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
    try {
      while (in.read(buffer.data(), buffer.size()) > 0) {}
      ADD_FAILURE() << "read to the end with " << after;
    } catch (const base::InputError& e) {
      EXPECT_EQ(std::string(e.what()),
                fmt::format("{} was written while it was read: it had {} bytes and has {}", path, before, after));
    }
  }
}

TEST_F(Packed, ALargeWindowIsNoDamage) {
  const std::string frame("\x28\xb5\x2f\xfd\x00\x90\x01\x00\x00",
                          9);  // a window of 2^28 bytes, and an empty last block
  EXPECT_NE(refusal(file("long.zst", frame)).find("long.zst was packed with a window of more than 128 MiB"),
            std::string::npos)
      << refusal(file("long.zst", frame));
}

}  // namespace packed_test
