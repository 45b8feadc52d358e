// A run whose checkpoints are resharded on the way ends with the bits of a run that was never interrupted.
#include "tests/engine/small_run.h"

#include "libtrain/checkpoint/reshard.h"
#include "libtrain/engine/evaluate.h"
#include "libtrain/engine/run_folder.h"

#include <gtest/gtest.h>

namespace trainyard {
namespace {

using testing::SmallRun;

TEST(Reshard, AWalkOverRanksAndStagesKeepsTheBits) {
  SmallRun runs;
  const auto whole = runs.config("whole");
  const auto expected = runs.bits(whole, runs.run(whole, {2, 1, 1}));
  auto c = runs.config("walk");
  struct Stop {
    int data, tensor, zero, until;
  };
  std::string before;
  for (const auto& [data, tensor, zero, until] :
       {Stop{4, 1, 1, 3}, Stop{1, 4, 0, 6}, Stop{1, 1, 0, 9}, Stop{3, 2, 2, 14}, Stop{8, 1, 3, 17}, Stop{2, 2, 3, 0}}) {
    if (!before.empty()) {
      const auto next = (runs.folder() / fmt::format("on-{}-{}", data, tensor)).string();
      checkpoint::ReshardOptions options;
      options.threads = 2;
      const checkpoint::Reader source(before, checkpoint::Reader::Check::all_but_payloads);
      options.history = engine::history_through(before, source.state().step);
      checkpoint::reshard(source, next, {data, {}, zero, {}, {}, tensor}, options);
      testing::fs::remove_all(before);
      c.resume = next;
    }
    c.stop_after = until;
    testing::ParallelLayout layout{data * tensor, zero, 1};
    layout.tensor = tensor;
    const auto result = runs.run(c, layout);
    before = result.checkpoint;
    if (until == 0) {
      EXPECT_EQ(result.code, base::ExitCode::done);
      EXPECT_EQ(runs.bits(c, result), expected);
    }
  }
}

// A run may change its working dtype at any time. Resharding to another dtype makes the same change beforehand.
TEST(Reshard, AnotherDtypeIsTheOneThatAResumeMakes) {
  SmallRun runs;
  auto c = runs.config("source");
  c.stop_after = 6;
  const auto from = runs.run(c, {2, 1, 1}).checkpoint;
  const auto narrow = (runs.folder() / "narrow").string();
  checkpoint::ReshardOptions options;
  options.history = engine::history_through(from, 6);
  checkpoint::reshard(checkpoint::Reader(from), narrow, {3, base::DType::bf16, {}, {}}, options);
  std::vector<std::string> bits;
  for (const auto& [path, name] : {std::pair{from, "direct"}, std::pair{narrow, "beforehand"}}) {
    auto d = runs.config(name);
    d.resume = path;
    bits.push_back(runs.bits(d, runs.run(d, {3, 2, 1, "bf16"})));
  }
  EXPECT_EQ(bits[0], bits[1]);
}

// A run goes on from the exact weights of such a checkpoint, and an evaluation computes in f16.
TEST(Reshard, AnF16CheckpointServesOtherDtypes) {
  SmallRun runs;
  auto c = runs.config("first");
  c.stop_after = 6;
  const auto from = runs.run(c, {2, 1, 1}).checkpoint;
  const auto half = (runs.folder() / "half").string();
  checkpoint::ReshardOptions options;
  options.history = engine::history_through(from, 6);
  checkpoint::reshard(checkpoint::Reader(from), half, {3, base::DType::f16, {}, {}}, options);
  std::vector<std::string> bits;
  for (const auto& [path, name] : {std::pair{from, "of-f32"}, std::pair{half, "of-f16"}}) {
    auto d = runs.config(name);
    d.resume = path;
    bits.push_back(runs.bits(d, runs.run(d, {2, 1, 1})));
  }
  EXPECT_EQ(bits[0], bits[1]);
  engine::EvaluateConfig e;
  e.checkpoint = half, e.sequences = 4, e.run.device = "cpu";
  auto world = engine::solo_world();
  const auto found = engine::evaluate(e, world, nullptr);
  EXPECT_EQ(found.dtype, "f16");
  e.checkpoint = from;
  auto again = engine::solo_world();
  const auto exact = engine::evaluate(e, again, nullptr).loss;
  EXPECT_NE(found.loss, exact) << "the weights are rounded";
  EXPECT_NEAR(found.loss, exact, 1e-3);
}

}  // namespace
}  // namespace trainyard
