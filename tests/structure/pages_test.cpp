// Pages: width, length of sentences, one sentence a line, working links, and an index that lists all pages.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace pages_test {

namespace fs = std::filesystem;
const fs::path root = ROOT;

struct Line {
  int number;
  std::string text;
  bool code;
};

std::vector<Line> lines_of(const fs::path& path) {
  std::ifstream in(path);
  std::vector<Line> lines;
  bool code = false;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const bool fence = line.find("```") == line.find_first_not_of(' ') && line.find("```") != std::string::npos;
    lines.push_back({number, line, code || fence});
    if (fence) code = !code;
  }
  return lines;
}

// All pages except those that a build, a test or a user made.
std::vector<std::string> pages(const std::vector<std::string>& folders) {
  std::vector<std::string> found;
  for (const auto& item : fs::directory_iterator(root))
    if (item.path().extension() == ".md") found.push_back(item.path().filename().string());
  for (const auto& folder : folders)
    for (const auto& item : fs::recursive_directory_iterator(root / folder))
      if (item.path().extension() == ".md") found.push_back(fs::relative(item.path(), root).string());
  std::sort(found.begin(), found.end());
  return found;
}

const std::vector<std::string> written{"tools", "libtrain", "slurm", "tests", "checkpoints", "datasets", "bench"};

bool is_generated(const std::string& page) { return page.starts_with("tools/guide/reference/"); }
// A record of measurements, which grows entry by entry.
bool is_record(const std::string& page) { return page == "bench/RESULTS.md"; }

// The text without what no reader counts as words: targets of links, marks of lists and emphasis.
std::string prose(const std::string& text) {
  auto out = std::regex_replace(text, std::regex(R"(\]\([^)]*\))"), "]");
  out = std::regex_replace(out, std::regex("`[^`]*`"), "`code`");
  return std::regex_replace(out, std::regex("^ *(- |[0-9]+[.] |> )"), "");
}

// A sentence ends with . ! ? before a space and a capital, a quotation mark or code.
std::vector<std::string> sentences(const std::string& text) {
  std::vector<std::string> out{""};
  for (std::size_t i = 0; i < text.size(); ++i) {
    out.back() += text[i];
    const bool ends = (text[i] == '.' || text[i] == '!' || text[i] == '?') && i + 2 < text.size() && text[i + 1] == ' ';
    if (!ends) continue;
    const auto next = static_cast<unsigned char>(text[i + 2]);
    const bool abbreviated = out.back().ends_with("e.g.") || out.back().ends_with("al.");
    if ((std::isupper(next) != 0 || next == '`' || next == '[') && !abbreviated) out.emplace_back();
  }
  return out;
}

std::size_t words(const std::string& text) {
  std::istringstream in(text);
  std::size_t n = 0;
  for (std::string word; in >> word;)
    n += std::any_of(word.begin(), word.end(), [](unsigned char c) { return std::isalnum(c) != 0; });
  return n;
}

TEST(Pages, LinesAreAtMost120Wide) {
  for (const auto& page : pages(written)) {
    if (is_generated(page) || is_record(page)) continue;
    for (const auto& line : lines_of(root / page))
      EXPECT_TRUE(line.text.size() <= 120 || line.text.starts_with("|")) << page << ":" << line.number;
  }
}

TEST(Pages, SentencesAreShortAndHaveALineEach) {
  for (const auto& page : pages(written)) {
    if (is_generated(page) || is_record(page)) continue;
    for (const auto& line : lines_of(root / page)) {
      if (line.code || line.text.starts_with("|") || line.text.starts_with("#") || line.text.starts_with("    "))
        continue;
      const auto found = sentences(prose(line.text));
      EXPECT_EQ(found.size(), 1U) << page << ":" << line.number << " has " << found.size() << " sentences";
      for (const auto& sentence : found)
        EXPECT_LE(words(sentence), 30U) << page << ":" << line.number << ": " << sentence;
    }
  }
}

// The heading that a link names, in GitHub's spelling: small letters, hyphens for spaces, no other marks.
std::string anchor_of(const std::string& heading) {
  std::string out;
  for (const char c : heading) {
    const auto u = static_cast<unsigned char>(c);
    if (std::isalnum(u) != 0 || c == '-' || c == '_') out += static_cast<char>(std::tolower(u));
    else if (c == ' ') out += '-';
  }
  return out;
}

bool has_anchor(const fs::path& page, const std::string& anchor) {
  for (const auto& line : lines_of(page)) {
    if (line.code || !line.text.starts_with("#")) continue;
    auto heading = line.text.substr(line.text.find_first_not_of('#'));
    heading.erase(0, heading.find_first_not_of(' '));
    if (anchor_of(heading) == anchor) return true;
  }
  return false;
}

TEST(Pages, LinksLeadSomewhere) {
  const std::regex link(R"(\]\(([^)# ]*)(#[^) ]*)?\))");
  int seen = 0;
  for (const auto& page : pages(written))
    for (const auto& line : lines_of(root / page)) {
      if (line.code) continue;
      for (std::sregex_iterator it(line.text.begin(), line.text.end(), link), end; it != end; ++it) {
        const auto target = (*it)[1].str(), anchor = (*it)[2].str();
        if (target.starts_with("http")) continue;
        ++seen;
        const auto path = target.empty() ? root / page : (root / page).parent_path() / target;
        ASSERT_TRUE(fs::exists(path)) << page << ":" << line.number << " links to " << target;
        EXPECT_TRUE(anchor.empty() || has_anchor(path, anchor.substr(1)))
            << page << ":" << line.number << ": " << target << anchor;
      }
    }
  EXPECT_GT(seen, 100);
}

TEST(Pages, TheReadmeIsShort) { EXPECT_LE(lines_of(root / "README.md").size(), 200U); }

TEST(Pages, TheIndexOfTheGuideHasAllPages) {
  std::set<std::string> listed;
  const std::regex link(R"(\]\(([a-z-]+\.md)\))");
  for (const auto& line : lines_of(root / "tools/guide/README.md"))
    for (std::sregex_iterator it(line.text.begin(), line.text.end(), link), end; it != end; ++it)
      listed.insert((*it)[1]);
  listed.insert("README.md");
  for (const auto& item : fs::directory_iterator(root / "tools/guide")) {
    const auto name = item.path().filename().string();
    EXPECT_TRUE(!name.ends_with(".md") || listed.contains(name)) << name << " is not in tools/guide/README.md";
  }
}

}  // namespace pages_test
