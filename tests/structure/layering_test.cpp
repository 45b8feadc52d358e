// Compares every #include with the packages and rooms of libtrain/README.md, and finds circles of includes; also sizes
// and first lines of the sources.
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

namespace layering_test {

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
  const std::regex row(R"(\| `(libtrain/[a-z]+|[a-z]+)` \| ([^|]+) \|.*)");
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

// "libtrain/plan/grid/axis.h" lies in package "libtrain/plan" and room "grid". A file directly in a package has no
// room.
struct Place {
  std::string package, room;
};
Place place_of(const std::string& path) {
  auto end = path.find('/');
  if (path.substr(0, end) == "libtrain") end = path.find('/', end + 1);
  const auto next = path.find('/', end + 1);
  return {path.substr(0, end), next == path.npos ? "" : path.substr(end + 1, next - end - 1)};
}

// The tables of rooms: package -> room -> rooms that it may include, the room itself among them. A room that is not
// above its row in the table is a failure.
std::map<std::string, std::map<std::string, std::set<std::string>>> room_tables() {
  std::map<std::string, std::map<std::string, std::set<std::string>>> tables;
  const std::regex row(R"(\| `([a-z_/-]+)` \| ([^|]+) \|.*)");
  for (const auto& line : lines_of(root / "libtrain/README.md")) {
    std::smatch m;
    if (!std::regex_match(line, m, row)) continue;
    const auto place = place_of(m[1].str() + "/");
    if (place.room.empty()) continue;  // a package
    auto& rooms = tables[place.package];
    std::string list = m[2];
    if (list == "-") list.clear();
    std::replace(list.begin(), list.end(), ',', ' ');
    std::istringstream words(list);
    std::set<std::string> allowed = {place.room};
    for (std::string word; words >> word;) {
      EXPECT_TRUE(rooms.contains(word)) << m[1] << " may include " << word << ", which is no room above it";
      allowed.insert(word);
    }
    rooms[place.room] = allowed;
  }
  return tables;
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

// The units that each unit includes. A unit is a header with the source of its name: its path without ending.
using Units = std::map<std::string, std::set<std::string>>;
Units included_units() {
  const auto unit_of = [](const std::string& path) { return path.substr(0, path.rfind('.')); };
  Units units;
  each_include([&](const std::string& file, std::size_t, const std::string& header, bool quoted) {
    if (quoted && unit_of(file) != unit_of(header)) units[unit_of(file)].insert(unit_of(header));
  });
  return units;
}

// Finds the circles: the strongly connected components of more than one unit, by Tarjan's algorithm.
class CircleFinder {
 public:
  explicit CircleFinder(const Units& units) : units_(units) {
    for (const auto& [unit, included] : units)
      if (!numbers_.contains(unit)) visit(unit);
  }
  const std::vector<std::set<std::string>>& circles() const { return circles_; }

 private:
  // Returns the lowest number of a unit on the path that `unit` reaches.
  int visit(const std::string& unit) {
    const int number = static_cast<int>(numbers_.size());
    numbers_[unit] = number;
    path_.push_back(unit);
    int lowest = number;
    if (const auto included = units_.find(unit); included != units_.end())
      for (const auto& other : included->second) {
        if (!numbers_.contains(other)) lowest = std::min(lowest, visit(other));
        else if (!done_.contains(other)) lowest = std::min(lowest, numbers_.at(other));
      }
    if (lowest < number) return lowest;
    const auto first = std::find(path_.begin(), path_.end(), unit);
    const std::set<std::string> component(first, path_.end());
    path_.erase(first, path_.end());
    done_.insert(component.begin(), component.end());
    if (component.size() > 1) circles_.push_back(component);
    return lowest;
  }

  const Units& units_;
  std::map<std::string, int> numbers_;
  std::set<std::string> done_;  // units whose component is known
  std::vector<std::string> path_;
  std::vector<std::set<std::string>> circles_;
};

std::vector<std::set<std::string>> circles_of(const Units& units) { return CircleFinder(units).circles(); }

std::string lines_text(const std::set<std::string>& lines) {
  std::string text;
  for (const auto& line : lines) text += "\n  " + line;
  return text;
}

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

TEST(Layering, TheTablesNameEveryRoomOfTheirPackages) {
  const auto tables = room_tables();
  ASSERT_TRUE(tables.contains("libtrain/plan"));
  EXPECT_EQ(tables.at("libtrain/plan").at("spec"), (std::set<std::string>{"grid", "spec"}));
  for (const auto& [package, rooms] : tables) {
    for (const auto& item : fs::directory_iterator(root / package))
      EXPECT_TRUE(!item.is_directory() || rooms.contains(item.path().filename().string()))
          << item.path() << " is not in the table of the rooms of " << package;
    for (const auto& [room, allowed] : rooms)
      EXPECT_TRUE(fs::is_directory(root / package / room)) << package << " has no room " << room;
  }
}

TEST(Layering, EveryIncludeObeysTheRooms) {
  const auto tables = room_tables();
  int seen = 0;
  each_include([&](const std::string& file, std::size_t line, const std::string& header, bool quoted) {
    const auto from = place_of(file), to = place_of(header);
    if (!quoted || from.package != to.package || !tables.contains(from.package)) return;
    ++seen;
    if (from.room.empty()) return;
    const auto& rooms = tables.at(from.package);
    EXPECT_TRUE(rooms.contains(from.room) && rooms.at(from.room).contains(to.room))
        << file << ":" << line << " includes \"" << header << "\": " << from.room << " may not include "
        << (to.room.empty() ? "files directly in " + from.package : to.room);
  });
  EXPECT_GT(seen, 50);
}

// Units of a circle can only be understood together, so a circle is small or is none.
TEST(Layering, CirclesOfUnitsAreSmall) {
  // Two circles share the unit b. The unit e leads to them, and f and g are reached from them.
  const Units example = {{"a", {"b"}}, {"b", {"a", "c", "f"}}, {"c", {"d"}}, {"d", {"b"}}, {"e", {"a"}}, {"f", {"g"}}};
  EXPECT_EQ(circles_of(example), (std::vector<std::set<std::string>>{{"a", "b", "c", "d"}}));
  constexpr std::size_t most = 4;
  const auto units = included_units();
  EXPECT_GT(units.size(), 100u);
  for (const auto& circle : circles_of(units))
    EXPECT_LE(circle.size(), most) << "these units include one another in a circle; at most " << most
                                   << " may:" << lines_text(circle);
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
      {std::regex("liburing.*"), std::regex("libtrain/io/.*[.]cpp")},
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

}  // namespace layering_test
