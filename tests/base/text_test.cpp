// Tests names from outside: no control sequence reaches a terminal, and any path survives JSON.
#include "libtrain/base/text.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace trainyard::base {
namespace {

TEST(Printable, WhatATerminalObeysIsSpelled) {
  EXPECT_EQ(printable("run\x1b[31m\a\r\x7f"), "run\\x1b[31m\\x07\\x0d\\x7f");
  EXPECT_EQ(printable("a\xff"
                      "b\xc3"),
            "a\\xffb\\xc3");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\x9b31m");  // CSI as one character
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "txt.exe"),
            "\\u202etxt.exe");                                       // right-to-left override
  EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b");                    // overlong encoding
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond Unicode
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
}

TEST(Printable, ANameKeepsToItsLine) { EXPECT_EQ(one_line("a\nb\tc\x1b\xc3\xa9"), "a\\nb\\tc\\x1b\xc3\xa9"); }

TEST(Printable, WhatPeopleReadStays) {
  const std::string text = "two\nlines\tand \xc3\xa9 \xe2\x96\x91 \xf0\x9f\x9a\x82 C:\\x";
  EXPECT_EQ(printable(text), text);
  EXPECT_TRUE(is_utf8(text));
}

TEST(CommaSeparated, PartsAreWithoutTheirSpaces) {
  using Parts = std::vector<std::string>;
  EXPECT_EQ(comma_separated("a, b c ,,d"), (Parts{"a", "b c", "", "d"}));
  EXPECT_EQ(comma_separated(""), Parts{""});
  EXPECT_EQ(comma_separated("  ,"), (Parts{"", ""}));
}

TEST(Listed, AsASentenceHasThem) {
  EXPECT_EQ(listed({}, "and"), "");
  EXPECT_EQ(listed({"a"}, "and"), "a");
  EXPECT_EQ(listed({"a", "b"}, "or"), "a or b");
  EXPECT_EQ(listed({"a", "b", "c"}, "and"), "a, b and c");
}

TEST(PathText, AnyBytesSurviveJson) {
  std::string all;
  for (int c = 1; c < 256; ++c) all += static_cast<char>(c);
  for (const std::string& path :
       {all, std::string("run\xff/data"), std::string("percent:x"), std::string("percent:%zz\xff%4"),
        std::string("100%/r\xc3\xa9sum\xc3\xa9"), std::string()}) {
    const auto text = text_of_path(path);
    EXPECT_TRUE(is_utf8(text));
    const auto json = nlohmann::json{{"path", text}}.dump();
    EXPECT_EQ(path_of_text(nlohmann::json::parse(json)["path"].get<std::string>()), path) << json;
  }
  EXPECT_EQ(text_of_path("100%/r\xc3\xa9sum\xc3\xa9"), "100%/r\xc3\xa9sum\xc3\xa9");
  EXPECT_EQ(text_of_path("r\xff"), "percent:r%FF");
}

}  // namespace
}  // namespace trainyard::base
