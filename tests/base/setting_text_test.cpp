// Texts that name settings, as programs spell them.
#include "libtrain/base/setting_text.h"

#include "libtrain/base/error.h"
#include "libtrain/base/fields.h"
#include "tests/spelling.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace trainyard::base {
namespace setting_text_test {

TEST(SettingText, TheLibraryItselfHasBareNames) {
  const testing::Spelled here(nullptr);
  EXPECT_EQ(setting_name("micro-batch"), "micro-batch");
  EXPECT_EQ(text("$micro-batch {} does not divide $global-batch {}", 3, 8),
            "micro-batch 3 does not divide global-batch 8");
}

TEST(SettingText, AProgramSpellsNames) {
  const testing::Spelled here([](std::string_view name) { return "run[{\"" + std::string(name) + "\"}]"; });
  EXPECT_EQ(text("leave $beta1 out"), "leave run[{\"beta1\"}] out");
  EXPECT_EQ(text("{{{1}}}: $zero {0:02}", 3, "a"), "{a}: run[{\"zero\"}] 03");
}

TEST(SettingText, ANameEndsWhereTheWordDoes) {
  EXPECT_EQ(text("($steps), $lr-schedule's $beta1: $trace- $a"), "(--steps), --lr-schedule's --beta1: --trace- --a");
  EXPECT_EQ(text("$ $5 $PATH 5$ {}$", "x"), "$ $5 $PATH 5$ x$");
}

TEST(SettingText, ValuesStayAsTheyAre) {
  EXPECT_EQ(text("$data {} is no folder", "$data/{steps}"), "--data $data/{steps} is no folder");
  EXPECT_EQ(UsageError("$data {}", "$steps").what(), std::string("$data {}"));
}

TEST(SettingText, RangesOfFieldsNameTheSetting) {
  std::int64_t steps = 0;
  FieldVisitor visit;
  visit("steps", steps, "Run", "steps of the run", Range<std::int64_t>{1, 5});
  const auto fields = visit.take();
  const auto refusal = [&] {
    Complaints wrong;
    check_fields(fields, wrong);
    return wrong.list().at(0).first;
  };
  EXPECT_EQ(refusal(), "--steps 0 must lie between 1 and 5");
  const testing::Spelled here(nullptr);
  EXPECT_EQ(refusal(), "steps 0 must lie between 1 and 5");
}

}  // namespace setting_text_test
}  // namespace trainyard::base
