// Checkpoints whose payloads differ from the manifest's fingerprints, while every checksum is right. Resumes, new runs
// and evaluations refuse them on every layout.
#include "tests/checkpoint/layouts.h"
#include "tests/engine/small_run.h"
#include "tests/night.h"

#include "libtrain/engine/evaluate.h"

#include <gtest/gtest.h>

#include <functional>

using namespace trainyard;
using trainyard::testing::ParallelLayout;
using trainyard::testing::SmallRun;

namespace {

std::string step(const engine::RunConfig& c, int number) {
  return fmt::format("{}/checkpoints/step-{:08}", c.output, number);
}

void change_fingerprint(const std::string& folder, const std::string& tensor) {
  sample::edit_manifest(folder, [&](nlohmann::json& j) {
    auto text = j["tensors"][tensor]["fingerprint"].get<std::string>();
    text[7] = text[7] == '0' ? '1' : '0';
    j["tensors"][tensor]["fingerprint"] = text;
  });
}

void expect_refused(const std::function<void()>& work, const std::string& tensor) {
  try {
    work();
    ADD_FAILURE() << "not refused: " << tensor;
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::input_refused) << e.what();
    EXPECT_NE(std::string(e.what()).find(tensor + " was read with fingerprint"), std::string::npos) << e.what();
  }
}

const ParallelLayout layouts[] = {
    {1, 0, 2}, {4, 3, 1}, {2, 1, 1, "f32", "none", 2}, {4, 2, 1, "f32", "none", 2, false, 2}};

}  // namespace

TEST(ReadSums, AResumeGoesBackToTheCheckpointBefore) {
  SmallRun runs;
  const int interval = trainyard::testing::by_day_or_night(2, 5);
  auto whole = runs.config("whole");
  whole.steps = 4 * interval;
  const auto expected = runs.bits(whole, runs.run(whole, {1, 0, 1}));
  for (std::size_t i = 0; i < std::size(layouts); ++i) {
    auto c = runs.config(fmt::format("resumed-{}", i));
    c.steps = whole.steps, c.save_every = interval;
    c.stop_after = 2 * interval;
    runs.run(c, {3, 2, 1});
    const auto* tensor = i % 2 == 0 ? "/model/layers.01.ffn.down.weight" : "/optimizer/v/embedding.tokens.weight";
    change_fingerprint(step(c, 2 * interval), tensor);
    auto named = c;
    named.resume = step(c, 2 * interval), named.output += "-named", named.stop_after = 0;
    expect_refused([&] { runs.run(named, layouts[i]); }, tensor);
    c.stop_after = 0;
    EXPECT_EQ(runs.bits(c, runs.run(c, layouts[i])), expected) << i;
  }
}

TEST(ReadSums, NewRunsAndEvaluationsRefuse) {
  SmallRun runs;
  for (const auto* dtype : {"f32", "bf16"}) {
    auto source = runs.config(std::string("source-") + dtype);
    source.steps = 2;
    ParallelLayout first{2, 1, 1};
    first.dtype = dtype;
    runs.run(source, first);
    const auto folder = step(source, 2);
    const auto evaluate = [&](ParallelLayout layout, bool stream = false) {
      layout.dtype = dtype;
      engine::EvaluateConfig c;
      c.checkpoint = folder, c.stream_weights = stream;
      SmallRun::apply(layout, c.run);
      c.run.device = "cpu", c.run.hang_timeout = 120;
      comm::run_ranks(layout.ranks, [&](int rank, comm::ThreadsWorld& world) {
        auto w = engine::make_world("threads", rank, plan::replicas_of(layout.ranks, layout.tensor, layout.pipeline),
                                    world.factory(rank));
        engine::evaluate(c, w, {});
      });
    };
    for (const auto& layout : layouts)
      for (const bool stream : {false, true}) EXPECT_NO_THROW(evaluate(layout, stream));
    change_fingerprint(folder, "/model/head.norm.weight");
    for (const auto& layout : layouts)
      for (const bool stream : {false, true})
        expect_refused([&] { evaluate(layout, stream); }, "/model/head.norm.weight");
    const std::string weights = dtype == std::string("bf16") ? "/optimizer/master" : "/model";
    if (weights != "/model") change_fingerprint(folder, weights + "/head.norm.weight");
    for (std::size_t i = 0; i < std::size(layouts); ++i) {
      auto c = runs.config(fmt::format("begun-{}-{}", dtype, i));
      c.init_from = folder, c.steps = 1;
      auto layout = layouts[i];
      layout.dtype = dtype;
      expect_refused([&] { runs.run(c, layout); }, weights + "/head.norm.weight");
    }
  }
}
