// What the library says where a program has advice, and where it has none.
#include "libtrain/base/advice.h"

#include "libtrain/base/error.h"
#include "libtrain/base/fields.h"
#include "libtrain/base/toml_file.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace trainyard::base {
namespace advice_test {

class Advised {
 public:
  explicit Advised(const Advice& given) : before_(advice()) { give_advice(given); }
  ~Advised() { give_advice(before_); }
  Advised(const Advised&) = delete;
  Advised& operator=(const Advised&) = delete;

 private:
  Advice before_;
};

std::string hint_for(const std::string& name) {
  std::string value;
  FieldVisitor visit;
  visit("learning-rate", value, "", "");
  auto fields = visit.take();
  try {
    field_named(fields, name, "here");
  } catch (const UsageError& e) {
    return e.hint();
  }
  return "";
}

std::string refusal_of_json() {
  const testing::Scratch folder;
  testing::spit(folder.path + "/a.toml", "{\"steps\": 3}");
  try {
    read_toml_file(folder.path + "/a.toml");
  } catch (const InputError& e) {
    return e.hint();
  }
  return "";
}

TEST(Advice, WithoutAProgram) {
  EXPECT_EQ(hint_for("learning-rat"), "did you mean 'learning-rate'?");
  EXPECT_EQ(hint_for("max-lr"), "leave it out: no key has this name or a similar one");
  EXPECT_EQ(refusal_of_json(), "one `key = value` a line, text in quotes");
  EXPECT_EQ(advice().on_folder("/"), "");
  EXPECT_EQ(advice().on_weights("/a.bin"), "");
}

TEST(Advice, OfAProgramIsTheHint) {
  auto given = advice();
  given.on_name = [](const std::string& asked, const std::vector<std::string>& names) {
    return asked + " is " + names.front();
  };
  given.on_json = [](const std::string& text, const std::string&) { throw InputError("known", "not " + text); };
  {
    const Advised here(given);
    EXPECT_EQ(hint_for("max-lr"), "max-lr is learning-rate");
    EXPECT_EQ(refusal_of_json(), "not {\"steps\": 3}");
  }
  EXPECT_EQ(hint_for("max-lr"), "leave it out: no key has this name or a similar one");
}

}  // namespace advice_test
}  // namespace trainyard::base
