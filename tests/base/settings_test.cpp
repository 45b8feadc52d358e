// Tests that ranges hold for every source of a value, that only exact values are taken, and what messages name.
#include "libtrain/base/byte_size.h"
#include "libtrain/base/error.h"
#include "libtrain/base/fields.h"
#include "libtrain/base/nearest.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>

namespace trainyard::base {

namespace settings_test {

enum class Colour { red, dark_blue };

struct Settings {
  std::string name = "a", plan, dtype = "f32", limit;
  std::int64_t steps = 8;
  int zero = 1;
  std::uint64_t seed = 1;
  double rate = 0.5;
  bool tied = false;
  Colour colour = Colour::red;
  std::vector<Field> fields() {
    FieldVisitor v;
    v("name", name, "what", "a text");
    v("plan", plan, "what", "a text that is empty by default");
    v("dtype", dtype, "what", "words", Words{{"f32", "bf16"}});
    v("limit", limit, "what", "a size", Bytes{});
    v("steps", steps, "what", "a count", {1, 1000});
    v("zero", zero, "what", "a stage", {0, 3});
    v("seed", seed, "what", "any", {0, std::numeric_limits<std::uint64_t>::max()});
    v("rate", rate, "how", "a number", {0, 1});
    v("tied", tied, "how", "a switch");
    v("colour", colour, "how", "a choice", Choices<Colour>{{"red", Colour::red}, {"dark-blue", Colour::dark_blue}});
    return v.take();
  }
};

std::string refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    return std::string(e.what()) + " | " + e.hint();
  }
  return "accepted";
}

struct Variable {
  Variable(const char* n, const char* value) : name(n) { setenv(n, value, 1); }
  ~Variable() { unsetenv(name); }
  const char* name;
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Ranges, HoldForFlagFileAndEnvironmentAlike) {
  const std::pair<const char*, const char*> wrong[] = {{"rate", "nan"},
                                                       {"rate", "-nan"},
                                                       {"rate", "inf"},
                                                       {"rate", "-inf"},
                                                       {"rate", "1e999"},
                                                       {"rate", "-0.5"},
                                                       {"rate", "1.0001"},
                                                       {"rate", "0x1"},
                                                       {"rate", " 1"},
                                                       {"rate", "1 "},
                                                       {"rate", ""},
                                                       {"steps", "0"},
                                                       {"steps", "1001"},
                                                       {"steps", "-1"},
                                                       {"steps", "99999999999999999999"},
                                                       {"steps", "1e2"},
                                                       {"steps", "nan"},
                                                       {"steps", ""},
                                                       {"zero", "4"},
                                                       {"zero", "4294967296"},
                                                       {"seed", "-1"},
                                                       {"seed", "18446744073709551616"},
                                                       {"dtype", "fp16"},
                                                       {"dtype", ""},
                                                       {"tied", "maybe"},
                                                       {"colour", "blue"},
                                                       {"limit", "inf"},
                                                       {"limit", "nan"},
                                                       {"limit", "-4GB"},
                                                       {"limit", "0"},
                                                       {"limit", "1e30"},
                                                       {"limit", "4 gigabytes"},
                                                       {"name", ""}};
  const testing::Scratch folder;
  for (const auto& one : wrong) {
    const char *name = one.first, *text = one.second;
    Settings s;
    auto fields = s.fields();
    const auto by_flag = refusal([&] { field_named(fields, name, "x").set(text, std::string("--") + name); });
    EXPECT_TRUE(has(by_flag, std::string("--") + name)) << name << " '" << text << "': " << by_flag;
    testing::spit(folder.path + "/c.toml", std::string(name) + " = \"" + text + "\"\n");
    EXPECT_TRUE(has(refusal([&] { read_toml(fields, folder.path + "/c.toml"); }), std::string("c.toml: ") + name))
        << name << " '" << text << "'";
    std::string variable = "TRAINYARD_";
    for (const char* c = name; *c != '\0'; ++c) variable += static_cast<char>(std::toupper(*c));
    const Variable set(variable.c_str(), text);
    EXPECT_TRUE(has(refusal([&] { read_environment(fields); }), variable)) << name << " '" << text << "'";
    EXPECT_EQ(s.rate, 0.5);
    EXPECT_EQ(s.steps, 8);
  }
}

TEST(Ranges, EndsBelongToThem) {
  Settings s;
  auto fields = s.fields();
  const auto set = [&](const char* name, const char* text) { field_named(fields, name, "x").set(text, name); };
  set("steps", "1000"), set("rate", "1"), set("rate", "0"), set("seed", "18446744073709551615"), set("limit", "4GB"),
      set("colour", "dark_blue"), set("tied", "on");
  EXPECT_EQ(s.steps, 1000);
  for (const char* text : {"0", "1001", "many"})
    EXPECT_TRUE(has(refusal([&] { set("steps", text); }), " | from 1 to 1000: a count")) << text;
  EXPECT_EQ(s.seed, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(s.colour, Colour::dark_blue);
  EXPECT_TRUE(s.tied);
  EXPECT_EQ(parse_bytes("512MiB", "--x"), 512 << 20);
  EXPECT_EQ(parse_bytes("0", "--x"), 0);
}

TEST(Complaints, AllAtOnce) {
  Settings s;
  auto fields = s.fields();
  s.rate = std::nan(""), s.zero = 7, s.dtype = "f16";
  Complaints complaints;
  check_fields(fields, complaints);
  const auto text = refusal([&] { complaints.raise(); });
  for (const char* part : {"3 problems", "--rate nan", "--zero 7", "--dtype f16"}) EXPECT_TRUE(has(text, part)) << text;
}

TEST(Environment, AVariableNobodyReadsIsRefusedWithTheNearest) {
  Settings s;
  auto fields = s.fields();
  const Variable known("TRAINYARD_EMULATED_GPUS", "1"), other("TRAINYARD_ISA", "avx2"),
      mutations("TRAINYARD_MUTATION_SEED", "7");
  read_environment(fields);
  const Variable typo("TRAINYARD_STEP", "9");
  EXPECT_TRUE(has(refusal([&] { read_environment(fields); }), "TRAINYARD_STEP is set"));
  EXPECT_TRUE(has(refusal([&] { read_environment(fields); }), "did you mean TRAINYARD_STEPS?"));
}

TEST(Fields, AKeyHasOneSpellingInAFile) {
  Settings s;
  auto fields = s.fields();
  FieldVisitor v;
  std::int64_t batch = 1;
  v("global-batch", batch, "what", "sequences", {1, 1000});
  auto two = v.take();
  const testing::Scratch folder;
  testing::spit(folder.path + "/c.toml", "global-batch = 4\nglobal_batch = 8\n");
  EXPECT_TRUE(has(refusal([&] { read_toml(two, folder.path + "/c.toml"); }),
                  "c.toml: 'global-batch' and 'global_batch' are one key"));
  testing::spit(folder.path + "/c.toml", "name = true\n");
  EXPECT_TRUE(has(refusal([&] { read_toml(fields, folder.path + "/c.toml"); }), "key 'name' is not text"));
  EXPECT_EQ(s.name, "a");
  testing::spit(folder.path + "/c.toml", "name = [\"a\"]\n");
  EXPECT_TRUE(has(refusal([&] { read_toml(fields, folder.path + "/c.toml"); }), "several are one text with commas"));
  testing::spit(folder.path + "/c.toml", "nonsense-of-another-world = 1\n");
  EXPECT_FALSE(has(refusal([&] { read_toml(fields, folder.path + "/c.toml"); }), "did you mean"));
}

TEST(PrintFields, IsReadBack) {
  Settings s, t;
  s.name = "with \"quotes\", a \\ and a\ttab", s.limit = "4GB", s.tied = true, s.rate = 1e-5,
  s.colour = Colour::dark_blue, s.plan = "caf\xe9.json", s.seed = std::numeric_limits<std::uint64_t>::max();
  const testing::Scratch folder;
  auto printed = s.fields();
  printed[0].source = "a\nfile \xff";
  testing::spit(folder.path + "/c.toml", print_fields(printed));
  auto fields = t.fields();
  read_toml(fields, folder.path + "/c.toml");
  EXPECT_EQ(t.name, s.name);
  EXPECT_EQ(t.plan, s.plan);
  EXPECT_EQ(t.seed, s.seed);
  EXPECT_EQ(t.limit, "4GB");
  EXPECT_EQ(t.rate, 1e-5);
  EXPECT_EQ(t.colour, Colour::dark_blue);
  EXPECT_THROW(read_toml(fields, folder.path), InputError);  // a folder is not an empty file
}

TEST(Hints, KnowOtherWordsAndDoNotGuessWildly) {
  EXPECT_EQ(value_hint("bfloat16", {"f32", "bf16"}), "did you mean 'bf16'?");
  EXPECT_EQ(value_hint("breadth-first", {"auto", "depth", "breadth"}), "did you mean 'breadth'?");
  EXPECT_EQ(value_hint("DFS", {"auto", "depth", "breadth"}), "did you mean 'depth'?");
  EXPECT_EQ(value_hint("gpu", {"auto", "cpu", "cuda"}), "did you mean 'cuda'?");
  EXPECT_EQ(value_hint("adamw_torch", {"adam", "adamw"}), "did you mean 'adamw'?");
  for (const char* theirs : {"FusedLamb", "fused_lamb", "lamb_fp16", "LAMB"})
    EXPECT_EQ(value_hint(theirs, {"adam", "adamw", "lamb", "lion"}), "did you mean 'lamb'?") << theirs;
  EXPECT_EQ(value_hint("ordred", {"ordered", "fast"}), "did you mean 'ordered'?");
  EXPECT_EQ(value_hint("something-else", {"ordered", "fast"}), "");
  EXPECT_EQ(resembling("global_batch", {"global-batch", "micro-batch"}), "global-batch");
  EXPECT_EQ(resembling(std::string(100'000, 'a'), {"steps"}), "");
}

}  // namespace settings_test
}  // namespace trainyard::base
