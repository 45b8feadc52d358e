// Evaluation: what training recorded as its validation loss, to the bit, on every cut; the arenas that were announced;
// errors that all ranks share.
#include "tests/engine/small_run.h"

#include "libtrain/base/read_file.h"
#include "libtrain/comm/agreement.h"
#include "libtrain/engine/evaluate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <bit>

using namespace trainyard;
using trainyard::testing::Cut;
using trainyard::testing::SmallRun;

namespace {

// On every rank of `cut`; what rank 0 found, after a comparison with the others.
engine::Evaluation evaluate(engine::EvaluateConfig c, const Cut& cut) {
  c.run.zero = cut.zero, c.run.threads = cut.threads, c.run.device = "cpu";
  c.run.tensor = cut.tensor, c.run.sequence_parallel = cut.sequence_parallel;
  std::vector<engine::Evaluation> found(static_cast<std::size_t>(cut.ranks));
  comm::run_ranks(cut.ranks, [&](int rank, comm::ThreadsWorld& world) {
    auto w = engine::make_world("threads", rank, cut.ranks, world.factory(rank), cut.tensor);
    found[static_cast<std::size_t>(rank)] = engine::evaluate(c, w, {}, cut.ranks);
  });
  for (const auto& e : found) {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(e.loss), std::bit_cast<std::uint64_t>(found[0].loss));
    EXPECT_EQ(e.bytes, found[0].bytes);
    EXPECT_EQ(e.measured, e.predicted) << "ranks " << cut.ranks << " ZeRO " << cut.zero;
  }
  return found[0];
}

}  // namespace

TEST(Evaluate, IsTheValidationLossThatTrainingRecordedOnEveryCut) {
  SmallRun runs;
  for (const auto& [model, dtype, mask] :
       {std::tuple{runs.gpt(), "f32", "off"}, std::tuple{runs.llama(), "bf16", "on"}}) {
    auto c = runs.config(std::string("trained-") + dtype);
    c.model = model, c.document_mask = mask, c.micro_batch = 2, c.steps = 6, c.validate_every = 3,
    c.validation_sequences = 14;
    runs.run(c, {2, 2, 1, dtype});
    const auto recorded = SmallRun::metrics(c)[5]["validation_loss"].get<double>();
    engine::EvaluateConfig e;
    e.checkpoint = c.output, e.sequences = 14;
    for (const Cut& cut : {Cut{1, 0}, Cut{3, 1}, Cut{2, 0, 2}, Cut{3, 3}, Cut{7, 2}, Cut{1, 3}}) {
      const auto found = evaluate(e, cut);
      EXPECT_EQ(found.loss, recorded) << dtype << " on " << cut.ranks << " ranks, ZeRO " << cut.zero;
      EXPECT_EQ(found.dtype, dtype);
      EXPECT_EQ(found.document_mask, mask);
      EXPECT_EQ(found.step, 6);
    }
  }
}

TEST(Evaluate, SequencesThatDoNotFillAMicroBatchCount) {
  SmallRun runs;
  auto c = runs.config("some");
  c.steps = 2;
  runs.run(c, {1});
  engine::EvaluateConfig e;
  e.checkpoint = c.output, e.given = {"micro-batch"};
  e.sequences = 11;
  e.run.micro_batch = 1;
  const auto one = evaluate(e, {1});
  for (const int b : {2, 4, 11, 64}) {
    e.run.micro_batch = b;
    const auto some = evaluate(e, {3, 3});
    EXPECT_EQ(some.tokens, 11 * 32);
    EXPECT_EQ(some.bytes, one.bytes);
    EXPECT_NEAR(some.loss, one.loss, 1e-6) << b;
  }
}

TEST(Evaluate, AllRanksRefuseAlike) {
  SmallRun runs;
  auto c = runs.config("refused");
  c.steps = 2;
  const auto checkpoint = runs.run(c, {2}).checkpoint;
  engine::EvaluateConfig e;
  e.checkpoint = c.output;
  const auto refused = [&](const char* part) {
    std::atomic<int> ranks = 0;
    comm::run_ranks(3, [&](int rank, comm::ThreadsWorld& world) {
      auto w = engine::make_world("threads", rank, 3, world.factory(rank));
      try {
        engine::evaluate(e, w, {}, 3);
        ADD_FAILURE() << "rank " << rank << " found nothing wrong";
      } catch (const comm::AgreedError& error) {
        EXPECT_EQ(error.code(), base::ExitCode::input_refused) << error.what();
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
        ++ranks;
      }
    });
    EXPECT_EQ(ranks, 3);
  };
  e.run.device = "cpu", e.run.threads = 1;
  e.run.model = runs.llama(), e.given = {"model"};
  refused("layers: the checkpoint has 3");
  e.given = {};
  // A block that one rank reads: damaged on the last rank's part.
  const auto file = checkpoint + "/rank-00001.h5";
  auto bytes = base::read_file(file);
  const auto payload = checkpoint::Reader(checkpoint).manifest().files.at("rank-00001.h5").payloads.at("/model");
  bytes[static_cast<std::size_t>(payload.offset + payload.bytes - 4)] ^= 1;
  base::write_file(file, bytes);
  refused("rank-00001.h5");
}
