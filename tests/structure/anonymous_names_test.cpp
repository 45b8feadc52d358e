// Functions in anonymous namespaces have names of their own within a package. A build joins sources of a package, so
// two such functions of one name become overloads, and a call may silently take the other one.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace anonymous_names_test {

namespace fs = std::filesystem;
const fs::path root = ROOT;

// The functions that a source defines in an anonymous namespace. Definitions begin in the first column, as the format
// of the sources has it.
std::set<std::string> anonymous_functions(const std::string& source) {
  static const std::regex definition(R"(^[A-Za-z_][\w:<>&*,\[\]() ]*?[ &*>](\w+)\()");
  static const std::set<std::string> others{"template", "using", "struct", "class", "enum", "constexpr", "return"};
  std::set<std::string> names;
  bool inside = false;
  std::istringstream in(source);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("namespace {")) inside = true;
    else if (line == "}  // namespace") inside = false;
    if (!inside || others.contains(line.substr(0, line.find_first_of(" <(")))) continue;
    std::smatch m;
    if (std::regex_search(line, m, definition)) names.insert(m[1]);
  }
  return names;
}

// "libtrain/base", "tools/inspect". Kernels are left out: their sources are compiled one by one.
std::string package_of(const fs::path& source) {
  const auto relative = fs::relative(source, root);
  return (*relative.begin() / *std::next(relative.begin())).string();
}

TEST(AnonymousNames, TheEyeSeesThem) {
  const auto names = anonymous_functions(
      "namespace a {\nint open();\nnamespace {\nint first(int n) { return other(n); }\nstd::vector<std::string> "
      "second(\n"
      "  return third();\nstruct S {\nvoid fourth(const A& a, B b) {\n}  // namespace\nint outside() {\n");
  EXPECT_EQ(names, (std::set<std::string>{"first", "second", "fourth"}));
}

TEST(AnonymousNames, DifferWithinAPackage) {
  std::map<std::string, std::map<std::string, std::vector<std::string>>> found;  // package, name, sources
  int sources = 0;
  for (const char* folder : {"libtrain", "tools"})
    for (const auto& item : fs::recursive_directory_iterator(root / folder)) {
      if (item.path().extension() != ".cpp") continue;
      ++sources;
      std::ifstream in(item.path());
      const std::string text{std::istreambuf_iterator<char>(in), {}};
      for (const auto& name : anonymous_functions(text))
        found[package_of(item.path())][name].push_back(item.path().filename().string());
    }
  EXPECT_GT(sources, 300);
  for (const auto& [package, names] : found)
    for (const auto& [name, files] : names)
      if (files.size() > 1) {
        std::string list;
        for (const auto& file : files) list += " " + file;
        ADD_FAILURE() << package << ": " << name << " is in" << list << "; give each a name of its own";
      }
}

}  // namespace anonymous_names_test
