// No test asserts how long something takes, because that would test how busy the machine is. Tests count or order
// events instead, or use a simulated clock (tests/simulated_clock.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace wall_time_test {

namespace fs = std::filesystem;

// What is wrong with a line: it reads a clock, or compares a time that a program measured with a number other than
// zero. Limits that end a test (ctest's TIMEOUT, `timeout`, a guard that kills) are allowed, since they only bound a
// hang.
std::string asserts_time(const std::string& line, bool script) {
  static const std::regex clock(R"(_clock::now|clock_gettime|gettimeofday)");
  static const std::regex measured(
      R"((EXPECT|ASSERT)_\w+\(.*(busy_seconds\(|_seconds"\]).*[^\w.](0*[1-9]|0?\.\d*[1-9]))");
  static const std::regex shell_clock(
      R"(\bSECONDS\b|EPOCHREALTIME|EPOCHSECONDS|date \+?['"]?\+?%[sN]|perf_counter|time\.time\(|time\.monotonic)");
  static const std::regex shell_measured(R"(_seconds\b.*[<>]=? *[0-9.]*[1-9])");
  if (script) {
    if (std::regex_search(line, shell_clock)) return "reads a clock";
    if (std::regex_search(line, shell_measured)) return "holds a measured time against a number";
    return "";
  }
  if (std::regex_search(line, clock)) return "reads a clock";
  if (std::regex_search(line, measured)) return "holds a measured time against a number";
  return "";
}

TEST(WallTime, TheEyeSeesIt) {
  for (const char* line :
       {"const auto start = std::chrono::steady_clock::now();", "EXPECT_LT(second->busy_seconds(), 0.04);",
        "EXPECT_GE(m[\"step_seconds\"].get<double>(), 2);"})
    EXPECT_NE(asserts_time(line, false), "") << line;
  for (const char* line :
       {"EXPECT_GT(exec->busy_seconds(), 0);", "EXPECT_EQ(asked, 3);",
        "std::this_thread::sleep_for(std::chrono::milliseconds(20));", "EXPECT_NEAR(p.seconds, 2e-3, 1e-9);"})
    EXPECT_EQ(asserts_time(line, false), "") << line;
  for (const char* line :
       {"[ $((SECONDS - began)) -lt 30 ]", "begin=$(date +%s)", "jq '.step_seconds < 0.5' metrics.jsonl"})
    EXPECT_NE(asserts_time(line, true), "") << line;
  for (const char* line : {"timeout 30 train --seconds 2", "jq -e '.step_seconds > 0' line", "sleep 0.1"})
    EXPECT_EQ(asserts_time(line, true), "") << line;
}

TEST(WallTime, NoTestAssertsIt) {
  const fs::path tests = fs::path(ROOT) / "tests";
  const std::set<std::string> others = {"emulated", "interposed", "structure"};  // clocks of their own; this
  int seen = 0;
  for (auto item = fs::recursive_directory_iterator(tests); item != fs::recursive_directory_iterator(); ++item) {
    if (item->is_directory() && others.contains(item->path().filename().string())) item.disable_recursion_pending();
    const auto ending = item->path().extension().string();
    const bool script = ending == ".sh" || ending == ".py",
               source = ending == ".cpp" || ending == ".h" || ending == ".c";
    if (!item->is_regular_file() || (!script && !source)) continue;
    ++seen;
    std::ifstream in(item->path());
    int number = 0;
    for (std::string line; std::getline(in, line);) {
      ++number;
      const auto what = asserts_time(line, script);
      EXPECT_EQ(what, "") << fs::relative(item->path(), tests).string() << ":" << number << ": " << line;
    }
  }
  EXPECT_GT(seen, 100);
}

}  // namespace wall_time_test
