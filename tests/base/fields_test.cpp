// Fields: one description gives file, environment and printing, in the stated order of precedence.
#include "libtrain/base/error.h"
#include "libtrain/base/fields.h"
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

}  // namespace trainyard::base
