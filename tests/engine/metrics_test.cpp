// Lines of metrics: when and where they were written, what a reader takes of old and damaged lines, and a disk that
// takes a part of one.
#include "tests/scratch.h"

#include "libtrain/base/error.h"
#include "libtrain/engine/metrics.h"
#include "libtrain/engine/metrics_reader.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <csignal>
#include <ctime>
#include <regex>
#include <sys/resource.h>
#include <unistd.h>

using namespace trainyard;
using trainyard::testing::Scratch;
using trainyard::testing::slurp;
using trainyard::testing::spit;

namespace {

class Metrics : public ::testing::Test {
 protected:
  void write(std::int64_t keep, std::int64_t first, std::int64_t last) {
    engine::MetricsFile file(path, keep);
    for (auto step = first; step <= last; ++step) {
      engine::StepMetrics m;
      m.step = step, m.loss = 2;
      file.write(m);
    }
  }
  Scratch scratch;
  std::string path = scratch.path + "/metrics.jsonl";
};

}  // namespace

TEST_F(Metrics, EveryLineSaysWhenAndWhere) {
  const std::string old_line = R"({"step":1,"loss":3.5})";  // a line of a version that did not record them
  spit(path, old_line + "\n");
  // std::time may read a coarser clock that is milliseconds behind the one of the lines.
  using Clock = std::chrono::system_clock;
  const auto before = Clock::to_time_t(Clock::now());
  write(1, 2, 3);
  const auto after = Clock::to_time_t(Clock::now());
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  std::vector<engine::MetricsLine> lines;
  EXPECT_FALSE(engine::each_whole_metrics_line(
      path, [&](const engine::MetricsLine& line) { return lines.push_back(line), true; }));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].values.dump(), old_line);
  for (std::size_t i : {1u, 2u}) {
    EXPECT_EQ(lines[i].step, static_cast<std::int64_t>(i) + 1);
    EXPECT_EQ(lines[i].values.at("host"), host);
    const std::string time = lines[i].values.at("time");
    EXPECT_TRUE(std::regex_match(time, std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.]\d{3}Z)"))) << time;
    std::tm utc{};
    ASSERT_NE(strptime(time.c_str(), "%Y-%m-%dT%H:%M:%S", &utc), nullptr);
    const auto written = timegm(&utc);
    EXPECT_GE(written, before);
    EXPECT_LE(written, after);
  }
}

TEST_F(Metrics, ALineSaysHowLongTheDiskBlockedWhereSomethingLiesThere) {
  engine::StepMetrics m;
  EXPECT_EQ(engine::to_json_line(m).find("disk"), std::string::npos);
  for (const double seconds : {0.0, 0.125}) {
    m.disk_wait_seconds = seconds;
    EXPECT_EQ(nlohmann::json::parse(engine::to_json_line(m)).at("disk_wait_seconds"), seconds);
  }
}

TEST_F(Metrics, DamagedLinesAreToldApartFromTheOneThatBreaksOff) {
  spit(path, "{\"step\":1}\nnonsense\n\n{\"step\":\"two\"}\n[1]\n{\"step\":3}\n{\"step\":4,\"lo");
  std::vector<std::int64_t> steps, damaged, unfinished;
  engine::each_metrics_line(path, [&](const engine::MetricsLine& line) {
    (line.unfinished()     ? unfinished
     : line.damage.empty() ? steps
                           : damaged)
        .push_back(line.damage.empty() ? line.step : line.number);
    return true;
  });
  EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(damaged, (std::vector<std::int64_t>{2, 4, 5}));
  EXPECT_EQ(unfinished, (std::vector<std::int64_t>{7}));
  try {
    engine::each_whole_metrics_line(path, [](const engine::MetricsLine&) { return true; });
    ADD_FAILURE() << "a damaged line was skipped";
  } catch (const base::InputError& e) {
    EXPECT_NE(std::string(e.what()).find("metrics.jsonl line 2"), std::string::npos) << e.what();
  }
  // A resume keeps everything before the last line that it keeps, and cuts off the rest.
  write(3, 4, 4);
  const auto text = slurp(path);
  EXPECT_TRUE(
      text.starts_with("{\"step\":1}\nnonsense\n\n{\"step\":\"two\"}\n[1]\n{\"step\":3}\n{\"step\":4,\"loss\":2.0"))
      << text;
  EXPECT_THROW(engine::each_metrics_line(scratch.path, [](const engine::MetricsLine&) { return true; }),
               base::InputError);
}

// A run owns only the name of the file: hard links and symbolic links keep their content.
TEST_F(Metrics, AFileWithOtherNamesStaysAsItIs) {
  spit(path, "{\"step\":1}\n{\"step\":2}\n");
  const auto other = scratch.path + "/other";
  std::filesystem::create_hard_link(path, other);
  write(1, 2, 2);
  EXPECT_EQ(slurp(other), "{\"step\":1}\n{\"step\":2}\n");
  EXPECT_TRUE(slurp(path).starts_with("{\"step\":1}\n{\"step\":2,\"loss\":2.0"));
  std::filesystem::remove(path);
  std::filesystem::create_symlink(other, path);
  write(1, 2, 2);
  EXPECT_EQ(slurp(other), "{\"step\":1}\n{\"step\":2}\n");
  EXPECT_TRUE(slurp(path).starts_with("{\"step\":1}\n{\"step\":2,\"loss\":2.0"));
  std::filesystem::remove(path);
  std::filesystem::create_symlink(scratch.path + "/not-mounted", path);
  EXPECT_THROW(write(1, 2, 2), base::InputError);
  EXPECT_FALSE(std::filesystem::exists(scratch.path + "/not-mounted"));
}

TEST_F(Metrics, AFileThatIsRemovedOrReplacedUnderARunIsMadeAgain) {
  spit(path, "{\"step\":1}\n");
  engine::MetricsFile file(path, 1);
  const auto add = [&](std::int64_t step) {
    engine::StepMetrics m;
    m.step = step;
    file.write(m);
  };
  const auto steps = [&] {
    std::vector<std::int64_t> out;
    engine::each_metrics_line(path, [&](const engine::MetricsLine& line) {
      return out.push_back(line.damage.empty() ? line.step : -1), true;
    });
    return out;
  };
  using Steps = std::vector<std::int64_t>;
  ::testing::internal::CaptureStderr();
  add(2);
  std::filesystem::remove(path);
  add(3);
  EXPECT_EQ(steps(), (Steps{1, 2, 3}));
  spit(scratch.path + "/edited", "an editor's\n");
  std::filesystem::rename(scratch.path + "/edited", path);
  add(4);
  EXPECT_EQ(steps(), (Steps{1, 2, 3, 4}));
  EXPECT_EQ(slurp(path + ".of-somebody"), "an editor's\n");
  std::filesystem::remove(path);  // after the last line
  file.mend();
  EXPECT_EQ(steps(), (Steps{1, 2, 3, 4}));
  std::filesystem::resize_file(path, 15);
  add(5);
  std::ofstream(path, std::ios::app) << "{\"step\":6}\n";
  add(7);
  EXPECT_EQ(steps(), (Steps{1, -1, 5, 6, 7}));
  const auto said = ::testing::internal::GetCapturedStderr();
  for (const char* word : {"was removed while this run wrote to it", "was replaced while this run wrote to it",
                           "another program wrote to "})
    EXPECT_NE(said.find(word), std::string::npos) << said;
}

TEST_F(Metrics, ADiskThatTakesAPartOfALineSaysWhy) {
  std::signal(SIGXFSZ, SIG_IGN);
  engine::MetricsFile file(path, 0);
  engine::StepMetrics m;
  m.step = 1;
  file.write(m);
  rlimit before{}, tight{};
  getrlimit(RLIMIT_FSIZE, &before);
  tight = before;
  tight.rlim_cur = slurp(path).size() + 10;
  setrlimit(RLIMIT_FSIZE, &tight);
  errno = 0;
  std::string said;
  try {
    file.write(m);
  } catch (const base::EnvironmentError& e) {
    said = e.what();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_NE(said.find("File too large"), std::string::npos) << said;
}
