// Paths that people give for checkpoints: a checkpoint, or a run, which means its newest whole checkpoint. Also
// refusals of any other path and of lanes that cannot be read, and tensor-parallel degrees that no flag gave.
#include "libtrain/engine/start_path.h"
#include "libtrain/engine/model_of_weights.h"
#include "libtrain/engine/restore.h"
#include "libtrain/engine/run_folder.h"
#include "libtrain/engine/setup.h"
#include "tests/checkpoint/sample.h"
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

namespace trainyard::engine {
namespace start_path_test {

namespace fs = std::filesystem;
using testing::SmallRun;

struct Refusal {
  base::ExitCode code = base::ExitCode::done;
  std::string text, hint;
};

Refusal refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const base::Error& e) {
    return {e.code(), e.what(), e.hint()};
  }
  return {};
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A run with checkpoints of steps 10 and 15, in a folder of its own. `config` could go on from either of them.
struct OtherRun {
  OtherRun(const SmallRun& runs, const RunConfig& c)
      : setup(make_setup(c, 1, 1)), path((runs.folder() / "other").string()) {
    for (const int step : {10, 15}) {
      auto s = sample::state(setup.plan.model, base::DType::f32, step);
      s.identity = setup.identity, s.seed = c.seed;
      sample::save(checkpoints_folder(path), s, 1);
    }
  }
  std::string step(const char* number) const { return checkpoints_folder(path) + "/step-000000" + number; }
  RunSetup setup;
  std::string path;
};

TEST(StartPath, OfARunIsItsNewestWholeCheckpoint) {
  SmallRun runs;
  auto c = runs.config("new");
  const OtherRun other(runs, c);
  const auto start = [&] {
    auto setup = other.setup;
    setup.config = c;
    return choose_start(setup, {}, RunFolder::looked_at);
  };
  for (const auto& path : {other.path, other.path + "/", checkpoints_folder(other.path), other.step("15")}) {
    c.resume = path, c.init_from.clear();
    EXPECT_EQ(start().path, other.step("15")) << path;
    EXPECT_EQ(lanes_of_run(c).checkpoint, other.step("15")) << path;
    c.resume = "auto", c.init_from = path;
    EXPECT_EQ(start().path, other.step("15")) << path;
    EXPECT_TRUE(start().weights_only);
  }
  fs::remove(other.step("15") + "/rank-00000.h5");  // every program that takes a run treats it like this
  c.init_from = other.path;
  EXPECT_EQ(start().path, other.step("10"));
  c.resume = other.path, c.init_from.clear();
  EXPECT_EQ(start().path, other.step("10"));
  c.resume = other.step("15");
  EXPECT_EQ(refusal(start).code, base::ExitCode::input_refused) << "what is named itself is not skipped";
  fs::remove(other.step("10") + "/rank-00000.h5");
  c.resume = other.path;
  EXPECT_TRUE(has(refusal(start).text, "holds no whole checkpoint")) << refusal(start).text;
}

// Any checkpoint of a run gives the model, so no rank reads more than it must.
TEST(StartPath, OfARunSaysTheModelOfNewWeights) {
  SmallRun runs;
  auto c = runs.config("new");
  const OtherRun other(runs, c);
  c.init_from = other.path;
  const auto model = [&] {
    c.from_checkpoint.model.reset();
    read_model_of_weights(fields_of(c), c);
    return c.from_checkpoint.model;
  };
  EXPECT_EQ(model(), other.setup.plan.model);
  EXPECT_EQ(c.from_checkpoint.lanes_of.checkpoint, other.step("15"));
  EXPECT_EQ(c.from_checkpoint.lanes_of.lanes, plan::Lanes::open);
  EXPECT_TRUE(has(print_config(fields_of(c), c), "init-from = \"" + other.path + "\"")) << "as it was said";
  testing::spit(other.step("15") + "/manifest.json", "{");
  EXPECT_EQ(model(), other.setup.plan.model);
  EXPECT_EQ(c.from_checkpoint.lanes_of.checkpoint, other.step("10"));
  testing::spit(other.step("10") + "/manifest.json", "{");
  EXPECT_TRUE(has(refusal([&] { model(); }).text, other.step("15") + "/manifest.json"));
}

TEST(StartPath, ThatIsNoneIsSaidWhatItIs) {
  SmallRun runs;
  const auto folder = (runs.folder() / "place").string();
  const auto said = [&](const std::string& path) {
    const auto r = refusal([&] { checkpoint_named("--resume", path); });
    EXPECT_EQ(r.code, base::ExitCode::input_refused) << r.text;
    EXPECT_FALSE(r.hint.empty()) << r.text;
    return r.text;
  };
  fs::create_directories(folder);
  EXPECT_EQ(said(folder), "--resume " + folder + ": that is neither a checkpoint nor a run, but an empty folder");
  for (const char* name : {"a", "b", "c", "d"}) testing::spit(folder + "/" + name, "");
  EXPECT_TRUE(has(said(folder), "but a folder with a, b, c and 1 more")) << said(folder);
  testing::spit(folder + "/metrics.jsonl", "");
  EXPECT_TRUE(has(said(folder), "that is the folder of a run which has no checkpoint")) << said(folder);
  EXPECT_TRUE(has(said((runs.folder() / "data").string()), "but a shard set"));
  EXPECT_EQ(checkpoint_named("--resume", folder + "/absent"), folder + "/absent") << "of that the reader tells";
}

// Reading /proc/self/mem at 0 is an I/O error, as from a bad disk or file server.
TEST(LanesOfARun, ThatCannotBeReadEndTheStart) {
  SmallRun runs;
  auto c = runs.config("new");
  const OtherRun other(runs, c);
  c.output = other.path;
  EXPECT_EQ(lanes_of_run(c).lanes, 4);
  const auto manifest = other.step("15") + "/manifest.json";
  fs::remove(manifest);
  EXPECT_EQ(lanes_of_run(c).checkpoint, other.step("10")) << "damage is skipped";
  fs::create_symlink("/proc/self/mem", manifest);
  const auto r = refusal([&] { lanes_of_run(c); });
  EXPECT_EQ(r.code, base::ExitCode::environment) << r.text;
  EXPECT_TRUE(has(r.text, manifest)) << r.text;
  EXPECT_TRUE(has(r.hint, "--resume '" + other.step("10") + "'")) << r.hint;
  c.resume = other.step("15");
  EXPECT_EQ(refusal([&] { lanes_of_run(c); }).code, base::ExitCode::environment);
  c.output = (runs.folder() / "new").string();
  EXPECT_TRUE(has(refusal([&] { lanes_of_run(c); }).hint, "one before with --resume '" + other.step("10") + "'"));

  // The same holds for weights of a new run.
  c.resume = "auto";
  for (const auto& path : {other.path, other.path + "/", other.step("15")}) {
    c.init_from = path;
    const auto unread = refusal([&] { read_model_of_weights(fields_of(c), c); });
    EXPECT_EQ(unread.code, base::ExitCode::environment) << unread.text;
    EXPECT_TRUE(has(unread.text, manifest)) << unread.text;
    EXPECT_TRUE(has(unread.hint, "one before with --init-from '" + other.step("10") + "'")) << unread.hint;
    EXPECT_FALSE(c.from_checkpoint.model);
  }
  fs::remove_all(other.step("10"));
  EXPECT_TRUE(has(refusal([&] { read_model_of_weights(fields_of(c), c); }).hint,
                  "choose another one, if there is one, with --init-from PATH"));
  c.output = other.path;  // its own checkpoints come before the weights that it began with
  EXPECT_EQ(refusal([&] { read_model_of_weights(fields_of(c), c); }).code, base::ExitCode::environment);
}

// A flag or another plan can replace a degree that a plan gives; only another plan can replace the plan's ranks.
TEST(TensorRanks, OfAPlanThatDoNotFitAreSaidToBeItsOwn) {
  SmallRun runs;
  auto c = runs.config("planned");
  c.plan = "plan.json", c.from_plan.ranks = 2, c.tensor = 2;
  const auto said = [&](int ranks) { return refusal([&] { make_setup(c, ranks, 1); }); };
  EXPECT_EQ(said(2).text, "");
  EXPECT_EQ(said(3).text, "plan plan.json is for 2 ranks, this job has 3");
  EXPECT_TRUE(has(said(3).hint, "make another plan with partition-model --ranks 3")) << said(3).hint;
  const std::string ways = "flags override plan.json; or make another plan with partition-model";
  c.lanes = 1;
  EXPECT_EQ(said(2).text, "--tensor-parallel 2 does not divide lanes 1");
  EXPECT_TRUE(said(2).hint.starts_with("--tensor-parallel 1; --lanes 2 ")) << said(2).hint;
  EXPECT_TRUE(said(2).hint.ends_with("; " + ways)) << said(2).hint;
  c.reduction = plan::Reduction::fast;
  EXPECT_TRUE(has(said(2).text, "2 things are wrong")) << said(2).text;
  EXPECT_EQ(said(2).hint, ways);
  c.from_plan.settings = {"tensor-parallel", "reduction", "local-accumulation"};
  EXPECT_EQ(said(2).hint,
            "plan.json sets --tensor-parallel, --reduction, and flags override it; or make another plan with "
            "partition-model");
  c.from_plan.settings = {"tensor-ranks", "duction"};
  EXPECT_EQ(said(2).hint, ways) << "a flag is a whole word";
  c.from_plan.ranks = 0, c.plan.clear(), c.tensor = 3, c.lanes = 0, c.reduction = plan::Reduction::ordered;
  EXPECT_EQ(said(2).text,
            "--tensor-parallel 3 does not divide 2 ranks; --tensor-parallel 3 does not divide kv-heads 4");
}

}  // namespace start_path_test
}  // namespace trainyard::engine
