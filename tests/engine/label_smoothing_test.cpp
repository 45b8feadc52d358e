// Label smoothing: the same bits on every layout in the predicted memory and traffic, losses that are linear in it, and
// evaluations without it; what a resume may not change; which values are refused.
#include "libtrain/comm/agreement.h"
#include "libtrain/engine/evaluate.h"
#include "libtrain/plan/plan_json.h"
#include "tests/engine/reports.h"
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

namespace trainyard {
namespace label_smoothing_test {

using testing::error_text_of;
using testing::ParallelLayout;
using testing::SmallRun;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

engine::RunConfig config(const SmallRun& runs, const std::string& output, double smoothing) {
  auto c = runs.config(output);
  c.label_smoothing = smoothing, c.steps = 4, c.global_batch = 6;
  c.validate_every = 4, c.validation_sequences = 8;
  return c;
}

double evaluated(const std::string& checkpoint) {
  engine::EvaluateConfig e;
  e.checkpoint = checkpoint, e.sequences = 8, e.run.device = "cpu", e.run.threads = 1;
  double loss = 0;
  comm::run_ranks(1, [&](int rank, comm::ThreadsWorld& world) {
    auto w = engine::make_world("threads", rank, plan::replicas_of(1, 1, 1), world.factory(rank));
    loss = engine::evaluate(e, w, nullptr).loss;
  });
  return loss;
}

// Three lanes: each lane sends its own statistics. tests/engine/same_bits_tensor_test.cpp has two and four ranks.
TEST(LabelSmoothing, HasTheSameBitsOnThreeTensorParallelRanks) {
  SmallRun runs;
  const auto of = [&](const std::string& output) {
    auto c = config(runs, output, 0.1);
    c.model =
        runs.model("three", "layers = 2\nhidden = 48\nheads = 6\nkv-heads = 3\nffn = 96\ncontext = 32\nlanes = 3\n");
    return c;
  };
  const auto one = of("one");
  const auto expected = runs.bits(one, runs.run(one, {}));
  const auto validation = SmallRun::metrics(one)[3]["validation_loss"];
  for (const auto& layout :
       {ParallelLayout{3, 0, 1, "f32", "none", 3}, ParallelLayout{6, 3, 1, "f32", "selective", 3},
        ParallelLayout{3, 2, 1, "f32", "full"}, ParallelLayout{2, 1, 1, "f32", "none", 1, false, 2}}) {
    const auto what = fmt::format("{}-{}-{}-{}", layout.ranks, layout.tensor, layout.zero, layout.pipeline);
    const auto c = of(what);
    EXPECT_EQ(runs.bits(c, runs.run(c, layout)), expected) << what;
    EXPECT_EQ(SmallRun::metrics(c)[3]["validation_loss"], validation) << what;
    testing::expect_no_difference(runs.reports(), what);
  }
}

// Three runs begin with the same weights, and a learning rate changes none of them.
TEST(LabelSmoothing, TheLossOfTrainingHasItAndEvaluationsDoNot) {
  SmallRun runs;
  const auto first = config(runs, "first", 0.3);
  const auto checkpoint = runs.run(first, {}).checkpoint;
  const double want = SmallRun::metrics(first)[3]["validation_loss"];
  EXPECT_EQ(evaluated(checkpoint), want);
  std::vector<double> losses;
  for (const double smoothing : {0.0, 0.2, 0.4}) {
    auto c = config(runs, fmt::format("still-{}", smoothing), smoothing);
    c.init_from = checkpoint, c.steps = 1, c.learning_rate = 1e-37, c.weight_decay = 0;
    const auto still = runs.run(c, {}).checkpoint;
    const auto line = SmallRun::metrics(c)[0];
    EXPECT_EQ(line["validation_loss"], want) << smoothing;
    EXPECT_EQ(evaluated(still), want) << smoothing;
    losses.push_back(line["loss"]);
  }
  EXPECT_GT(losses[1], losses[0] + 1e-3) << "the mean of the logits is below the logits of most targets";
  EXPECT_NEAR(losses[2] - losses[1], losses[1] - losses[0], 1e-5);
}

// Each set's loss follows the loss that is minimised: weighted by targets their mean is the loss of the step.
TEST(LabelSmoothing, LossesOfSetsHaveIt) {
  SmallRun runs;
  const auto other = (runs.folder() / "other").string();
  testing::fs::copy(runs.folder() / "data", other, testing::fs::copy_options::recursive);
  auto c = config(runs, "sets", 0.5);
  c.data = fmt::format("{}:0.5,{}:0.5", c.data, other);
  runs.run(c, {2, 1, 1});
  for (const auto& line : SmallRun::metrics(c)) {
    double sum = 0, targets = 0;
    for (const auto& set : line["sets"]) {
      if (!set.contains("loss")) continue;
      sum += set["loss"].get<double>() * set["tokens"].get<double>(), targets += set["tokens"].get<double>();
    }
    EXPECT_NEAR(sum / targets, line["loss"].get<double>(), 1e-9) << line;
  }
}

// A checkpoint without the setting is one of a run that smoothed nothing.
TEST(LabelSmoothing, BelongsToWhatARunIs) {
  SmallRun runs;
  for (const double smoothing : {0.0, 0.25}) {
    auto c = config(runs, fmt::format("run-{}", smoothing), smoothing);
    c.stop_after = 2;
    const auto identity = checkpoint::Reader(runs.run(c, {}).checkpoint).state().identity;
    EXPECT_EQ(identity.contains("label_smoothing"), smoothing > 0);
    c.stop_after = 0;
    auto another = c;
    another.label_smoothing = 0.1;
    EXPECT_TRUE(
        has(error_text_of([&] { runs.run(another, {}); }),
            fmt::format("--label-smoothing: the checkpoint has {}, this run 0.1", smoothing > 0 ? "0.25" : "0.0")));
    auto none = c;
    none.label_smoothing = 0;
    EXPECT_EQ(has(error_text_of([&] { none.stop_after = 2, runs.run(none, {}); }),
                  "--label-smoothing: the checkpoint has 0.25, this run 0.0, which is the default"),
              smoothing > 0);
    another.output += "-changed";
    testing::fs::copy(c.output, another.output, testing::fs::copy_options::recursive);
    another.change = "label-smoothing";
    EXPECT_EQ(runs.run(another, {}).code, base::ExitCode::done);
    EXPECT_EQ(runs.run(c, {}).code, base::ExitCode::done);
  }
}

TEST(LabelSmoothing, IsAShareBelowOne) {
  engine::RunConfig c;
  auto fields = fields_of(c);
  auto& field = base::field_named(fields, "label-smoothing", "test");
  for (const char* bad : {"1", "-0.1", "2", "nan", "a tenth", "10%", ""})
    EXPECT_TRUE(has(error_text_of([&] { field.set(bad, "--label-smoothing"); }), "--label-smoothing")) << bad;
  EXPECT_EQ(c.label_smoothing, 0);
  for (const char* good : {"0", "0.1", "0.9999999"}) field.set(good, "--label-smoothing");
  EXPECT_EQ(c.label_smoothing, 0.9999999);
}

// A plan has it, because ranks that share a vocabulary send one number more for each token, and keep it.
TEST(LabelSmoothing, APlanHasItsMemoryAndTraffic) {
  plan::Plan p;
  p.model.layers = 1, p.model.hidden = 32, p.model.heads = p.model.kv_heads = 4, p.model.ffn = 64;
  p.model.vocabulary = 257, p.model.context = 64, p.model.lanes = 2;
  p.sequence = 64, p.micro_batch = 4, p.global_batch = 4, p.tensor = 2, p.topology = plan::topology_of(p, 2);
  auto smooth = p;
  smooth.label_smoothing = 0.1;
  plan::predict(p), plan::predict(smooth);
  const auto gathered = [](const plan::Plan& of) {
    std::int64_t bytes = 0;
    for (const auto& t : of.traffic.front().operations)
      if (t.operation == "all_gather") bytes += t.bytes;
    return bytes;
  };
  EXPECT_EQ(gathered(smooth) - gathered(p), 256 * 4) << "an f32 for each of 256 tokens, to the other rank";
  const auto workspace = [](const plan::Plan& of) { return of.memory.categories[base::MemoryCategory::workspace]; };
  EXPECT_EQ(workspace(smooth) - workspace(p), 3 * 256 * 4) << "its own, and those of both ranks";
  const auto text = plan::to_json(p), smoothed = plan::to_json(smooth);
  EXPECT_FALSE(has(text, "label_smoothing"));
  EXPECT_EQ(plan::plan_from_json(smoothed, "test").label_smoothing, 0.1);
  EXPECT_EQ(plan::plan_from_json(text, "test").label_smoothing, 0);
}

}  // namespace label_smoothing_test
}  // namespace trainyard
