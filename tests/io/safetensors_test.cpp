// Tests safetensors: false headers are refused by name, written files have the format, an index must fit its files.
#include "libtrain/io/safetensors.h"

#include "libtrain/base/error.h"
#include "tests/io/safetensors_sample.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

#include <filesystem>

using namespace trainyard;
using safetensors_sample::file_of, safetensors_sample::floats, safetensors_sample::with_length;
using trainyard::testing::Scratch;
using trainyard::testing::spit;

namespace safetensors_test {

// The sentence with which `content` is refused as a file; "" if it is accepted.
std::string refusal(const std::string& content) {
  Scratch scratch;
  const auto path = scratch.path + "/model.safetensors";
  spit(path, content);
  try {
    io::SafetensorsFile file(path);
    return "";
  } catch (const base::InputError& e) {
    EXPECT_EQ(std::string(e.what()).find(path), 0u) << e.what();
    EXPECT_FALSE(e.hint().empty());
    return e.what();
  }
}

void expect_refused(const std::string& header, std::size_t data, const std::string& words) {
  const auto said = refusal(with_length(header) + std::string(data, 'x'));
  EXPECT_NE(said.find(words), std::string::npos) << header << "\n  said: " << said << "\n  not: " << words;
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& range) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + range + "}";
}

std::string refusal_of_model(const std::string& path) {
  try {
    io::SafetensorsModel model(path);
    return "";
  } catch (const base::InputError& e) {
    return e.what();
  }
}

TEST(Safetensors, ReadsWhatTheFormatSays) {
  Scratch scratch;
  const auto path = scratch.path + "/f";
  const std::string header =
      R"({"b":{"dtype":"F32","shape":[2,1],"data_offsets":[2,10]},"__metadata__":{"format":"pt"},)" +
      entry("a", "BF16", "[]", "[0,2]") + "," + entry("none", "F64", "[3,0]", "[2,2]") + "}   ";
  spit(path, with_length(header) + "ab" + floats({1.5f, -2}));
  const io::SafetensorsFile file(path);
  ASSERT_EQ(file.header.tensors.size(), 3u);
  EXPECT_EQ(file.header.metadata.at("format"), "pt");
  const auto &a = file.header.tensors[0], &none = file.header.tensors[1], &b = file.header.tensors[2];
  EXPECT_EQ(a.name, "a");
  EXPECT_TRUE(a.shape.empty());
  EXPECT_EQ(none.bytes, 0);
  EXPECT_EQ(b.dtype, "F32");
  EXPECT_EQ(b.shape, (std::vector<std::int64_t>{2, 1}));
  float values[2];
  file.file.read(b.offset, values, b.bytes);
  EXPECT_EQ(values[0], 1.5f);
  EXPECT_EQ(values[1], -2.0f);
}

TEST(Safetensors, RefusesHeadersThatLie) {
  const auto pointer = refusal("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 499723\n");
  EXPECT_NE(pointer.find("is a pointer of Git LFS"), std::string::npos) << pointer;
  EXPECT_NE(refusal("version of a text").find("says that its header has 2336927755350992246 bytes"), std::string::npos);
  const auto good = "{" + entry("a", "F32", "[2]", "[0,8]") + "}";
  EXPECT_EQ(refusal(with_length(good) + std::string(8, 'x')), "");
  expect_refused(good, 7, "\"a\" ends at byte");
  expect_refused(good, 9, "1 byte at its end belongs to nothing");
  expect_refused(" " + good, 8, "does not begin with '{'");
  expect_refused("[]", 0, "does not begin with '{'");
  expect_refused(good.substr(0, good.size() - 1), 8, "is no JSON");
  expect_refused("{" + entry("a", "F32", "[2]", "[0,8]") + "," + entry("a", "F32", "[2]", "[8,16]") + "}", 16,
                 "\"a\" is there twice");
  expect_refused("{" + entry("a", "F31", "[2]", "[0,8]") + "}", 8, "\"a\": its type \"F31\" is none that is known");
  expect_refused("{" + entry("a", "F4", "[2]", "[0,1]") + "}", 1, "type \"F4\"");
  expect_refused("{" + entry("a", "F32", "[3]", "[0,8]") + "}", 8, "F32 [3] makes 12 bytes, and its range has 8");
  expect_refused("{" + entry("a", "F32", "[2]", "[8,0]") + "}", 8, "no range");
  expect_refused("{" + entry("a", "F32", "[2]", "[-8,0]") + "}", 8, "no range");
  expect_refused("{" + entry("a", "F32", "[2]", "[0,8,9]") + "}", 8, "two numbers");
  expect_refused("{" + entry("a", "F32", "[2]", "[0,18446744073709551615]") + "}", 8, "no range");
  expect_refused("{" + entry("a", "U8", "[9223372036854775807]", "[0,9223372036854775807]") + "}", 8,
                 "\"a\" ends at byte 9223372036854775807 of the data, which end at 8");
  expect_refused("{" + entry("a", "U8", "[8]", "[0,8]") + "," +
                     entry("b", "U8", "[9223372036854775799]", "[8,9223372036854775807]") + "}",
                 8, "\"b\" ends at byte 9223372036854775807");
  expect_refused("{" + entry("a", "F32", "[-2]", "[0,8]") + "}", 8, "no extent");
  expect_refused("{" + entry("a", "F32", "[2.0]", "[0,8]") + "}", 8, "no extent");
  expect_refused("{" + entry("a", "F32", "[4294967296,4294967296]", "[0,0]") + "}", 0,
                 "more bytes than can be counted");
  expect_refused("{" + entry("a", "F32", "[9223372036854775807,2]", "[0,8]") + "}", 8,
                 "more bytes than can be counted");
  expect_refused("{" + entry("a", "F32", "[2]", "[0,8]") + "," + entry("b", "F32", "[2]", "[4,12]") + "}", 12,
                 "\"a\" and \"b\" overlap");
  expect_refused("{" + entry("a", "F32", "[2]", "[0,8]") + "," + entry("b", "F32", "[2]", "[12,20]") + "}", 20,
                 "4 bytes between \"a\" and \"b\" belong to nothing");
  expect_refused("{" + entry("a", "F32", "[2]", "[4,12]") + "}", 12, "4 bytes between the start and \"a\"");
  expect_refused(R"({"__metadata__":{"format":3}})", 0, "must be text");
  expect_refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"compressed":true}})", 8, "unknown key");
  expect_refused(R"({"a":{"shape":[2],"data_offsets":[0,8]}})", 8, "'dtype' is missing");
  expect_refused(R"({"a":7})", 0, "expected an object");
  std::string deep = "{\"a\":";
  for (int i = 0; i < 5000; ++i) deep += '[';
  expect_refused(deep, 0, "nested more than");
  std::string ones = "[1";
  for (int i = 0; i < 64; ++i) ones += ",1";
  expect_refused("{" + entry("a", "F32", ones + "]", "[0,4]") + "}", 4, "its shape has 65 extents, 64 are the most");
  const std::string lists = "{" + entry("a", "F32", "[[2]]", "[0,8]") + "}";
  expect_refused(lists, 8, "nested more than 3 deep");
  const auto brackets = "{" + entry(R"([[[[\\\"{{{{)", "F32", "[2]", "[0,8]") + "}";  // brackets in a name
  EXPECT_EQ(refusal(with_length(brackets) + std::string(8, 'x')), "");
  EXPECT_NE(refusal("1234567").find("has 7 bytes"), std::string::npos);
  std::string gigantic(16, '\xff');
  EXPECT_NE(refusal(gigantic).find("a header has at most 32 MB"), std::string::npos);
  auto longer = with_length(good);
  longer[0] = static_cast<char>(longer[0] + 9);
  EXPECT_NE(refusal(longer + std::string(8, 'x')).find("are left in the file"), std::string::npos);
}

TEST(Safetensors, WritesWhatItReads) {
  io::SafetensorsHeader header;
  header.metadata = {{"format", "pt"}};
  header.tensors = {{"weight \"x\"", "F16", {3}, 0, 0}, {"b", "F32", {2, 2}, 0, 0}, {"c", "BF16", {}, 0, 0}};
  const auto bytes = io::make_safetensors_header(header);
  EXPECT_EQ(bytes.size() % 8, 0u);
  Scratch scratch;
  spit(scratch.path + "/f", bytes + std::string(6 + 16 + 2, 'x'));
  const io::SafetensorsFile file(scratch.path + "/f");
  ASSERT_EQ(file.header.tensors.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(file.header.tensors[i].name, header.tensors[i].name);
    EXPECT_EQ(file.header.tensors[i].offset, header.tensors[i].offset);
    EXPECT_EQ(file.header.tensors[i].bytes, header.tensors[i].bytes);
  }
  EXPECT_EQ(file.header.tensors[0].offset, static_cast<std::int64_t>(bytes.size()));
  EXPECT_EQ(file.header.metadata, header.metadata);
}

TEST(Safetensors, AnIndexFitsItsFiles) {
  Scratch s;
  const auto index = s.path + "/model.safetensors.index.json";
  spit(s.path + "/model-00001-of-00002.safetensors", file_of({{"a", "F32", {1}, floats({1})}}));
  spit(s.path + "/model-00002-of-00002.safetensors", file_of({{"b", "F32", {1}, floats({2})}}));
  spit(index, R"({"metadata":{"total_size":8},"weight_map":{"a":"model-00001-of-00002.safetensors",)"
              R"("b":"model-00002-of-00002.safetensors"}})");
  {
    const io::SafetensorsModel model(s.path);
    EXPECT_EQ(model.files(), 2u);
    ASSERT_EQ(model.tensors().size(), 2u);
    float value = 0;
    const auto& place = model.tensors().at("b");
    place.file->file.read(place.tensor->offset, &value, 4);
    EXPECT_EQ(value, 2);
  }
  spit(index, R"({"weight_map":{"a":"model-00002-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}})");
  EXPECT_NE(refusal_of_model(s.path).find("\"a\" does not lie in model-00002"), std::string::npos);
  spit(index, R"({"weight_map":{"a":"model-00001-of-00002.safetensors","b":"gone.safetensors"}})");
  EXPECT_NE(refusal_of_model(s.path).find("gone.safetensors is missing, where 1 tensor"), std::string::npos);
  std::filesystem::create_directory(s.path + "/gone.safetensors");
  EXPECT_NE(refusal_of_model(s.path).find("gone.safetensors is no regular file, where 1 tensor"), std::string::npos);
  spit(s.path + "/model-00002-of-00002.safetensors",
       file_of({{"b", "F32", {1}, floats({2})}, {"c", "F32", {1}, floats({3})}}));
  spit(index, R"({"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}})");
  EXPECT_NE(refusal_of_model(s.path).find("\"c\" lies in model-00002"), std::string::npos);
  for (const char* name : {"../model.safetensors", "", "..", "/etc/passwd"}) {
    spit(index, std::string(R"({"weight_map":{"a":")") + name + "\"}}");
    EXPECT_NE(refusal_of_model(s.path).find("no name of a file"), std::string::npos) << name;
  }
  spit(index, R"({"weights":{}})");
  EXPECT_NE(refusal_of_model(s.path).find("'weight_map' is missing: it is no index"), std::string::npos);
  spit(s.path + "/model.safetensors", file_of({{"a", "F32", {1}, floats({1})}}));
  EXPECT_NE(refusal_of_model(s.path).find("holds both"), std::string::npos);
  EXPECT_EQ(refusal_of_model(s.path + "/model.safetensors"), "");
  std::filesystem::create_directory(s.path + "/empty");
  EXPECT_NE(refusal_of_model(s.path + "/empty").find("holds neither"), std::string::npos);
  EXPECT_NE(refusal_of_model(s.path + "/absent").find("no such folder or file"), std::string::npos);
}

}  // namespace safetensors_test
