// Tests fields: one description reads files and the environment and prints, in the stated order of precedence.
#include "libtrain/base/fields.h"
#include "libtrain/base/error.h"
#include "libtrain/base/nearest.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace trainyard::base {

namespace {

struct Settings {
  std::string name = "a";
  std::int64_t global_batch = 8;
  double rate = 0.5;
  std::vector<Field> fields() {
    FieldVisitor v;
    v("name", name, "what", "a text");
    v("global-batch", global_batch, "what", "sequences", {1, 1000});
    v("rate", rate, "how", "a number", {0, 1});
    return v.take();
  }
};

struct File {
  explicit File(const std::string& text)
      : path(
            (std::filesystem::temp_directory_path() / ("fields_test_" + std::to_string(getpid()) + ".toml")).string()) {
    std::ofstream(path) << text;
  }
  ~File() { std::filesystem::remove(path); }
  std::string path;
};

}  // namespace

TEST(Fields, FileThenEnvironmentAndTheSourceOfEach) {
  Settings s;
  auto fields = s.fields();
  const File file("global_batch = 16\nrate = 0.25\n");
  read_toml(fields, file.path);
  EXPECT_EQ(s.global_batch, 16);
  EXPECT_EQ(s.rate, 0.25);
  setenv("TRAINYARD_GLOBAL_BATCH", "32", 1);
  read_environment(fields);
  unsetenv("TRAINYARD_GLOBAL_BATCH");
  EXPECT_EQ(s.global_batch, 32);
  EXPECT_EQ(field_named(fields, "name", "x").source, "default");
  EXPECT_EQ(field_named(fields, "rate", "x").source, file.path);
  EXPECT_EQ(field_named(fields, "global-batch", "x").source, "environment");
  const auto text = print_fields(fields);
  EXPECT_NE(text.find("global-batch = 32"), std::string::npos);
  EXPECT_NE(text.find("# environment"), std::string::npos);
}

// Two blanks at least, however long a value is; `name = ""` has 9 characters.
TEST(Fields, TheSourceStandsApart) {
  for (const auto& [length, blanks] :
       {std::pair(1, 34), std::pair(33, 2), std::pair(34, 2), std::pair(35, 2), std::pair(36, 2), std::pair(80, 2)}) {
    Settings s;
    s.name = std::string(static_cast<std::size_t>(length), 'x');
    const auto line = "name = \"" + s.name + "\"" + std::string(static_cast<std::size_t>(blanks), ' ') + "# default\n";
    EXPECT_EQ(print_fields(s.fields()).substr(0, line.size()), line);
  }
}

TEST(Fields, UnknownKeyNamesFileAndNearest) {
  Settings s;
  auto fields = s.fields();
  const File file("globl_batch = 16\n");
  try {
    read_toml(fields, file.path);
    FAIL();
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find(file.path), std::string::npos);
    EXPECT_NE(e.hint().find("'global-batch'"), std::string::npos);
  }
}

TEST(Fields, BadValuesAndBadFilesAreRefused) {
  Settings s;
  auto fields = s.fields();
  for (const char* bad : {"", "7x", "1.5", "99999999999999999999"})
    EXPECT_THROW(field_named(fields, "global-batch", "x").set(bad, "--global-batch"), UsageError) << bad;
  const File file("rate = = 3\n");
  EXPECT_THROW(read_toml(fields, file.path), InputError);
  EXPECT_EQ(nearest("gpt2-nanno", {"gpt2", "gpt2-nano", "llama-nano"}), "gpt2-nano");
}

// Has lists of whole numbers and a decimal number as text.
struct Gates {
  std::vector<std::int64_t> count, some = {1, 2};
  std::string factor = "1.25";
  std::vector<Field> fields() {
    FieldVisitor v;
    v("gates-count", count, "what", "a list", {1, 100});
    v("gates-some", some, "what", "a list that is never empty", {1, 100});
    v("gates-factor", factor, "what", "a number as it is written", DecimalOr{{"none", "same"}});
    return v.take();
  }
};

std::string refusal_of(const std::string& text) {
  Gates g;
  auto fields = g.fields();
  const File file(text);
  try {
    read_toml(fields, file.path);
  } catch (const InputError& e) {
    return std::string(e.what()) + " (" + e.hint() + ")";
  }
  return "accepted";
}

TEST(Fields, ListsAndTablesAreReadFromEverywhere) {
  const auto read = [](const std::string& text) {
    Gates g;
    auto fields = g.fields();
    const File file(text);
    read_toml(fields, file.path);
    return g;
  };
  EXPECT_EQ(read("gates-count = [3, 4]\n").count, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(read("gates_count = 3\n").count, std::vector<std::int64_t>{3});
  EXPECT_EQ(read("gates-count = \"3,4\"\n").count, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(read("gates-count = []\n").count, std::vector<std::int64_t>{});
  EXPECT_EQ(read("[gates]\ncount = [3]\nfactor = 1.5\n").factor, "1.5");
  EXPECT_EQ(read("gates = {count = [3], factor = 2}\n").factor, "2");
  EXPECT_EQ(read("gates.factor = \"same\"\n").factor, "same");
  Gates g;
  auto fields = g.fields();
  setenv("TRAINYARD_GATES_COUNT", "5,6", 1);
  read_environment(fields);
  unsetenv("TRAINYARD_GATES_COUNT");
  EXPECT_EQ(g.count, (std::vector<std::int64_t>{5, 6}));
  field_named(fields, "gates-count", "x").set("", "--gates-count");
  EXPECT_TRUE(g.count.empty());
  EXPECT_THROW(field_named(fields, "gates-some", "x").set("", "--gates-some"), UsageError);
}

TEST(Fields, WrongListsAndTablesAreRefused) {
  const auto refused = [](const std::string& text, const char* part) {
    const auto said = refusal_of(text);
    EXPECT_NE(said.find(part), std::string::npos) << text << said;
  };
  refused("gates-count = [0]\n", "gates-count 0 must lie between 1 and 100");
  refused("gates-count = [1, 101]\n", "101 must lie between 1 and 100");
  refused("gates-count = [1.5]\n", "'1.5' is not a whole number");
  refused("gates-count = [[1]]\n", "neither text nor number");
  refused("gates-count = \"1,,2\"\n", "gates-count");
  refused("gates-some = []\n", "is empty");
  refused("gates-factor = 0.0\n", "neither a positive decimal number nor none nor same");
  refused("gates-factor = 1e-12\n", "neither a positive decimal number");
  refused("gates-factor = nan\n", "neither a positive decimal number");
  refused("gates-factor = true\n", "neither a positive decimal number");
  refused("[gates]\ncont = 1\n", "'gates-count'");
  refused("[gats]\ncount = 1\n", "unknown key 'gats'");
  refused("[gats]\ngates-count = 1\n", "there is no table [gats]");
  refused("[gates]\ncount = 1\n[gates.factor]\nx = 1\n", "gates.factor");
  refused("gates-count = 1\n[gates]\ncount = 1\n", "are one key, given twice");
  EXPECT_EQ(refusal_of("[gates]\ncount = 0\nfactor = 0\n").substr(0, 2), "2 ") << "all that is wrong at once";
}

TEST(Fields, PrintedListsAreReadBack) {
  Gates g;
  g.count = {7, 8, 9}, g.some = {5}, g.factor = "1.125";
  const File file(print_fields(g.fields()));
  Gates again;
  auto fields = again.fields();
  read_toml(fields, file.path);
  EXPECT_EQ(again.count, g.count);
  EXPECT_EQ(again.some, g.some);
  EXPECT_EQ(again.factor, g.factor);
  g.count.clear();
  const File empty(print_fields(g.fields()));
  read_toml(fields, empty.path);
  EXPECT_TRUE(again.count.empty());
}

}  // namespace trainyard::base
