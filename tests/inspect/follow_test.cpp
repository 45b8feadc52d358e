// Watching a run: metrics that were appended, cut or replaced; how the run ended; the picture; the program on a pipe.
#include "tools/inspect/follow.h"

#include "tests/inspect/lines.h"
#include "tests/scratch.h"
#include "tools/train/step_line.h"

#include "libtrain/base/error.h"
#include "libtrain/base/folder_lock.h"
#include "libtrain/comm/reason.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <sstream>
#include <sys/wait.h>
#include <thread>

using namespace trainyard;
using trainyard::testing::Scratch;
using trainyard::testing::slurp;
using trainyard::testing::spit;
namespace fs = std::filesystem;
using Change = engine::MetricsTail::Change;

namespace {

struct Tail : ::testing::Test {
  Scratch scratch;
  std::string path = scratch.path + "/metrics.jsonl";
  engine::MetricsTail tail{path};
  std::vector<std::int64_t> steps;  // the steps that the tail holds now
  int visited = 0, damaged = 0;
  Change look() {
    return tail.read([&] { steps.clear(); },
                     [&](const engine::MetricsLine& line) {
                       ++visited;
                       if (line.damage.empty()) steps.push_back(line.step);
                       else ++damaged;
                     });
  }
};

std::vector<std::int64_t> up_to(std::int64_t last) {
  std::vector<std::int64_t> out;
  for (std::int64_t s = 1; s <= last; ++s) out.push_back(s);
  return out;
}

inspect::Watched watched(const std::string& text, std::int64_t steps = 20) {
  Scratch scratch;
  spit(scratch.path + "/m.jsonl", text);
  inspect::Watched w;
  w.path = "some/run", w.steps = steps;
  w.state.stage = engine::RunStatus::Stage::running;
  w.state.holder = "process 7 on n1, since 2026-01-31T00:00:00Z";
  w.history = inspect::read_history(scratch.path + "/m.jsonl");
  return w;
}

}  // namespace

TEST_F(Tail, ReadsOnlyWhatIsNew) {
  EXPECT_EQ(look(), Change::none);  // not there yet
  spit(path, lines::text(1, 3));
  EXPECT_EQ(look(), Change::more);
  EXPECT_EQ(look(), Change::none);
  const auto next = lines::text(4, 4);
  lines::append(path, next.substr(0, 20));
  EXPECT_EQ(look(), Change::none);  // half a line
  lines::append(path, next.substr(20) + lines::text(5, 5));
  EXPECT_EQ(look(), Change::more);
  EXPECT_EQ(steps, up_to(5));
  EXPECT_EQ(visited, 5);  // each line once
  lines::append(path, "{\"step\": \"seven\"}\nno json\n\n" + lines::text(6, 6));
  EXPECT_EQ(look(), Change::more);
  EXPECT_EQ(steps, up_to(6));
  EXPECT_EQ(damaged, 2);
}

TEST_F(Tail, AFileThatWasCutIsReadAgain) {
  spit(path, lines::text(1, 9));
  look();
  fs::resize_file(path, lines::text(1, 4).size());
  EXPECT_EQ(look(), Change::anew);
  EXPECT_EQ(steps, up_to(4));
  // The file is cut, and longer than before at the next look: the same lines with other times.
  look();
  fs::resize_file(path, lines::text(1, 2).size());
  auto later = lines::text(3, 8);
  for (auto at = later.find("23:59"); at != std::string::npos; at = later.find("23:59", at + 1))
    later.replace(at, 5, "23:58");
  lines::append(path, later);
  EXPECT_EQ(look(), Change::anew);
  EXPECT_EQ(steps, up_to(8));
  fs::resize_file(path, 0);
  EXPECT_EQ(look(), Change::anew);
  EXPECT_TRUE(steps.empty());
}

TEST_F(Tail, AFileThatWasReplacedOrRemovedIsReadAgain) {
  spit(path, lines::text(1, 6));
  look();
  spit(scratch.path + "/other", lines::text(1, 12));  // the same beginning, but another file
  fs::rename(scratch.path + "/other", path);
  EXPECT_EQ(look(), Change::anew);
  EXPECT_EQ(steps, up_to(12));
  // The file is missing for a moment. What was read stays, and is compared once the file is back.
  fs::rename(path, scratch.path + "/away");
  EXPECT_EQ(look(), Change::none);
  EXPECT_EQ(steps, up_to(12));
  fs::rename(scratch.path + "/away", path);
  EXPECT_EQ(look(), Change::none);
  fs::remove(path);
  EXPECT_EQ(look(), Change::none);
  spit(path, lines::text(1, 3));
  EXPECT_EQ(look(), Change::anew);
  EXPECT_EQ(steps, up_to(3));
  fs::remove(path);
  fs::create_directory(path);
  EXPECT_THROW(look(), base::InputError);
}

TEST_F(Tail, LongFilesComeInPieces) {
  spit(path, lines::text(1, 9000, 9000));
  ASSERT_GT(fs::file_size(path), 2u << 20);
  EXPECT_EQ(look(), Change::more);
  EXPECT_EQ(steps, up_to(9000));
  spit(path, std::string(20 << 20, 'x'));
  EXPECT_THROW(look(), base::InputError);
}

TEST(RunState, WhoWritesAndHowItEnded) {
  using Stage = engine::RunStatus::Stage;
  Scratch scratch;
  const auto run = scratch.path + "/run";
  EXPECT_EQ(engine::status_of(run).stage, Stage::absent);
  EXPECT_NE(inspect::verdict_on({}).sentence.find("does not exist: waiting"), std::string::npos);
  fs::create_directory(run);
  EXPECT_EQ(engine::status_of(run).stage, Stage::waiting);
  {
    const base::FolderLock lock(run, "");
    const auto state = engine::status_of(run);
    EXPECT_EQ(state.stage, Stage::running);
    EXPECT_EQ(state.holder, lock.name());
  }
  spit(run + "/metrics.jsonl", lines::text(1, 5));
  EXPECT_EQ(engine::status_of(run).stage, Stage::quiet);
  inspect::Watched w;
  w.path = run, w.steps = 20, w.history = inspect::read_history(run + "/metrics.jsonl");
  const auto verdict = [&] {
    w.state = engine::status_of(run);
    return inspect::verdict_on(w);
  };
  EXPECT_TRUE(verdict().ended);
  EXPECT_EQ(verdict().code, base::ExitCode::requeue);
  EXPECT_NE(verdict().sentence.find("step 5 of 20"), std::string::npos);
  EXPECT_NE(verdict().sentence.find("begins anew"), std::string::npos);
  // The lines of all steps exist before their checkpoint does.
  w.steps = 5;
  EXPECT_EQ(verdict().code, base::ExitCode::requeue);
  EXPECT_NE(verdict().sentence.find("whose checkpoint is not there"), std::string::npos);
  fs::create_directories(run + "/checkpoints/step-00000004");
  EXPECT_EQ(verdict().code, base::ExitCode::requeue);
  EXPECT_NE(verdict().sentence.find("goes on from its newest checkpoint"), std::string::npos);
  fs::create_directories(run + "/checkpoints/step-00000005");
  EXPECT_EQ(verdict().code, base::ExitCode::done);
  w.state.stage = Stage::unknown;  // the named holder may be alive
  w.state.holder = "process 9 on n2";
  EXPECT_EQ(inspect::verdict_on(w).code, base::ExitCode::done);
  w.state.newest_step = 4;
  EXPECT_FALSE(inspect::verdict_on(w).ended);
  spit(run + "/lock", "process 9 on n2, since 2026-01-31T00:00:00Z, start 0123\n");  // no process holds the lock
  EXPECT_EQ(verdict().code, base::ExitCode::peer_hung);
  EXPECT_NE(verdict().sentence.find("process 9 on n2"), std::string::npos);
  comm::write_reason(run + "/exit", 3, 4, "disk \x1b[31mfull");
  EXPECT_EQ(verdict().code, base::ExitCode::environment);
  EXPECT_NE(verdict().sentence.find("rank 3"), std::string::npos);
  EXPECT_NE(verdict().sentence.find("disk \\x1b[31mfull"), std::string::npos);
  fs::remove(run + "/lock");
  EXPECT_EQ(verdict().code, base::ExitCode::environment);
  spit(run + "/lock", "process 9 on n2, since 2026-01-31T00:00:00Z, start 0123\n");
  spit(run + "/exit/rank-00003.json", "{");  // still being written
  EXPECT_EQ(verdict().code, base::ExitCode::peer_hung);
}

TEST(RunState, TheNewestCheckpoint) {
  Scratch scratch;
  for (const char* name : {"step-00000010", "step-00000020", "abandoned-step-00000030", "step-00000040.partial"})
    fs::create_directories(scratch.path + "/checkpoints/" + name);
  const auto newest = scratch.path + "/checkpoints/step-00000020";
  spit(newest + "/manifest.json", R"({"identity": {"steps": 77}})");
  const auto state = engine::status_of(scratch.path);
  EXPECT_EQ(state.newest, newest);
  EXPECT_EQ(state.newest_step, 20);
  EXPECT_EQ(state.newest_time.size(), 20u);
  EXPECT_EQ(engine::steps_of(newest), 77);
  EXPECT_EQ(engine::steps_of(scratch.path + "/checkpoints/step-00000010"), 0);
}

TEST(Picture, SaysEverythingAndFitsItsWindow) {
  auto w = watched(lines::text(1, 9));
  w.state.newest = "some/run/checkpoints/step-00000008", w.state.newest_step = 8;
  w.state.newest_time = "2026-01-31T23:59:08Z";
  const double now = 1769903949 + 10;  // ten seconds after the ninth line
  const auto text = inspect::picture_of(w, {100, 40}, tools::Glyphs::ascii, now);
  for (const char* part : {"some/run", "9 of 20", "45 %", "22 s left", "0.556", "validation 0.688 at step 8",
                           "500 tokens/s", "2.0 s a step", "step-00000008, 11 s ago", "2026-01-31T23:59:08Z",
                           "process 7 on n1", "o: validation", "step 1"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  EXPECT_EQ(text.find("no step for"), std::string::npos);
  EXPECT_NE(inspect::picture_of(w, {100, 40}, tools::Glyphs::ascii, now + 3600).find("no step for"), std::string::npos);
  for (const int columns : {1, 2, 10, 31, 32, 40, 80, 250})
    for (const int rows : {1, 2, 5, 10, 24, 100})
      for (const auto glyphs : {tools::Glyphs::ascii, tools::Glyphs::unicode}) {
        std::istringstream in(inspect::picture_of(w, {columns, rows}, glyphs, now));
        int seen = 0;
        for (std::string line; std::getline(in, line); ++seen)
          EXPECT_LT(std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }), columns)
              << line;
        EXPECT_LE(seen, rows);
      }
}

TEST(Picture, OfAStepWithoutALoss) {
  auto m = lines::of_step(10);
  m.loss.reset();
  const auto w = watched(lines::text(1, 9) + engine::to_json_line(m) + "\n");
  EXPECT_EQ(inspect::line_of(w).find("step 10/20  no loss  val 0.688  500 tokens/s"), 0u) << inspect::line_of(w);
  const auto picture = inspect::picture_of(w, {100, 40}, tools::Glyphs::ascii, 0);
  EXPECT_NE(picture.find("loss        0.556 at step 9  validation"), std::string::npos) << picture;
  tools::StepLine line;
  EXPECT_EQ(line.text(m, 20).find("step 10/20  no loss  500 tokens/s"), 0u) << line.text(m, 20);
}

// A validation's seconds are in no step's time, but they count in the time left and in the time of later steps.
TEST(Picture, ValidationsTakeTime) {
  std::string text;
  for (int step = 1; step <= 8; ++step) {
    auto m = lines::of_step(step);
    if (m.validation_loss) m.validation_seconds = 1;
    text += engine::to_json_line(m) + "\n";
  }
  const auto w = watched(text);
  EXPECT_NE(inspect::line_of(w).find("  27 s left"), std::string::npos) << inspect::line_of(w);  // 12 steps of 2.25 s
  EXPECT_EQ(inspect::places(w.history, inspect::Across::time), (std::vector<double>{2, 4, 6, 8, 11, 13, 15, 17}));
}

// Fast and slow steps, validations, and a resume elsewhere: inspect reports the same speed and time left as train.
TEST(Picture, SaysTheSpeedAndTimeLeftThatTrainSays) {
  std::string text;
  const auto write = [&](engine::StepMetrics m, int second) {
    m.time = fmt::format("2026-01-31T23:{:02}:{:02}.250Z", second / 60, second % 60);
    text += engine::to_json_line(m) + "\n";
  };
  const auto step = [](int k) {
    auto m = lines::of_step(k, 1000);
    m.step_seconds = k % 50 == 0 ? 1.296 : 0.1 + 0.001 * (k % 7), m.tokens_per_second = 1024 / m.step_seconds;
    m.validation_loss = {};
    if (k % 125 == 0) m.validation_loss = 2.5, m.validation_seconds = 40;
    return m;
  };
  for (int k = 1; k <= 40; ++k) {  // an earlier start, on a slower machine
    auto m = step(k);
    m.step_seconds = 60, m.tokens_per_second = 17;
    write(m, 0);
  }
  tools::StepLine line;
  for (int k = 41; k <= 300; ++k) {
    write(step(k), 600 + k);
    const auto said = line.text(step(k), 1000);
    if (k != 42 && k != 150 && k != 300) continue;
    auto w = watched(text, 1000);
    w.state.holder = "process 7 on n1, since 2026-01-31T23:10:00Z, start 0123456789abcdef";
    EXPECT_EQ(inspect::line_of(w), said);
    const auto picture = inspect::picture_of(w, {100, 40}, tools::Glyphs::ascii, 0);
    const auto rate = said.find(" tokens/s"), from = said.rfind("  ", rate);
    EXPECT_NE(picture.find(said.substr(from + 2, rate - from)), std::string::npos) << said << "\n" << picture;
    EXPECT_NE(picture.find(said.substr(said.rfind("  ") + 2)), std::string::npos) << said << "\n" << picture;
  }
  // Before the first step of a start, the speed is that of earlier steps.
  auto begun = watched(text, 1000);
  begun.state.holder = "process 8 on n1, since 2026-02-01T00:00:00Z, start 0123456789abcdef";
  EXPECT_NE(inspect::line_of(begun).find("8,070 tokens/s"), std::string::npos) << inspect::line_of(begun);
  // With 1,024 tokens a step, the speed fits the seconds beside it.
  const auto picture = inspect::picture_of(watched(text, 1000), {100, 40}, tools::Glyphs::ascii, 0);
  EXPECT_NE(picture.find("8,070 tokens/s  127 ms a step  mean of the last 100 steps\n"), std::string::npos) << picture;
}

// Nothing is cut off: a line that is too long continues below.
TEST(Picture, LongLinesAreContinued) {
  auto w = watched(lines::text(1, 9));
  w.path = "/scratch/of/a/project/" + std::string(90, 'p') + "/run";
  w.state.holder =
      "process 123456 on node-with-a-long-name.cluster.example.org, Slurm job 1234567, since "
      "2026-01-31T00:00:00Z, start 0123456789abcdef";
  w.state.newest = w.path + "/checkpoints/step-00000008", w.state.newest_time = "2026-01-31T23:59:08Z";
  const auto joined = [&](int columns, const std::string& between) {
    std::istringstream in(inspect::picture_of(w, {columns, 60}, tools::Glyphs::ascii, 1769903949 + 3600));
    std::string out;
    for (std::string line; std::getline(in, line) && !line.empty();) {
      EXPECT_LT(static_cast<int>(line.size()), columns) << line;
      const auto begin = line.find_first_not_of(' ');
      out += (begin > 0 ? between : "\n") + line.substr(begin);
    }
    return out;
  };
  for (const int columns : {31, 44, 80, 100}) {
    const auto words = joined(columns, " "), letters = joined(columns, "");
    for (const char* part : {"process 123456 on", "Slurm job 1234567, since 2026-01-31T00:00:00Z; no step for 1 h"})
      EXPECT_TRUE(columns < 44 || words.find(part) != std::string::npos) << words;
    EXPECT_NE(letters.find(w.path + "\n"), std::string::npos) << letters;
    EXPECT_NE(letters.find(w.state.newest + ","), std::string::npos) << letters;
    EXPECT_NE(words.find("step-00000008,"), std::string::npos) << words;  // paths are broken at slashes
    EXPECT_EQ(words.find("start 0123"), std::string::npos) << words;      // a number that nobody reads
  }
  w.state.stage = engine::RunStatus::Stage::quiet, w.state.holder = "";
  EXPECT_NE(
      joined(60, " ").find("stopped at step 9 of 20: nobody writes there; started again it goes on from its newest "
                           "checkpoint"),
      std::string::npos)
      << joined(60, " ");
}

TEST(Picture, OfEveryOddRun) {
  const auto show = [](const inspect::Watched& w) {
    return inspect::picture_of(w, {80, 24}, tools::Glyphs::ascii, 0) + inspect::line_of(w);
  };
  inspect::Watched nothing;
  EXPECT_NE(show(nothing).find("waiting"), std::string::npos);
  nothing.state.stage = engine::RunStatus::Stage::unknown;
  show(nothing);
  nothing.state.stage = engine::RunStatus::Stage::running;
  EXPECT_NE(show(nothing).find("no step is done yet"), std::string::npos);
  EXPECT_NE(show(watched("{\"step\":3}\n", 0)).find("step 3"), std::string::npos);  // an old version without a total
  show(watched("{\"step\":3,\"loss\":\"nan\"}\n{\"step\":4,\"loss\":\"inf\",\"step_seconds\":\"inf\"}\n"));
  show(watched("{\"step\":3,\"loss\":1e308,\"validation_loss\":-1e308,\"steps\":9223372036854775807}\n"));
  auto validated = watched(
      "{\"step\":1,\"validation_loss\":\"nan\"}\n{\"step\":2,\"validation_loss\":3}\n"
      "{\"step\":3,\"validation_loss\":4}\n");
  EXPECT_NE(show(validated).find("best 3.000 at step 2"), std::string::npos) << show(validated);
  show(watched("{\"step\":1,\"validation_loss\":\"nan\"}\n"));
  auto back = watched(lines::text(1, 4));
  back.went_back = 4;
  EXPECT_NE(show(back).find("was set back to step 4\n"), std::string::npos) << show(back);
  auto hostile = watched(lines::text(1, 4));
  hostile.path = "a\x1b[2Jb\nc", hostile.state.holder = "\x1b]0;x\x07";
  for (const char c : show(hostile)) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 32);
}

// The program itself, on a pipe, while a run goes on, goes back, and ends.
TEST(Follow, APipeGetsALineForNewSteps) {
  Scratch scratch;
  const auto run = scratch.path + "/run", metrics = run + "/metrics.jsonl";
  auto* out = ::popen(
      fmt::format("timeout 50 {} {} --follow --interval 0.1 2>{}/err", INSPECT, run, scratch.path).c_str(), "r");
  ASSERT_NE(out, nullptr);
  const auto line = [&] {
    std::string text(200, '\0');
    return std::fgets(text.data(), 200, out) == nullptr ? std::string("END") : std::string(text.c_str());
  };
  fs::create_directory(run);
  auto lock = std::make_unique<base::FolderLock>(run, "");
  lines::append(metrics, lines::text(1, 2));
  EXPECT_EQ(line(), "step 2/20  loss 2.500  500 tokens/s  36 s left\n");
  lines::append(metrics, lines::text(3, 8));
  EXPECT_EQ(line(), "step 8/20  loss 0.625  val 0.688  500 tokens/s  24 s left\n");
  fs::resize_file(metrics, lines::text(1, 4).size());
  EXPECT_EQ(line(), "step 4/20  loss 1.250  val 1.375  500 tokens/s  32 s left\n");
  fs::create_directories(run + "/checkpoints/step-00000004");
  spit(run + "/checkpoints/step-00000004/manifest.json", "{}");
  for (int i = 0; i < 100 && slurp(scratch.path + "/err").find("step-00000004 made") == std::string::npos; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  lines::append(metrics, lines::text(5, 7));
  EXPECT_EQ(line().substr(0, 9), "step 7/20");
  fs::resize_file(metrics, lines::text(1, 4).size());  // back to the same step again
  EXPECT_EQ(line().substr(0, 9), "step 4/20");
  fs::create_directories(run + "/checkpoints/step-00000020");
  spit(run + "/checkpoints/step-00000020/manifest.json", "{}");
  lines::append(metrics, lines::text(5, 20));
  lock.reset();
  EXPECT_EQ(line(), "step 20/20  loss 0.250  val 0.275  500 tokens/s  0 s left\n");
  EXPECT_EQ(line(), "END");
  EXPECT_EQ(WEXITSTATUS(::pclose(out)), 0);
  const auto err = slurp(scratch.path + "/err");
  for (const char* part : {"step-00000004 made at 20", "all 20 steps are done"})
    EXPECT_NE(err.find(part), std::string::npos) << part << "\n" << err;
  const auto back = err.find("was set back to step 4");
  ASSERT_NE(back, std::string::npos) << err;
  EXPECT_NE(err.find("was set back to step 4", back + 1), std::string::npos) << err;
}

TEST(Follow, EndsWithTheRunOrItsFolder) {
  Scratch scratch;
  const auto run = scratch.path + "/run";
  const auto follow = [&](const std::string& flags, const std::string& what) {
    return WEXITSTATUS(std::system(
        fmt::format("timeout 20 {} {} --follow {} >{}/out 2>{}/err", INSPECT, what, flags, scratch.path, scratch.path)
            .c_str()));
  };
  EXPECT_EQ(follow("", scratch.path + "/no/such/run"), 3);
  spit(scratch.path + "/file", "x");
  EXPECT_EQ(follow("", scratch.path + "/file"), 3);
  fs::create_directories(scratch.path + "/checkpoint");
  spit(scratch.path + "/checkpoint/manifest.json", "{}");
  EXPECT_EQ(follow("", scratch.path + "/checkpoint"), 3);
  fs::create_directory(run);
  spit(run + "/metrics.jsonl", lines::text(1, 5));
  EXPECT_EQ(follow("", run + "/metrics.jsonl"), 75);
  EXPECT_NE(slurp(scratch.path + "/err").find("stopped at step 5 of 20"), std::string::npos);
  for (const char* flag : {"--json", "--csv", "--svg x.svg", "--over time", "--verify"})
    EXPECT_EQ(follow(flag, run), 2);
  EXPECT_EQ(follow("--interval nan", run), 2);
  EXPECT_EQ(follow("", run + " " + run), 2);
  // The program waits for the run; then the run disappears.
  auto* out = ::popen(
      fmt::format("timeout 50 {} {} --follow --wait --interval 0.1 2>{}/err", INSPECT, run, scratch.path).c_str(), "r");
  std::string text(200, '\0');
  EXPECT_NE(std::fgets(text.data(), 200, out), nullptr);
  fs::rename(run, scratch.path + "/elsewhere");
  EXPECT_EQ(std::fgets(text.data(), 200, out), nullptr);
  EXPECT_EQ(WEXITSTATUS(::pclose(out)), 4);
  EXPECT_NE(slurp(scratch.path + "/err").find("is gone"), std::string::npos) << slurp(scratch.path + "/err");
}
