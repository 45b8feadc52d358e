// Tests the limits on JSON and TOML before they are parsed, and what the strict getters refuse.
#include "libtrain/base/json.h"
#include "libtrain/base/error.h"
#include "libtrain/base/toml_file.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

using namespace trainyard;
using nlohmann::json;

namespace json_test {

template <class F> std::string refusal(F&& f) {
  try {
    f();
    return "";
  } catch (const base::InputError& e) {
    return e.what();
  }
}
std::string of_json(const std::string& text) {
  return refusal([&] { base::parse_json<json>(text, "x.json"), base::parse_json(text, "x.json"); });
}
std::string repeated(const std::string& text, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += text;
  return out;
}
void expect(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_LT(message.size(), 300u) << message;
}

TEST(Json, DepthIsBounded) {
  EXPECT_EQ(of_json(repeated("[", 64) + repeated("]", 64)), "");
  EXPECT_EQ(of_json("\"" + repeated("[", 1000) + "\""), "");
  expect(of_json(repeated("[", 65) + repeated("]", 65)), "x.json: lists and objects are nested more than 64 deep");
  expect(of_json(repeated("[", 100000)), "nested");
  expect(of_json(repeated("{\"a\":", 100000) + "1" + repeated("}", 100000)), "nested");
}

TEST(Json, NumbersKeysAndText) {
  expect(of_json("{\"a\": 1e999}"), "x.json cannot be read as JSON");
  expect(of_json("{\"a\": NaN}"), "is no JSON: byte 7 begins NaN, and JSON has no such number");
  expect(of_json("[-Infinity]"), "begins -Infinity, and");
  expect(of_json("[Infinity"), "begins Infinity, and");
  expect(of_json("[-"), "at byte 3 of 2");
  expect(of_json(""), "at byte 1 of 0");
  expect(of_json("{\"a\": 1, \"b\": {\"c\": 1, \"d\": 2, \"c\": 3}}"), "the key \"c\" is there twice");
  expect(of_json("{\"a\": \"\xff\"}"), "is no JSON");
  EXPECT_EQ(of_json("{\"a\": {\"a\": 1}, \"b\": {\"a\": [{\"a\": 1}, {\"a\": 1}]}}"), "");
  std::string many = "{";
  for (int i = 0; i < 20000; ++i) many += fmt::format("{}\"{}\": 0", i == 0 ? "" : ", ", i);
  EXPECT_EQ(base::parse_json<json>(many + "}", "x").size(), 20000u);
  expect(of_json(many + "}"), "more than 10000 keys");
}

// Errors that the first pass finds are reported before later errors, and before a tree is built.
TEST(Json, TheFirstMistakeIsSaid) {
  expect(of_json("[{\"b\": 1, \"a\": 1, \"b\": 2, \"a\": 2}, 1e999, "), "the key \"a\" is there twice");
  expect(of_json("{\"a\": {\"b\": 1}, \"a\": ["), "at byte 23 of 22");
  expect(of_json("[1e999, {\"a\": 1, \"a\": 2}]"), "cannot be read as JSON");
  expect(of_json("{\"a\": 1, \"a\": 2"), "at byte 16 of 15");
  EXPECT_EQ(of_json("[{\"a\": 1}, [{\"a\": 1}], {\"a\": {\"a\": {}}}, {\"b\": [], \"a\": []}]"), "");
  expect(of_json("{\"a\": [[], {\"b\": {}}], \"c\": 1, \"a\": 1}"), "the key \"a\" is there twice");
}

// A parser that looked at all earlier siblings at the end of each one would need hours.
TEST(Json, ManySiblings) {
  constexpr int siblings = 300'000;
  const auto list = "[" + repeated("{\"a\": 0},", siblings) + "{}]";
  EXPECT_EQ(base::parse_json<json>(list, "x").size(), siblings + 1u);
  EXPECT_EQ(base::parse_json(list, "x").size(), siblings + 1u);
  std::string object = "{";
  for (int i = 0; i < siblings; ++i) object += fmt::format("\"{}\": {{}},", i);
  EXPECT_EQ(base::parse_json<json>(object + "\"last\": {}}", "x").size(), siblings + 1u);
  expect(refusal([&] { base::parse_json<json>(object + "\"7\": {}}", "x"); }), "the key \"7\" is there twice");
}

TEST(Json, GettersNameFileAndKey) {
  const auto j = base::parse_json<json>(
      R"({"whole": 3, "real": 1.5, "huge": 18446744073709551615, "text": "a\u001b[31m", "yes": true, "list": [], )"
      R"("nothing": null, "long": ")" +
          std::string(100000, 'x') + "\"}",
      "x");
  base::SortedJsonObject o(j, "x.json");
  EXPECT_EQ(o.integer("whole", 3, 3), 3);
  EXPECT_EQ(o.unsigned_integer("huge"), ~std::uint64_t{0});
  EXPECT_TRUE(o.boolean("yes"));
  for (const char* key : {"real", "huge", "text", "yes", "list", "nothing", "long"}) {
    expect(refusal([&] { o.integer(key); }), fmt::format("x.json: '{}' must be a whole number", key));
    expect(refusal([&] { o.object(key); }), fmt::format("x.json: {}: expected an object", key));
  }
  expect(refusal([&] { o.text("long"); }), "'long' must be text of at most 8192 bytes");
  EXPECT_EQ(o.text("long", 100000).size(), 100000u);
  expect(refusal([&] { o.integer("whole", 4, 9); }), "must be between 4 and 9, found 3");
  expect(refusal([&] { o.number("text"); }), "found \"a\\u001b[31m\"");
  expect(refusal([&] { o.boolean("whole"); }), "must be true or false");
  expect(refusal([&] { o.unsigned_integer("real"); }), "'real'");
}

TEST(Toml, DepthIsBounded) {
  const auto of_toml = [](const std::string& text) {
    return refusal([&] { base::require_shallow_toml(text, "x.toml"); });
  };
  EXPECT_EQ(of_toml("a = 1.5\nb = \"" + repeated(".", 1000) + "\" # " + repeated("[", 1000) + "\nc = '''\n" +
                    repeated("{", 1000) + "'''\nd = [" + repeated("1.5, ", 1000) + "]\n"),
            "");
  expect(of_toml("a = 1\n" + repeated("a.", 200000) + "b = 1"), "x.toml line 2: a dotted key 33 deep");
  expect(of_toml("a = \"\\\"\"\n\n[" + repeated("a.", 200000) + "b]"), "x.toml line 3: a dotted key 33 deep");
  expect(of_toml(repeated("\"a\" . ", 200000) + "b = 1"), "x.toml line 1: a dotted key 33 deep");
  for (const std::string quotes : {"\"\"\"", "'''"})  // one or two quotes of content before the closing ones
    for (const auto& content : {"text" + quotes.substr(0, 1), "text" + quotes.substr(0, 2), quotes.substr(0, 2)}) {
      const auto string = "a = [" + quotes + content + quotes;
      expect(of_toml(string + ", " + repeated("[", 100000)), "x.toml line 1: brackets 33 deep");
      EXPECT_EQ(of_toml(string + ", \"" + repeated("[", 1000) + "\"]\n"), "") << string;
    }
  expect(of_toml("a = " + repeated("[", 100000)), "brackets 33 deep");
  expect(of_toml("a = " + repeated("{b = ", 100000)), "brackets 33 deep");
}

TEST(Toml, FilesAreBounded) {
  trainyard::testing::Scratch s;
  trainyard::testing::spit(s.path + "/a.toml", repeated("# comment\n", 200000));
  expect(refusal([&] { base::read_toml_file(s.path + "/a.toml"); }), "larger than 1048576 bytes");
  trainyard::testing::spit(s.path + "/b.toml", "a = 1\nb = = 2\n");
  expect(refusal([&] { base::read_toml_file(s.path + "/b.toml"); }), "b.toml line 2");
}

}  // namespace json_test
