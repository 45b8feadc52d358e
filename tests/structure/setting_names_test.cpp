// The library names settings, and programs spell them: no string below tools has a flag in it, and a name of a setting
// stands only where it is spelled (libtrain/base/setting_text.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace setting_names_test {

namespace fs = std::filesystem;

// A string of a source, of all its adjacent literals, and what stands before it: "base::text(".
struct Text {
  int line = 0;
  std::string before, value;
};

// Reads a source for its strings, without comments, characters and #include.
class Reader {
 public:
  explicit Reader(std::string source) : source_(std::move(source)) {
    while (at_ < source_.size()) step();
    end_of_text();
  }
  std::vector<Text> texts;

 private:
  bool follows(const char* what) const { return source_.compare(at_, std::char_traits<char>::length(what), what) == 0; }

  void step() {
    const char c = source_[at_];
    if (follows("//")) at_ = std::min(source_.find('\n', at_), source_.size());
    else if (follows("/*")) at_ = std::min(source_.find("*/", at_), source_.size() - 2) + 2;
    else if (follows("#include")) at_ = std::min(source_.find('\n', at_), source_.size());
    else if (c == '\'' && (before_.empty() || std::isdigit(static_cast<unsigned char>(before_.back())) == 0))
      character();
    else if (c == '"') text();
    else code(c);
  }
  void code(char c) {
    ++at_;
    const bool space = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (space && (in_text_ || before_.ends_with(' ') || before_.ends_with('('))) return;
    end_of_text();
    before_ += space ? ' ' : c;
  }
  void character() {
    end_of_text();
    for (++at_; at_ < source_.size() && source_[at_] != '\''; ++at_) at_ += source_[at_] == '\\';
    ++at_;
    before_ += "''";
  }
  void text() {
    if (!in_text_) {
      now_ = {
          1 + static_cast<int>(std::count(source_.begin(), source_.begin() + static_cast<std::ptrdiff_t>(at_), '\n')),
          before_.substr(before_.size() - std::min<std::size_t>(before_.size(), 30)), ""};
      in_text_ = true;
    }
    if (!before_.empty() && before_.back() == 'R') {  // R"end(...)end"
      const auto open = source_.find('(', at_),
                 end = source_.find(")" + source_.substr(at_ + 1, open - at_ - 1) + "\"", at_);
      now_.value += source_.substr(open + 1, end - open - 1);
      at_ = end + open - at_ + 1;
      return;
    }
    for (++at_; at_ < source_.size() && source_[at_] != '"'; ++at_) {
      const bool escaped = source_[at_] == '\\';
      at_ += escaped;
      now_.value += escaped && source_[at_] == 'n' ? '\n' : source_[at_];
    }
    ++at_;
  }
  void end_of_text() {
    if (in_text_) texts.push_back(now_);
    if (in_text_) before_ += "\"\"";
    in_text_ = false;
  }

  std::string source_, before_;
  std::size_t at_ = 0;
  Text now_;
  bool in_text_ = false;
};

// Command lines of programs that the string names. Their flags are the same, whichever program has the message.
const std::set<std::string> programs = {
    "convert-checkpoint", "generate", "inspect", "partition-model", "profile-comm", "reshard-checkpoint", "score",
    "shard-data",         "train"};
constexpr std::array other_commands = {"sbatch --mem",
                                       "srun --mpi=",
                                       "zstd -dc --long=",
                                       "(ulimit -v, --mem of Slurm)",
                                       "shard-data --input {} --output ",
                                       "train reads it: --data "};

bool is_of_a_named_program(const std::string& text, std::size_t flag) {
  for (const std::string command : other_commands) {
    const auto in_it = command.rfind("--");
    if (flag >= in_it && text.compare(flag - in_it, command.size(), command) == 0) return true;
  }
  if (flag == 0 || text[flag - 1] != ' ') return false;
  auto first = flag - 1;
  while (first > 0 && (std::isalpha(static_cast<unsigned char>(text[first - 1])) != 0 || text[first - 1] == '-'))
    --first;
  return programs.contains(text.substr(first, flag - 1 - first));
}

// What is wrong with a string, or "".
std::string fault(const Text& text) {
  static const std::regex flag(R"(--(?=[a-z{]|$))"), name(R"(\$[a-z])"),
      spelled(R"((^|[^\w:])(base::)?(text|log_(info|warning|error|debug))\($)");
  for (std::sregex_iterator at(text.value.begin(), text.value.end(), flag), end; at != end; ++at)
    if (!is_of_a_named_program(text.value, static_cast<std::size_t>(at->position())))
      return "has a flag: base::text(\"$name\") spells the setting's name";
  if (std::regex_search(text.value, name) && !std::regex_search(text.before, spelled))
    return "names a setting, and nothing spells it: base::text()";
  return "";
}

std::vector<std::string> faults(const std::string& source) {
  std::vector<std::string> out;
  for (const auto& text : Reader(source).texts)
    if (const auto what = fault(text); !what.empty()) out.push_back(std::to_string(text.line) + ": " + what);
  return out;
}

std::string read(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<fs::path> sources_of_library() {
  std::vector<fs::path> out;
  for (const char* folder : {"libtrain", "kernels"})
    for (const auto& item : fs::recursive_directory_iterator(fs::path(ROOT) / folder))
      if (item.is_regular_file() &&
          std::set<std::string>{".h", ".cpp", ".cu"}.contains(item.path().extension().string()))
        out.push_back(item.path());
  return out;
}

TEST(SettingNames, TheEyeSeesThem) {
  for (const char* source :
       {R"(throw UsageError("--steps is missing");)", R"(add("lower " /* "a" */ "--steps");)", R"(f("--{} {}");)",
        R"(f("--" + name);)", R"(f(fmt::format("$steps {}", n));)", R"(f("inspect has no such --steps");)",
        R"(f(base::text("$steps {}", "$lr"));)", R"x(f(R"(a --steps)");)x", R"(f('"', "--steps", '"');)",
        R"(f("untrain --steps");)", R"(context("$steps");)"})
    EXPECT_EQ(faults(source).size(), 1u) << source;
  for (const char* source :
       {R"(f(base::text("$steps {}", n));)", R"(f(text("lower " "$steps"));)", R"(base::log_info("$steps {}", n);)",
        R"(f("see inspect --verify");)", R"(f("sbatch --mem has more");)", R"(// f("--steps");)",
        R"(f("a -- b", "|---|", "-->");)", R"(f("in dollars: $5 or $");)"})
    EXPECT_EQ(faults(source), std::vector<std::string>()) << source;
  EXPECT_EQ(faults("a;\n\nf(\"x\"\n  \"--steps\");").at(0).substr(0, 2), "3:");
}

TEST(SettingNames, NoStringOfTheLibraryHasAFlag) {
  const auto sources = sources_of_library();
  EXPECT_GT(sources.size(), 500u);
  for (const auto& source : sources)
    for (const auto& what : faults(read(source))) ADD_FAILURE() << source.string() << ":" << what;
}

// Each is a flag of one of our programs.
TEST(SettingNames, ProgramsHaveTheseSettings) {
  std::string reference;
  for (const auto& page : fs::directory_iterator(fs::path(ROOT) / "tools/guide/reference"))
    reference += read(page.path());
  static const std::regex name(R"(\$([a-z][a-z0-9-]*[a-z0-9]))");
  std::set<std::string> names;
  for (const auto& source : sources_of_library())
    for (const auto& text : Reader(read(source)).texts) {
      if (text.before.ends_with("setting_name(")) names.insert(text.value);
      for (std::sregex_iterator at(text.value.begin(), text.value.end(), name), end; at != end; ++at)
        names.insert((*at)[1]);
    }
  EXPECT_GT(names.size(), 50u);
  for (const auto& setting : names)
    EXPECT_TRUE(std::regex_search(reference, std::regex("--" + setting + "(?![a-z0-9-])"))) << setting;
}

}  // namespace setting_names_test
