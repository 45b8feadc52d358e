// Names on pages: files and folders that exist, and members that the sources have.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace page_names_test {

namespace fs = std::filesystem;
const fs::path root = ROOT;

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> pages_in(const std::string& folder) {
  std::vector<std::string> found;
  for (const auto& item : fs::directory_iterator(root / folder))
    if (item.path().extension() == ".md") found.push_back(folder + "/" + item.path().filename().string());
  std::sort(found.begin(), found.end());
  return found;
}

struct Name {
  std::string text;
  int line;
};

struct Page {
  std::vector<Name> names;  // what stands between backticks, outside blocks of code
  std::string code;         // the blocks of code
};

Page read_page(const std::string& page) {
  std::ifstream in(root / page);
  Page found;
  bool code = false;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.find("```") != std::string::npos) code = !code;
    else if (code) found.code += line + "\n";
    else
      for (auto open = line.find('`'); open != std::string::npos;) {
        const auto close = line.find('`', open + 1);
        if (close == std::string::npos) break;
        found.names.push_back({line.substr(open + 1, close - open - 1), number});
        open = line.find('`', close + 1);
      }
  }
  return found;
}

bool is_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// "plan/x.{h,cpp}" is two names.
std::vector<std::string> without_braces(const std::string& name) {
  const auto open = name.find('{'), close = name.find('}');
  if (open == std::string::npos || close == std::string::npos) return {name};
  std::vector<std::string> out;
  for (auto at = open; at < close;) {
    const auto end = std::min(name.find(',', at + 1), close);
    out.push_back(name.substr(0, open) + name.substr(at + 1, end - at - 1) + name.substr(close + 1));
    at = end;
  }
  return out;
}

// Files and folders of the tree, with the names of files alone, too.
struct Tree {
  std::set<std::string> paths, file_names;
  Tree() {
    for (const auto& item : fs::directory_iterator(root))
      if (item.is_regular_file()) add(item.path());
    for (const char* folder :
         {".ci", "bench", "checkpoints", "datasets", "kernels", "libtrain", "slurm", "tests", "tools"}) {
      paths.insert(folder);
      for (const auto& item : fs::recursive_directory_iterator(root / folder)) add(item.path());
    }
  }
  void add(const fs::path& path) {
    paths.insert(path.lexically_relative(root).string());
    file_names.insert(path.filename().string());
  }
  bool has(const std::string& page, std::string name) const {
    while (name.ends_with('/')) name.pop_back();
    if (name.find('/') == std::string::npos && file_names.contains(name)) return true;
    if (paths.contains("tests/" + name + "_test.cpp")) return true;  // a test, by its name for ctest
    for (const auto& folder : {std::string(), std::string("libtrain"), fs::path(page).parent_path().string()})
      if (paths.contains((fs::path(folder) / name).lexically_normal().string())) return true;
    return false;
  }
};

// Whether a name looks like a source of the tree. NAME and x are what a reader puts in.
bool names_a_source(const Tree& tree, const std::string& name) {
  if (name.empty() || !(is_letter(name[0]) || name[0] == '.') || name[0] == '_') return false;
  for (const char c : name)
    if (!is_letter(c) && std::string_view("./-{},").find(c) == std::string_view::npos) return false;
  const auto stem = fs::path(name).stem().string();
  if (stem.size() == 1 || stem.starts_with("x_") || name.find("NAME") != std::string::npos) return false;
  static const std::set<std::string> endings{".h", ".cpp", ".cu", ".sh", ".sbatch", ".cmake", ".md", ".toml"};
  if (endings.contains(fs::path(name).extension().string())) return true;
  const auto slash = name.find('/');
  if (slash == std::string::npos || fs::path(name).has_extension()) return false;
  return tree.paths.contains(name.substr(0, slash)) || tree.paths.contains("libtrain/" + name.substr(0, slash));
}

TEST(PageNames, PathsExist) {
  const Tree tree;
  auto pages = pages_in("libtrain/design");
  for (auto& page : pages_in("tools/guide")) pages.push_back(std::move(page));
  pages.insert(pages.end(), {"libtrain/README.md", "CONTRIBUTING.md"});
  int seen = 0;
  for (const auto& page : pages) {
    const auto read = read_page(page);
    for (const auto& name : read.names)
      for (const auto& path : without_braces(name.text)) {
        if (!names_a_source(tree, path) || read.code.find(path) != std::string::npos) continue;  // or a user's file
        ++seen;
        EXPECT_TRUE(tree.has(page, path)) << page << ":" << name.line << " names " << path;
      }
  }
  EXPECT_GT(seen, 300);
}

struct Source {
  std::set<std::string, std::less<>> words, declared;  // declared: classes, enums, namespaces, aliases
};

// The words of a source, without comments.
Source read_source(const fs::path& path) {
  const auto text = text_of(path);
  Source source;
  std::string_view before, word;
  for (std::size_t i = 0; i < text.size();) {
    if (text.compare(i, 2, "//") == 0) {
      i = std::min(text.find('\n', i), text.size());
    } else if (is_letter(text[i])) {
      auto end = i;
      while (end < text.size() && is_letter(text[end])) ++end;
      before = word, word = std::string_view(text).substr(i, end - i);
      source.words.emplace(word);
      const bool of_namespace = before == "trainyard" && text.compare(i - std::min<std::size_t>(i, 2), 2, "::") == 0;
      if (before == "class" || before == "struct" || before == "enum" || before == "namespace" || before == "using" ||
          of_namespace)
        source.declared.emplace(word);
      i = end;
    } else {
      ++i;
    }
  }
  return source;
}

TEST(PageNames, MembersExist) {
  std::vector<Source> sources;
  for (const char* folder : {"kernels", "libtrain", "tools"})
    for (const auto& item : fs::recursive_directory_iterator(root / folder))
      if (const auto end = item.path().extension(); end == ".h" || end == ".cpp" || end == ".cu")
        sources.push_back(read_source(item.path()));
  int seen = 0;
  for (const auto& page : pages_in("libtrain/design"))
    for (const auto& name : read_page(page).names) {
      auto text = name.text.substr(0, name.text.find('('));
      const auto colons = text.rfind("::");
      if (colons == std::string::npos || text.find("std::") == 0) continue;
      if (!std::all_of(text.begin(), text.end(), [](char c) { return is_letter(c) || c == ':'; })) continue;
      const auto member = text.substr(colons + 2);
      auto owner = text.substr(0, colons);
      owner = owner.substr(owner.rfind(':') + 1);
      ++seen;
      EXPECT_TRUE(std::any_of(
          sources.begin(), sources.end(),
          [&](const Source& source) { return source.declared.contains(owner) && source.words.contains(member); }))
          << page << ":" << name.line << " names " << name.text << ", but no source that declares " << owner << " has "
          << member;
    }
  EXPECT_GT(seen, 50);
}

}  // namespace page_names_test
