// Rollbacks, beginnings and shared folders: a run loses nothing that lies in its folder. Its place in the data follows
// the samples that it has seen.
#include "libtrain/engine/run_folder.h"
#include "libtrain/checkpoint/finder.h"
#include "libtrain/checkpoint/manifest_text.h"
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

#include <csignal>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace trainyard {
namespace run_folder_test {

using testing::SmallRun;

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& e : std::filesystem::directory_iterator(folder)) names.push_back(e.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// The losses of the first lines.
std::vector<double> losses_of(const std::string& metrics, std::size_t most) {
  std::vector<double> out;
  std::istringstream in(metrics);
  for (std::string line; out.size() < most && std::getline(in, line);)
    out.push_back(nlohmann::json::parse(line)["loss"]);
  return out;
}
std::vector<double> losses(const engine::RunConfig& c) {
  return losses_of(text_of(c.output + "/metrics.jsonl"), SIZE_MAX);
}

struct Refusal {
  base::ExitCode code = base::ExitCode::done;
  std::string text, hint;
};
Refusal refusal(SmallRun& runs, const engine::RunConfig& c, int ranks = 2) {
  try {
    runs.run(c, {ranks, 1, 1});
    return {};
  } catch (const base::Error& e) {
    return {e.code(), e.what(), e.hint()};
  }
}

engine::RunConfig short_run(const SmallRun& runs, const std::string& output) {
  auto c = runs.config(output);
  c.steps = 12;
  c.global_batch = 4;
  c.save_every = 3;
  return c;
}

TEST(Rollback, NothingIsLostAndTheAbandonedFutureIsNotTakenAgain) {
  SmallRun runs;
  auto c = short_run(runs, "rollback");
  c.steps = 9;
  runs.run(c, {2, 1, 1});  // 3, 6, 9
  const auto future = text_of(c.output + "/metrics.jsonl");
  const auto checkpoints = c.output + "/checkpoints";
  c.resume = checkpoints + "/step-00000003";
  c.keep = 2;
  c.learning_rate = 0.002;
  c.change = "learning_rate";
  c.stop_after = 4;  // its only save is at step 4
  EXPECT_EQ(runs.run(c, {1, 0, 1}).code, base::ExitCode::requeue);
  EXPECT_EQ(names_in(checkpoints), (std::vector<std::string>{"abandoned-step-00000006", "abandoned-step-00000009",
                                                             "latest", "step-00000003", "step-00000004"}));
  for (const char* name : {"abandoned-step-00000006", "abandoned-step-00000009"})
    checkpoint::Reader(checkpoints + "/" + name).verify_all();
  // The run's metrics are kept too: what the rollback cut off is in a file of its own.
  const auto kept = text_of(c.output + "/metrics.jsonl"),
             abandoned = text_of(c.output + "/abandoned-metrics-after-00000003.jsonl");
  EXPECT_EQ(SmallRun::metrics(c).size(), 4u);
  EXPECT_EQ(future, future.substr(0, future.size() - abandoned.size()) + abandoned);
  EXPECT_EQ(kept.substr(0, future.size() - abandoned.size()), future.substr(0, future.size() - abandoned.size()));
  // Later the run goes on from its own place.
  c.resume = "auto";
  c.stop_after = 5;
  runs.run(c, {2, 1, 1});
  EXPECT_LT(SmallRun::metrics(c).back()["learning_rate"].get<double>(), 0.002);
  EXPECT_EQ(SmallRun::metrics(c).size(), 5u);
  // The run may also go back to the branch that it had left.
  const auto branch = text_of(c.output + "/metrics.jsonl");
  c.resume = checkpoints + "/abandoned-step-00000009";
  c.steps = 12;
  c.change = "learning_rate,steps";
  c.stop_after = 10;
  EXPECT_TRUE(runs.run(c, {1, 0, 1}).checkpoint.ends_with("step-00000010"));
  EXPECT_EQ(names_in(checkpoints),
            (std::vector<std::string>{"abandoned-step-00000004", "abandoned-step-00000005", "abandoned-step-00000006",
                                      "latest", "step-00000009", "step-00000010"}));
  // Its metrics are again those of its own past, and the metrics of the branch that it leaves are kept.
  EXPECT_TRUE(text_of(c.output + "/metrics.jsonl").starts_with(future));
  EXPECT_EQ(SmallRun::metrics(c).size(), 10u);
  EXPECT_EQ(text_of(checkpoints + "/abandoned-step-00000005/history.jsonl"), branch);
  EXPECT_TRUE(branch.ends_with(text_of(c.output + "/abandoned-metrics-after-00000003.jsonl.2")));
  // The same command again explains where the checkpoint went. Going back and forth mixes nothing.
  EXPECT_NE(refusal(runs, c).hint.find("step-00000009: go on with --resume auto"), std::string::npos)
      << refusal(runs, c).hint;
  c.resume = checkpoints + "/abandoned-step-00000005";
  c.steps = 9;
  c.learning_rate = 0.002;
  c.stop_after = 6;
  runs.run(c, {2, 1, 1});
  EXPECT_TRUE(text_of(c.output + "/metrics.jsonl").starts_with(branch));
  EXPECT_EQ(SmallRun::metrics(c).size(), 6u);
}

// A run that goes back and is killed before its first new checkpoint resumes where it had gone back to. It does not
// take the branch that it had left.
TEST(Rollback, AfterAKillAutoGoesOnWhereTheRunHadGoneBackTo) {
  SmallRun runs;
  auto c = short_run(runs, "killed");
  c.steps = 9;
  runs.run(c, {1, 0, 1});
  const auto future = text_of(c.output + "/metrics.jsonl");
  const auto checkpoints = c.output + "/checkpoints";
  auto back = c;
  back.resume = checkpoints + "/step-00000003";
  back.learning_rate = 0.002;
  back.change = "learning_rate";
  back.stop_after = 7;
  runs.run(back, {1, 0, 1});  // 6', 7' beside the abandoned 6 and 9
  EXPECT_EQ(engine::settle(c.output, checkpoints + "/abandoned-step-00000006", 6),
            checkpoints + "/step-00000006");  // and no further
  EXPECT_TRUE(std::filesystem::exists(checkpoints + "/step-00000003")) << "it led to both branches";
  c.stop_after = 7;
  EXPECT_EQ(runs.run(c, {1, 0, 1}).step, 7);
  EXPECT_EQ(losses(c), losses_of(future, 7));
  for (const char* name : {"abandoned-step-00000006.2", "abandoned-step-00000007"}) {
    checkpoint::Reader set_aside(checkpoints + "/" + name);
    set_aside.verify_all();
    EXPECT_EQ(set_aside.state().identity["learning_rate"], 0.002) << name;
  }
}

TEST(Rollback, AnAbandonedEndIsGoneBackToAlthoughNothingIsLeftToDo) {
  SmallRun runs;
  auto c = short_run(runs, "ended");
  c.steps = 6;
  runs.run(c, {1, 0, 1});  // 3, 6
  const auto metrics = text_of(c.output + "/metrics.jsonl");
  const auto checkpoints = c.output + "/checkpoints";
  auto back = c;
  back.resume = checkpoints + "/step-00000003", back.learning_rate = 0.002, back.change = "learning_rate";
  runs.run(back, {1, 0, 1});
  EXPECT_NE(text_of(c.output + "/metrics.jsonl"), metrics);
  c.resume = checkpoints + "/abandoned-step-00000006";
  const auto r = runs.run(c, {2, 1, 1});
  EXPECT_EQ(r.steps_done, 0);
  EXPECT_EQ(r.checkpoint, checkpoints + "/step-00000006");
  EXPECT_EQ(text_of(c.output + "/metrics.jsonl"), metrics);
  EXPECT_EQ(names_in(checkpoints),
            (std::vector<std::string>{"abandoned-step-00000006.2", "latest", "step-00000003", "step-00000006"}));
}

// A warning names the steps that a run's metrics lack. A file that is no metrics file is set aside, not lost.
TEST(Rollback, MetricsThatLackStepsAreSaidAndWhatIsNoMetricsIsKept) {
  SmallRun runs;
  auto c = short_run(runs, "lacking");
  c.steps = 6;
  c.stop_after = 3;
  runs.run(c, {1, 0, 1});
  std::ofstream(c.output + "/metrics.jsonl") << "notes of mine\n";
  c.stop_after = 4;
  ::testing::internal::CaptureStderr();
  runs.run(c, {1, 0, 1});
  const auto said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("metrics.jsonl lacks steps up to 3"), std::string::npos) << said;
  EXPECT_NE(said.find("metrics.jsonl: its lines of an earlier start are not continued"), std::string::npos) << said;
  EXPECT_EQ(text_of(c.output + "/abandoned-metrics-after-00000000.jsonl"), "notes of mine\n");
  EXPECT_EQ(SmallRun::metrics(c).size(), 1u);
}

TEST(Rollback, WhatCannotBeReadIsNotTakenForDamaged) {
  SmallRun runs;
  auto c = short_run(runs, "unreadable");
  c.steps = 6;
  runs.run(c, {2, 1, 1});  // 3, 6
  const auto newest = c.output + "/checkpoints/step-00000006";
  std::filesystem::rename(newest + "/manifest.json", c.output + "/manifest");
  std::filesystem::create_symlink("/proc/self/mem", newest + "/manifest.json");  // an I/O error at 0
  const auto r = refusal(runs, c);
  EXPECT_EQ(r.code, base::ExitCode::environment) << r.text;
  EXPECT_NE(r.text.find(newest), std::string::npos) << r.text;
  EXPECT_NE(r.hint.find("--resume '" + c.output + "/checkpoints/step-00000003'"), std::string::npos) << r.hint;
  std::filesystem::rename(c.output + "/manifest", newest + "/manifest.json");
  EXPECT_EQ(runs.run(c, {2, 1, 1}).steps_done, 0) << "it was set aside";
}

// --resume auto does not find a checkpoint that lies elsewhere.
TEST(Elsewhere, ARunThatStopsAtOnceHasACheckpointOfItsOwnOrSaysWhereToGoOn) {
  SmallRun runs;
  auto c = short_run(runs, "source");
  c.stop_after = 3;
  const auto source = runs.run(c, {2, 1, 1}).checkpoint;
  c.resume = source;
  c.output += "-goes-on";
  const auto reached = runs.run(c, {2, 1, 1});
  EXPECT_EQ(reached.code, base::ExitCode::done);  // with requeue a loop would never end
  EXPECT_EQ(reached.resume, source);
  EXPECT_EQ(reached.checkpoint, source);
  // In the checkpoint's own run, auto finds it.
  auto own = short_run(runs, "source");
  own.stop_after = 3;
  own.resume = source;
  EXPECT_EQ(runs.run(own, {2, 1, 1}).resume, "");
  c.stop_after = 0;
  ::kill(::getpid(), SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // until the signal is seen: the first step is abandoned
  const auto stopped = runs.run(c, {2, 1, 1});
  EXPECT_EQ(stopped.code, base::ExitCode::requeue);
  EXPECT_EQ(stopped.steps_done, 0);
  EXPECT_EQ(stopped.checkpoint, c.output + "/checkpoints/step-00000003");
  EXPECT_EQ(stopped.resume, "");
  checkpoint::Reader got(stopped.checkpoint), expected(source);
  got.verify_all();
  ASSERT_EQ(got.tensors().size(), expected.tensors().size());
  for (std::size_t i = 0; i < got.tensors().size(); ++i)
    EXPECT_EQ(got.tensors()[i].fingerprint, expected.tensors()[i].fingerprint);
}

TEST(Elsewhere, MetricsThatLieHereAreKeptWithoutACheckpointToo) {
  SmallRun runs;
  auto c = short_run(runs, "of-another");
  c.stop_after = 3;
  c.resume = runs.run(c, {2, 1, 1}).checkpoint;
  c.output += "-metrics";
  std::filesystem::create_directories(c.output);
  std::ofstream(c.output + "/metrics.jsonl") << "{\"step\":2,\"loss\":5}\n{\"step\":7,\"loss\":4}\n";
  c.stop_after = 4;
  const auto history = text_of((runs.folder() / "of-another/metrics.jsonl").string());
  runs.run(c, {1, 0, 1});
  EXPECT_EQ(text_of(c.output + "/abandoned-metrics-after-00000000.jsonl"),
            "{\"step\":2,\"loss\":5}\n{\"step\":7,\"loss\":4}\n");
  EXPECT_TRUE(text_of(c.output + "/metrics.jsonl").starts_with(history))
      << "the past of the other run is the past of this one";
  EXPECT_EQ(SmallRun::metrics(c).size(), 4u);
}

// A copy of a run by hard links (cp -al) that goes on changes nothing in the original.
TEST(Elsewhere, ACopyByHardLinksGoesOnAlone) {
  SmallRun runs;
  auto c = short_run(runs, "original");
  c.stop_after = 4;
  runs.run(c, {1, 0, 1});
  auto copy = c;
  copy.output += "-copy";
  namespace fs = std::filesystem;
  fs::copy(c.output, copy.output, fs::copy_options::recursive | fs::copy_options::create_hard_links);
  const auto before = text_of(c.output + "/metrics.jsonl");
  copy.stop_after = 5;
  runs.run(copy, {1, 0, 1});
  EXPECT_EQ(text_of(c.output + "/metrics.jsonl"), before);
  EXPECT_EQ(text_of(c.output + "/last-checkpoint"), "step-00000004\n");
  EXPECT_EQ(SmallRun::metrics(copy).size(), 5u);
}

// A start that fails before it has made anything leaves nothing behind.
TEST(Beginning, AStartThatFailsLeavesNothing) {
  SmallRun runs;
  auto c = short_run(runs, "a/new/run");
  c.resume = c.output + "/checkpoints/step-00000003";
  EXPECT_EQ(refusal(runs, c).code, base::ExitCode::input_refused);
  EXPECT_FALSE(std::filesystem::exists(runs.folder() / "a"));
  std::filesystem::create_directories(c.output);
  std::ofstream(c.output + "/notes.txt") << "mine";
  EXPECT_EQ(refusal(runs, c).code, base::ExitCode::input_refused);
  EXPECT_EQ(names_in(c.output), (std::vector<std::string>{"notes.txt"}));
}

TEST(MetricsOfARun, APipeInTheirPlaceIsRefused) {
  SmallRun runs;
  auto c = short_run(runs, "pipe");
  std::filesystem::create_directories(c.output);
  ASSERT_EQ(::mkfifo((c.output + "/metrics.jsonl").c_str(), 0666), 0);
  const auto r = refusal(runs, c);
  EXPECT_EQ(r.code, base::ExitCode::input_refused);
  EXPECT_NE(r.text.find("metrics.jsonl"), std::string::npos) << r.text;
}

// A run does not end because it cannot write what only accompanies a checkpoint.
TEST(Bookkeeping, ThatCannotBeWrittenIsAWarning) {
  SmallRun runs;
  auto c = short_run(runs, "bookkeeping");
  c.steps = 3;
  for (const char* name : {"/last-checkpoint", "/report.txt"}) std::filesystem::create_directories(c.output + name);
  EXPECT_EQ(refusal(runs, c).text, "");
  checkpoint::Reader(c.output + "/checkpoints/step-00000003").verify_all();
  for (const auto& name : names_in(c.output)) EXPECT_FALSE(name.ends_with(".partial")) << name;
}

// Somebody else's files that have the names of the run's files stay.
TEST(Bookkeeping, AThesisStays) {
  SmallRun runs;
  auto c = short_run(runs, "thesis");
  c.steps = 3;
  const std::string thesis = "my thesis\n", reason = c.output + "/exit/rank-00000.json",
                    report = c.output + "/report.txt", lock = c.output + "/lock";
  std::filesystem::create_directories(c.output + "/exit");
  for (const auto& path : {reason, report, lock}) std::ofstream(path) << thesis;
  const auto refused = refusal(runs, c);
  EXPECT_NE(refused.text.find("is not a lock that these programs wrote"), std::string::npos) << refused.text;
  EXPECT_EQ(text_of(lock), thesis);
  std::filesystem::remove(lock);
  EXPECT_EQ(refusal(runs, c).text, "");
  EXPECT_EQ(text_of(reason), thesis);
  EXPECT_EQ(text_of(report), thesis);
}

TEST(Beginning, OnlyAnAbsentOrEmptyFolderIsAFreshStart) {
  SmallRun runs;
  auto c = short_run(runs, "fresh");
  c.steps = 3;
  runs.run(c, {2, 1, 1});
  namespace fs = std::filesystem;
  const auto metrics = text_of(c.output + "/metrics.jsonl"), checkpoints = c.output + "/checkpoints",
             only = checkpoints + "/step-00000003";
  const auto expect_refused = [&](const char* why, const std::string& word) {
    for (const char* resume : {"auto", "never"}) {
      c.resume = resume;
      const auto r = refusal(runs, c);
      EXPECT_TRUE(r.code == base::ExitCode::input_refused ||
                  (std::string(resume) == "never" && r.code == base::ExitCode::usage))
          << why << ", " << resume << ": " << r.text;
      EXPECT_TRUE(std::string(resume) == "never" || r.text.find(word) != std::string::npos) << why << ": " << r.text;
      EXPECT_EQ(text_of(c.output + "/metrics.jsonl"), metrics) << why;
    }
  };
  fs::rename(only + "/manifest.json", c.output + "/manifest");
  expect_refused("the only checkpoint has no manifest", "none of them whole");
  fs::rename(c.output + "/manifest", only + "/manifest.json");
  fs::rename(checkpoints, c.output + "/elsewhere");
  fs::create_symlink(c.output + "/not-mounted", checkpoints);
  expect_refused("a link to nothing", "is a link to");
  fs::remove(checkpoints);
  fs::create_directory(checkpoints);
  expect_refused("the empty place of a disk that is not mounted", "step-00000003");
  fs::remove(checkpoints);
  expect_refused("no folder where one was", "step-00000003");
  std::ofstream(checkpoints) << "a file";
  expect_refused("a file", "is no folder");
  fs::remove(checkpoints);
  fs::rename(c.output + "/elsewhere", checkpoints);
  fs::rename(only, checkpoints + "/abandoned-step-00000003");
  expect_refused("only abandoned ones", "abandoned-step-00000003");
  fs::rename(checkpoints + "/abandoned-step-00000003", only);
  c.resume = "auto";
  EXPECT_EQ(runs.run(c, {2, 1, 1}).step, 3);
}

// A run that was killed before its first checkpoint begins again by itself. Its earlier metrics are kept.
TEST(Beginning, ARunWithoutACheckpointYetBeginsAgain) {
  SmallRun runs;
  auto c = short_run(runs, "killed-early");
  c.steps = 3;
  std::filesystem::create_directories(c.output + "/checkpoints/step-00000003.partial");
  const std::string before = "{\"step\":1,\"loss\":5}\n{\"step\":2,\"lo";
  std::ofstream(c.output + "/metrics.jsonl") << before;
  EXPECT_EQ(runs.run(c, {2, 1, 1}).code, base::ExitCode::done);
  EXPECT_EQ(SmallRun::metrics(c).size(), 3u);
  EXPECT_EQ(text_of(c.output + "/abandoned-metrics-after-00000000.jsonl"), before);
}

TEST(Sharing, ASecondRunIsRefusedBeforeItTouchesAnything) {
  SmallRun runs;
  auto c = short_run(runs, "shared");
  std::filesystem::create_directories(c.output + "/checkpoints/step-00000003.partial");
  {
    const auto lock = engine::take_run_folder(c.output);
    const auto r = refusal(runs, c, 3);
    EXPECT_EQ(r.code, base::ExitCode::environment);
    EXPECT_NE(r.text.find(fmt::format("in use by process {}", ::getpid())), std::string::npos) << r.text;
    EXPECT_TRUE(std::filesystem::exists(c.output + "/checkpoints/step-00000003.partial"))
        << "another run's unfinished checkpoint was removed";
  }
  c.steps = 1;
  EXPECT_EQ(refusal(runs, c).code, base::ExitCode::done);
  EXPECT_EQ(refusal(runs, c).code, base::ExitCode::done) << "the run before still holds the folder";
}

// A file system may give one lock to two machines. Then the second run takes the lock file, and the first run notices
// before it publishes a checkpoint.
TEST(Sharing, ASecondRunThatNoLockKeptAwayIsNoticed) {
  SmallRun runs;
  auto c = short_run(runs, "two");
  engine::RunListener second;
  second.on_step = [&](const engine::StepMetrics& m, std::int64_t) {
    if (m.step == 4) std::ofstream(c.output + "/lock") << "process 1 on elsewhere, since then, start 0\n";
  };
  try {
    runs.run(c, {2, 1, 1}, second);
    ADD_FAILURE() << "nothing was noticed";
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::environment);
    for (const auto& name : {std::string("process 1 on elsewhere"), fmt::format("process {} on", ::getpid())})
      EXPECT_NE(std::string(e.what()).find(name), std::string::npos) << e.what();
  }
  EXPECT_FALSE(std::filesystem::exists(c.output + "/checkpoints/step-00000006"))
      << "published, although another run had come";
  EXPECT_EQ(text_of(c.output + "/lock"), "process 1 on elsewhere, since then, start 0\n")
      << "the other's name was removed";
}

// The weights do not change, so the loss of a step depends only on its samples and their dropout.
TEST(Batch, AfterAChangeOfBatchTheNextSamplesFollowThoseSeen) {
  SmallRun runs;
  auto c = runs.config("batch-6");
  c.learning_rate = 1e-30;
  c.weight_decay = 0;
  c.schedule = "constant";
  c.global_batch = 6;
  c.stop_after = 5;  // 30 samples
  runs.run(c, {2, 1, 1});
  auto whole = c;
  whole.output += "-of-10";
  whole.global_batch = 10;
  whole.stop_after = 6;
  runs.run(whole, {1, 0, 1});
  c.global_batch = 10;
  c.change = "global_batch";
  c.stop_after = 8;
  const auto changed = runs.run(c, {3, 3, 1});
  const auto got = SmallRun::metrics(c), expected = SmallRun::metrics(whole);
  ASSERT_EQ(got.size(), 8u);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(got[5 + i]["loss"], expected[3 + i]["loss"]) << "step " << 6 + i;  // samples 30 to 59
  EXPECT_EQ(got[7]["tokens_seen"].get<int>(), 60 * 32);
  EXPECT_EQ(checkpoint::Reader(changed.checkpoint).state().samples_seen, 60);
  // And back, with another micro-batch too: samples 60 to 65.
  c.global_batch = 6;
  c.micro_batch = 2;
  c.change = "global_batch,micro_batch";
  c.stop_after = 9;
  EXPECT_EQ(checkpoint::Reader(runs.run(c, {2, 1, 1}).checkpoint).state().samples_seen, 66);
  auto sixes = whole;
  sixes.output += "-back";
  sixes.global_batch = 6;
  sixes.micro_batch = 2;
  sixes.stop_after = 11;
  runs.run(sixes, {1, 0, 1});
  EXPECT_EQ(SmallRun::metrics(c)[8]["loss"], SmallRun::metrics(sixes)[10]["loss"]);
}

TEST(Checkpoint, RecordsTheBuildThatWroteIt) {
  SmallRun runs;
  auto c = short_run(runs, "build");
  c.steps = 1;
  const auto folder = runs.run(c, {1, 0, 1}).checkpoint;
  const auto versions = checkpoint::Reader(folder).state().versions;
  EXPECT_EQ(versions["build"].get<std::string>().size(), 16u);
  for (const char* name : {"trainyard", "compiler", "hdf5", "libc"})
    EXPECT_FALSE(versions[name].get<std::string>().empty());
  // A resume reports that another build wrote the checkpoint.
  auto manifest = checkpoint::Reader(folder).manifest();
  manifest.state.versions["build"] = "0123456789abcdef";
  base::write_file(folder + "/manifest.json", checkpoint::manifest_text(manifest));
  c.steps = 2;
  c.change = "steps";
  ::testing::internal::CaptureStderr();
  runs.run(c, {1, 0, 1});
  const auto said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("resuming with build " + versions["build"].get<std::string>() +
                      " (the checkpoint was written with 0123456789abcdef)"),
            std::string::npos)
      << said;
  EXPECT_EQ(said.find("resuming with compiler"), std::string::npos) << said;
}

// A resume needs no view, and makes it anew.
TEST(Checkpoint, WithoutItsViewIsTakenAndGetsItAgain) {
  SmallRun runs;
  auto c = short_run(runs, "view");
  c.steps = 6;
  c.stop_after = 4;
  const auto folder = runs.run(c, {2, 1, 1}).checkpoint;
  std::filesystem::remove(folder + "/checkpoint.h5");
  c.stop_after = 5;
  EXPECT_EQ(runs.run(c, {1, 0, 1}).step, 5);
  EXPECT_EQ(SmallRun::metrics(c).size(), 5u);
  EXPECT_EQ(checkpoint::Reader(folder).view_problem(), "");
  EXPECT_TRUE(std::filesystem::exists(folder + "/checkpoint.h5"));
}

}  // namespace run_folder_test
}  // namespace trainyard
