// Starting points: --change, --init-from, another dtype or zero group. Also saves in the background while steps go on.
#include "libtrain/engine/restore.h"
#include "libtrain/engine/run_folder.h"
#include "libtrain/engine/setup.h"
#include "tests/checkpoint/sample.h"
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace trainyard {
namespace resume_test {

using testing::SmallRun;

using checkpoint::Kind;

std::vector<float> tensor(const std::string& path, Kind kind, const std::string& name) {
  checkpoint::Reader reader(path);
  for (const auto& t : reader.tensors()) {
    if (t.name != name || t.kind != Kind::model) continue;
    std::int64_t count = 1;
    for (auto d : t.shape) count *= d;
    std::vector<float> out(static_cast<std::size_t>(count));
    reader.read_tensor(kind, name, 0, count, out.data());
    return out;
  }
  ADD_FAILURE() << name << " is not in " << path;
  return {};
}

void expect_refused(SmallRun& runs, const engine::RunConfig& config) {
  try {
    runs.run(config, {2, 1, 1});
    FAIL() << "not refused";
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::input_refused) << e.what();
    EXPECT_NE(e.hint().find("--change"), std::string::npos) << e.hint();
  }
}

TEST(Resume, ChangeOfALearningRateActsFromTheResumedStepOn) {
  SmallRun runs;
  auto c = runs.config("change");
  c.schedule = "constant";
  c.stop_after = 8;
  runs.run(c, {2, 1, 1});
  const auto before = SmallRun::metrics(c);
  c.stop_after = 0;
  c.learning_rate = 0.002;
  expect_refused(runs, c);
  c.change = "learning_rate";
  EXPECT_EQ(runs.run(c, {3, 2, 1}).code, base::ExitCode::done);
  const auto after = SmallRun::metrics(c);
  ASSERT_EQ(after.size(), 20u);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_DOUBLE_EQ(after[i]["learning_rate"].get<double>(), i < 8 ? 0.01 : 0.002);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(after[i]["loss"], before[i]["loss"]);
}

// A model of another shape is refused at once, with or without --change. Its checkpoints are not reported as damaged.
TEST(Resume, AnotherShapeIsRefusedAsSuch) {
  SmallRun runs;
  auto c = runs.config("shape");
  c.steps = 1;
  runs.run(c, {1, 0, 1});
  const auto said = [&] {
    try {
      runs.run(c, {2, 1, 1});
      return std::string("not refused");
    } catch (const base::Error& e) {
      EXPECT_EQ(e.code(), base::ExitCode::input_refused) << e.what();
      return std::string(e.what()) + " / " + e.hint();
    }
  };
  c.model = runs.llama(), c.steps = 2, c.change = "model,steps";
  EXPECT_NE(said().find("another shape"), std::string::npos) << said();
  EXPECT_EQ(said().find("whole"), std::string::npos) << said();
  c.model = runs.gpt(), c.resume = c.output;
  EXPECT_EQ(runs.run(c, {2, 1, 1}).code, base::ExitCode::done) << "of a run the newest is meant";
  EXPECT_EQ(SmallRun::metrics(c).size(), 2u);
  c.resume = c.output + "/nope";
  EXPECT_NE(said().find("does not exist"), std::string::npos) << said();
}

TEST(Resume, MoreStepsOfTheSameRun) {
  SmallRun runs;
  auto whole = runs.config("whole"), part = runs.config("part");
  for (auto* c : {&whole, &part}) c->schedule = "constant";
  part.steps = 10;
  runs.run(part, {1, 0, 1});
  part.steps = 20;
  expect_refused(runs, part);
  part.change = "steps";
  EXPECT_EQ(runs.bits(part, runs.run(part, {2, 3, 1})), runs.bits(whole, runs.run(whole, {1, 0, 1})));
}

// --init-from takes weights only: the first step of the new run has the old weights, and fresh data order, moments and
// schedule.
TEST(InitFrom, TakesWeightsAloneOnAnyCut) {
  SmallRun runs;
  auto source = runs.config("source");
  source.steps = 6;
  const auto from = runs.run(source, {3, 3, 1}).checkpoint;
  std::string expected;
  for (int zero : {0, 1, 2, 3}) {
    auto c = runs.config(fmt::format("started-{}", zero));
    c.init_from = from;
    c.steps = 3;
    c.seed = 9;
    c.warmup_steps = 1;
    const auto result = runs.run(c, {1 + zero, zero, 1});
    const auto bits = runs.bits(c, result);
    if (expected.empty()) expected = bits;
    EXPECT_EQ(bits, expected) << "ZeRO " << zero;
    const auto metrics = SmallRun::metrics(c);
    ASSERT_EQ(metrics.size(), 3u);
    EXPECT_EQ(metrics[0]["step"].get<int>(), 1);
    EXPECT_EQ(metrics[0]["tokens_seen"].get<int>(), 14 * 32);
    // A run that learned for six steps starts better than a fresh one.
    EXPECT_LT(metrics[0]["loss"].get<double>(), SmallRun::metrics(source)[0]["loss"].get<double>() - 0.1);
  }
  // With a learning rate of almost nothing the weights stay those of the source, bit by bit.
  auto still = runs.config("still");
  still.init_from = from;
  still.steps = 1;
  still.learning_rate = 1e-30;
  still.weight_decay = 0;
  const auto after = runs.run(still, {2, 2, 1}).checkpoint;
  for (const char* name : {"embedding.tokens.weight", "layers.02.ffn.down.weight", "head.norm.weight"})
    EXPECT_EQ(tensor(after, Kind::model, name), tensor(from, Kind::model, name)) << name;
  // The moments do not: they start at zero, so after one step m = (1 - beta1) g, with
  // g
  //  at most the clip.
  double most = 0;
  for (auto m : tensor(after, Kind::state("m"), "layers.02.ffn.down.weight"))
    most = std::max(most, std::fabs(static_cast<double>(m)));
  EXPECT_GT(most, 0);
  EXPECT_LE(most, 0.1 * 1.0 + 1e-6);
}

// One step with weight decay: the embedding's tables decay where that is asked for. Nothing else changes, whatever the
// layout.
TEST(Resume, EmbeddingsDecayWhereTheyAreAskedTo) {
  SmallRun runs;
  auto c = runs.config("embeddings");
  c.stop_after = 1;
  const auto from = runs.run(c, {1, 0, 1}).checkpoint;
  std::string bits;
  for (const auto& layout :
       std::vector<testing::ParallelLayout>{{1, 0, 1}, {3, 3, 1}, {2, 2, 1}, {.ranks = 2, .zero = 1, .pipeline = 2}}) {
    std::map<std::string, std::string> after;
    for (const char* decays : {"off", "on"}) {
      auto next = runs.config(fmt::format("decay-{}-{}", decays, layout.zero));
      next.init_from = from, next.steps = 1, next.schedule = "constant", next.decay_embeddings = decays;
      next.learning_rate = 0.01, next.weight_decay = 0.5, next.warmup_steps = 0;
      const auto result = runs.run(next, layout);
      after[decays] = result.checkpoint;
      if (decays == std::string("on")) {
        if (bits.empty()) bits = runs.bits(next, result);
        EXPECT_EQ(runs.bits(next, result), bits) << "ZeRO " << layout.zero;
      }
    }
    for (const char* name : {"embedding.tokens.weight", "embedding.positions.weight"}) {
      const auto before = tensor(from, Kind::master, name), off = tensor(after["off"], Kind::master, name),
                 on = tensor(after["on"], Kind::master, name);
      for (std::size_t i = 0; i < on.size(); ++i)
        ASSERT_NEAR(on[i], off[i] - 0.01f * 0.5f * before[i], 2e-8) << name << " " << i;
      EXPECT_NE(on, off) << name;
    }
    for (const char* name : {"layers.01.attention.q.weight", "layers.00.ffn.up.bias", "head.norm.weight"})
      EXPECT_EQ(tensor(after["on"], Kind::master, name), tensor(after["off"], Kind::master, name)) << name;
  }
  auto idle = runs.config("idle");
  idle.decay_embeddings = "on", idle.weight_decay = 0;
  EXPECT_THROW(runs.run(idle, {1, 0, 1}), base::Error);
}

// f32 -> bf16 keeps the f32 weights as the master weights. bf16 -> f32 goes on from the master weights, not from the
// rounded copy.
TEST(Resume, AnotherWorkingDtype) {
  SmallRun runs;
  for (const auto& [first, second] :
       std::vector<std::pair<std::string, std::string>>{{"f32", "bf16"}, {"bf16", "f32"}}) {
    auto c = runs.config("dtype-" + first);
    c.stop_after = 8;
    const auto before = runs.run(c, {2, 1, 1, first}).checkpoint;
    c.stop_after = 9;
    c.learning_rate = 1e-30;  // the step that follows changes no weight
    c.weight_decay = 0;
    c.change = "learning_rate,weight_decay";
    const auto after = runs.run(c, {3, 3, 1, second}).checkpoint;
    for (const char* name : {"embedding.tokens.weight", "layers.01.attention.q.weight", "layers.00.ffn.up.bias"}) {
      const auto working = tensor(after, Kind::model, name), exact = tensor(before, Kind::master, name);
      EXPECT_EQ(tensor(after, Kind::master, name), exact) << first << " to " << second << ": " << name;
      for (std::size_t i = 0; i < exact.size() && second == "bf16"; ++i)
        ASSERT_EQ(working[i], static_cast<float>(base::bf16(exact[i])));
    }
    // The run goes on to a sensible end.
    c.stop_after = 0;
    c.learning_rate = 0.01;
    EXPECT_EQ(runs.run(c, {1, 0, 1, second}).code, base::ExitCode::done);
    const auto metrics = SmallRun::metrics(c);
    ASSERT_EQ(metrics.size(), 20u);
    EXPECT_LT(metrics[19]["loss"].get<double>(), metrics[7]["loss"].get<double>());
  }
}

// The rank that reads a payload with one flipped byte sees the damage, and all ranks go back to the checkpoint before.
TEST(Resume, DamageFoundByOneRankSendsAllToTheOneBefore) {
  SmallRun runs;
  const auto whole = runs.config("whole");
  const auto expected = runs.bits(whole, runs.run(whole, {1, 0, 1}));
  auto c = runs.config("damaged");
  c.save_every = 5;
  c.stop_after = 10;
  runs.run(c, {3, 2, 1});
  const auto flip = [&](int step, checkpoint::Kind kind, int rank) {
    const auto folder = fmt::format("{}/checkpoints/step-{:08}", c.output, step);
    const auto name = fmt::format("rank-{:05}.h5", rank);
    const checkpoint::Reader reader(folder);
    const auto& payload = reader.manifest().files.at(name).payloads.at(std::string(checkpoint::path_of(kind)));
    std::fstream file(folder + "/" + name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(payload.offset + 1234);
    const char byte = static_cast<char>(file.get() ^ 4);
    file.seekp(payload.offset + 1234);
    file.put(byte);
  };
  flip(10, Kind::state("m"), 2);
  auto explicit_path = c;
  explicit_path.resume = c.output + "/checkpoints/step-00000010";
  explicit_path.output += "-explicit";
  explicit_path.stop_after = 0;
  try {
    runs.run(explicit_path, {4, 3, 1});
    ADD_FAILURE() << "a damaged checkpoint named by the user was taken";
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::input_refused);
    EXPECT_NE(std::string(e.what()).find("rank-00002.h5"), std::string::npos) << e.what();
  }
  c.stop_after = 0;
  EXPECT_EQ(runs.bits(c, runs.run(c, {4, 3, 1})), expected);
  // A run without a whole checkpoint does not begin anew in the same folder.
  auto lost = runs.config("damaged");
  lost.save_every = 5;
  for (const auto& item : std::filesystem::directory_iterator(c.output + "/checkpoints")) {
    const auto name = item.path().filename().string();  // the damaged checkpoint was set aside
    if (name.starts_with("step-")) flip(std::stoi(name.substr(5)), Kind::state("v"), 0);
  }
  EXPECT_THROW(runs.run(lost, {2, 0, 1}), base::Error);
  EXPECT_EQ(SmallRun::metrics(lost).size(), 20u);
}

// The ZeRO stage and the number of ranks do not change who saves what: every rank saves an equal share.
TEST(Saving, RankFilesAreBalanced) {
  SmallRun runs;
  for (int ranks : {2, 3, 4, 7})
    for (int zero : {0, 1, 2, 3}) {
      auto c = runs.config(fmt::format("balance-{}-{}", ranks, zero));
      c.steps = 1;
      const auto folder = runs.run(c, {ranks, zero, 1, zero % 2 == 0 ? "f32" : "bf16"}).checkpoint;
      std::uintmax_t least = UINTMAX_MAX, most = 0;
      for (int r = 0; r < ranks; ++r) {
        const auto bytes = std::filesystem::file_size(fmt::format("{}/rank-{:05}.h5", folder, r));
        least = std::min(least, bytes), most = std::max(most, bytes);
      }
      EXPECT_LE(static_cast<double>(most), 1.05 * static_cast<double>(least)) << ranks << " ranks, ZeRO " << zero;
    }
}

// At a byte a second neither the save under way nor the last one would ever end. A step that waited for the first save
// would never come. When the run ends, both saves get the full speed.
TEST(Saving, StepsGoOnWhileTheDiskIsSlowUntilTheRunEnds) {
  SmallRun runs;
  auto slow = runs.config("slow-disk");
  slow.save_every = 2;
  slow.steps = 3;
  slow.global_batch = 2;
  slow.save_throttle = 1;
  bool published_early = false, reached_last = false;
  const engine::RunListener listener{[&](const engine::StepMetrics& m, std::int64_t) {
                                       if (m.step < 3) return;
                                       reached_last = true;
                                       published_early =
                                           std::filesystem::exists(slow.output + "/checkpoints/step-00000002");
                                     },
                                     {}};
  const auto result = runs.run(slow, {2, 2, 1}, listener);
  EXPECT_TRUE(reached_last);
  EXPECT_FALSE(published_early) << "step 3 waited for the checkpoint of step 2";
  EXPECT_TRUE(result.checkpoint.ends_with("step-00000003"));
  EXPECT_TRUE(std::filesystem::exists(slow.output + "/checkpoints/step-00000002"));
}

// Checkpoints record no zero group of 0.
TEST(Resume, SaysThatTheZeroGroupChanged) {
  SmallRun runs;
  const auto c = runs.config("zero-groups");
  auto setup = engine::make_setup(c, 1, 1);
  for (const int before : {2, 0}) {
    auto s = sample::state(setup.plan.model, base::DType::f32, 15);
    s.identity = setup.identity, s.seed = c.seed;
    if (before > 0) s.plan["zero_group"] = before;
    std::filesystem::remove_all(c.output);
    sample::save(engine::checkpoints_folder(c.output), s, 1);
    for (const int now : {0, 2, 4}) {
      setup.plan.zero_group = now;
      ::testing::internal::CaptureStderr();
      engine::choose_start(setup, {});
      const auto said = ::testing::internal::GetCapturedStderr();
      const auto text = fmt::format("resuming with zero-group {} (the checkpoint was written with {})", now, before);
      EXPECT_EQ(said.find(text) != std::string::npos, now != before) << text;
      EXPECT_EQ(said.find("zero-group") != std::string::npos, now != before) << text;
    }
  }
}

}  // namespace resume_test
}  // namespace trainyard
