// Compares every #include with the packages of libtrain/README.md; also sizes and first lines of the sources.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
const fs::path root = ROOT;

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Sources below the given folders, relative to the root, with one of the endings.
std::vector<std::string> sources(const std::vector<std::string>& folders, const std::set<std::string>& endings) {
  std::vector<std::string> found;
  for (const auto& folder : folders)
    if (fs::is_directory(root / folder))
      for (const auto& item : fs::recursive_directory_iterator(root / folder))
        if (item.is_regular_file() && endings.contains(item.path().extension().string()))
          found.push_back(fs::relative(item.path(), root).string());
  std::sort(found.begin(), found.end());
  return found;
}

// "libtrain/comm/mpi.h" lies in package "comm", "kernels/gemm/gemm.h" in "kernels".
std::string package_of(const std::string& path) {
  const auto first = path.substr(0, path.find('/'));
  if (first != "libtrain") return first;
  const auto rest = path.substr(first.size() + 1);
  return rest.substr(0, rest.find('/'));
}

// The table of packages: package -> packages that it may include, the package itself among them.
std::map<std::string, std::set<std::string>> package_table() {
  std::map<std::string, std::set<std::string>> table;
  std::set<std::string> below;
  const std::regex row(R"(\| `([a-z/]+)` \| ([^|]+) \|.*)");
  for (const auto& line : lines_of(root / "libtrain/README.md")) {
    std::smatch m;
    if (!std::regex_match(line, m, row)) continue;
    const auto package = package_of(m[1].str() + "/");
    std::string list = m[2];
    auto& allowed = table[package];
    if (list == "all of the above" || list == "engine and below") {
      allowed = below;
    } else if (list != "-") {
      std::replace(list.begin(), list.end(), ',', ' ');
      std::istringstream words(list);
      for (std::string word; words >> word;) allowed.insert(word);
    }
    allowed.insert(package);
    below.insert(package);
  }
  return table;
}

const std::vector<std::string> packages = {"libtrain", "kernels", "tools"};

// Calls visit(file, line number, header, quoted) for each #include of the packages.
template <class Visit> void each_include(Visit visit) {
  const std::regex include(R"(\s*#\s*include\s*([<"])([^>"]+)[>"].*)");
  for (const auto& file : sources(packages, {".h", ".cpp", ".cu"})) {
    const auto lines = lines_of(root / file);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      std::smatch m;
      if (std::regex_match(lines[i], m, include)) visit(file, i + 1, m[2].str(), m[1] == "\"");
    }
  }
}

}  // namespace

TEST(Layering, TheTableNamesEveryRoom) {
  const auto table = package_table();
  for (const auto& item : fs::directory_iterator(root / "libtrain"))
    EXPECT_TRUE(!item.is_directory() || item.path().filename() == "cmake" || item.path().filename() == "design" ||
                table.contains(item.path().filename().string()))
        << item.path();
  for (const auto& [package, allowed] : table)
    for (const auto& other : allowed)
      EXPECT_TRUE(table.contains(other)) << package << " may include " << other << ", which is no package";
  ASSERT_TRUE(table.contains("engine") && table.contains("tools") && table.contains("kernels"));
  EXPECT_EQ(table.at("plan"), (std::set<std::string>{"base", "plan"}));
  EXPECT_EQ(table.at("tools").size(), table.size());
}

TEST(Layering, EveryIncludeObeysTheTable) {
  const auto table = package_table();
  int seen = 0;
  each_include([&](const std::string& file, std::size_t line, const std::string& header, bool quoted) {
    if (!quoted) return;
    ++seen;
    EXPECT_TRUE(fs::exists(root / header))
        << file << ":" << line << " includes \"" << header << "\", which is not a path from the root";
    EXPECT_TRUE(table.at(package_of(file)).contains(package_of(header)))
        << file << ":" << line << " includes \"" << header << "\": " << package_of(file) << " stands below "
        << package_of(header) << " or beside it";
  });
  EXPECT_GT(seen, 100);
}

// The planner runs on machines without MPI and without data. Above plan it includes only the reader of layout files.
TEST(Layering, PartitionModelNeedsNothingAbovePlanButLayoutFiles) {
  each_include([&](const std::string& file, std::size_t line, const std::string& header, bool quoted) {
    if (!quoted || (!file.starts_with("tools/partition-model/") && !file.starts_with("tools/common/"))) return;
    const bool low = header.starts_with("libtrain/base/") || header.starts_with("libtrain/plan/") ||
                     header == "libtrain/io/layout_file.h" || header.starts_with("tools/partition-model/") ||
                     header.starts_with("tools/common/");
    EXPECT_TRUE(low) << file << ":" << line << " includes " << header;
  });
}

TEST(Layering, ThirdPartyHeadersStayInTheirRooms) {
  const std::vector<std::pair<std::regex, std::regex>> owners = {
      {std::regex("mpi[.]h"), std::regex("libtrain/comm/mpi_.*")},
      {std::regex("hdf5[.]h"), std::regex("libtrain/io/.*")},
      {std::regex("zstd.*|zlib.*"), std::regex("libtrain/io/.*")},
      {std::regex("simdjson.*"), std::regex("libtrain/data/.*[.]cpp")},
      {std::regex("sentencepiece.*"), std::regex("libtrain/data/.*[.]cpp")},
      {std::regex("pcre2.*"), std::regex("libtrain/data/bpe/.*[.]cpp")},
      {std::regex("CLI/.*"), std::regex("tools/.*")},
      {std::regex("oneapi/.*|cblas.*|dnnl.*"), std::regex("bench/.*")},
      {std::regex("omp[.]h"), std::regex("(kernels|libtrain/engine)/.*")},
      {std::regex("immintrin[.]h"), std::regex("kernels/.*")},
      {std::regex("toml.*"), std::regex("libtrain/base/.*")}};
  each_include([&](const std::string& file, std::size_t line, const std::string& header, bool quoted) {
    if (quoted) return;
    for (const auto& [name, owner] : owners)
      EXPECT_TRUE(!std::regex_match(header, name) || std::regex_match(file, owner))
          << file << ":" << line << " includes <" << header << ">";
  });
}

TEST(Files, BeginWithTheirSubject) {
  for (const auto& file : sources({"libtrain", "kernels", "tools", "tests", "bench", "slurm"},
                                  {".h", ".cpp", ".cu", ".cmake", ".sh", ".py"})) {
    const auto lines = lines_of(root / file);
    ASSERT_FALSE(lines.empty()) << file;
    // In a script the interpreter and the batch system's lines come first.
    const auto& first = *std::find_if(lines.begin(), lines.end() - 1, [](const std::string& line) {
      return !line.starts_with("#!") && !line.starts_with("#SBATCH");
    });
    const bool cpp = file.ends_with(".h") || file.ends_with(".cpp") || file.ends_with(".cu");
    EXPECT_TRUE(cpp ? first.starts_with("// ") : first.starts_with("# ") || first.starts_with("\"\"\""))
        << file << " begins with: " << first;
    EXPECT_GE(first.size(), 15u) << file << " says too little: " << first;
  }
}

TEST(Files, HaveAtMost500Lines) {
  for (const auto& file : sources({"libtrain", "kernels", "tools", "tests", "bench", "slurm"},
                                  {".h", ".cpp", ".cu", ".cmake", ".sh", ".py"}))
    EXPECT_LE(lines_of(root / file).size(), 500u) << file;
}

TEST(Files, HeadersAreGuardedOnce) {
  for (const auto& file : sources(packages, {".h"})) {
    const auto lines = lines_of(root / file);
    EXPECT_EQ(std::count(lines.begin(), lines.end(), "#pragma once"), 1) << file;
  }
}
