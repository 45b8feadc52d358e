// Evaluation: the bits of the validation loss that training recorded, on every layout, in the predicted memory; errors
// that all ranks share.
#include "tests/engine/small_run.h"
#include "tests/night.h"

#include "libtrain/base/read_file.h"
#include "libtrain/comm/agreement.h"
#include "libtrain/engine/evaluate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>

using namespace trainyard;
using trainyard::testing::ParallelLayout;
using trainyard::testing::SmallRun;

namespace {

std::string name_of(const ParallelLayout& layout) {
  return fmt::format("{} ranks, ZeRO {}, tensor {}{}, {} stages of {} chunks, {}, {}, {}", layout.ranks, layout.zero,
                     layout.tensor, layout.sequence_parallel ? " with rows" : "", layout.pipeline,
                     layout.virtual_stages, layout.schedule, layout.partition, layout.dtype);
}

// Evaluates on every rank of `layout`, in the dtype of the checkpoint unless `c` names another. All ranks must agree;
// returns what rank 0 found.
engine::Evaluation evaluate(engine::EvaluateConfig c, const ParallelLayout& layout,
                            const engine::EvaluateWatch& watch = {}) {
  const auto dtype = c.run.dtype;
  SmallRun::apply(layout, c.run);
  c.run.dtype = dtype, c.run.device = "cpu", c.run.hang_timeout = 120;
  std::vector<engine::Evaluation> found(static_cast<std::size_t>(layout.ranks));
  comm::run_ranks(layout.ranks, [&](int rank, comm::ThreadsWorld& world) {
    auto w = engine::make_world("threads", rank,
                                plan::replicas_of(layout.ranks, layout.tensor, layout.pipeline, layout.experts),
                                world.factory(rank));
    found[static_cast<std::size_t>(rank)] = engine::evaluate(c, w, rank == 0 ? watch : nullptr);
  });
  for (const auto& e : found) {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(e.loss), std::bit_cast<std::uint64_t>(found[0].loss)) << name_of(layout);
    EXPECT_EQ(e.bytes, found[0].bytes) << name_of(layout);
    EXPECT_EQ(e.measured, e.predicted) << name_of(layout);
  }
  return found[0];
}

// Every number of an evaluation, as text.
std::string all_of(const engine::Evaluation& e) {
  return fmt::format("{:a} {:a} {:a} {} {} {} {} {}", e.loss, e.perplexity(), e.bits_per_byte(), e.tokens, e.bytes,
                     e.unmeasured, e.sequences, e.dtype);
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
    for (const ParallelLayout& layout : {ParallelLayout{1, 0}, ParallelLayout{3, 1}, ParallelLayout{2, 0, 2},
                                         ParallelLayout{3, 3}, ParallelLayout{7, 2}, ParallelLayout{1, 3}}) {
      const auto found = evaluate(e, layout);
      EXPECT_EQ(found.loss, recorded) << dtype << " on " << layout.ranks << " ranks, ZeRO " << layout.zero;
      EXPECT_EQ(found.dtype, dtype);
      EXPECT_EQ(found.document_mask, mask);
      EXPECT_EQ(found.step, 6);
    }
  }
}

// One checkpoint of a tied model and one of an untied model; pipeline stages wrote the second. By day a layout has one
// of the two dtypes.
TEST(Evaluate, StagesSayWhatOneRankSays) {
  SmallRun runs;
  for (const auto& [model, trained] : {std::pair{runs.gpt(), ParallelLayout{1}},
                                       std::pair{runs.llama(), ParallelLayout{4, 1, 1, "f32", "none", 2, false, 2}}}) {
    auto c = runs.config(trained.ranks == 1 ? "tied" : "untied");
    c.model = model, c.steps = 3, c.document_mask = "on";
    runs.run(c, trained);
    engine::EvaluateConfig e;
    e.checkpoint = c.output, e.given = {"dtype", "micro-batch"}, e.sequences = 37, e.run.micro_batch = 4;
    for (const auto dtype : {base::DType::f32, base::DType::bf16}) {
      e.run.dtype = dtype;
      const auto one = evaluate(e, {});
      ASSERT_EQ(one.sequences, 37);
      const auto same = [&](const ParallelLayout& layout) {
        const bool of_f32 = (layout.pipeline + layout.tensor + layout.zero) % 2 == 0;
        if (!trainyard::testing::at_night() && of_f32 != (dtype == base::DType::f32)) return;
        EXPECT_EQ(all_of(evaluate(e, layout)), all_of(one)) << name_of(layout);
      };
      for (const int stages : {1, 2, 3, 4})
        for (const int tensor : {1, 2})
          for (const int zero : {0, 3})
            for (const int data : {1, 3}) {
              ParallelLayout layout{stages * tensor * data, zero};
              layout.pipeline = stages, layout.tensor = tensor, layout.sequence_parallel = tensor > 1 && data == 1;
              same(layout);
            }
      for (const auto& [partition, stages] :
           {std::pair{"uniform", 3}, std::pair{"parameters", 3}, std::pair{"type:layers", 2}, std::pair{"0,1", 2},
            std::pair{"0,3", 2}, std::pair{"0,1,3", 3}}) {
        ParallelLayout layout{stages, 1};
        layout.pipeline = stages, layout.partition = partition;
        same(layout);
      }
      for (const char* schedule : {"naive", "gpipe", "interleaved"}) {
        ParallelLayout layout{4, 3};
        layout.pipeline = 2, layout.schedule = schedule,
        layout.virtual_stages = schedule == std::string("interleaved") ? 2 : 1;
        same(layout);
      }
    }
  }
}

TEST(Evaluate, ProgressEndsWithAllAndItsLossIsTheResult) {
  SmallRun runs;
  auto c = runs.config("watched");
  c.steps = 1;
  runs.run(c, {});
  engine::EvaluateConfig e;
  e.checkpoint = c.output, e.sequences = 53, e.given = {"micro-batch"}, e.run.micro_batch = 2;
  for (const int stages : {1, 3}) {
    std::vector<std::pair<std::int64_t, double>> told;
    ParallelLayout layout{2 * stages};
    layout.pipeline = stages;
    const auto found = evaluate(e, layout, [&](std::int64_t done, std::int64_t all, double loss) {
      EXPECT_EQ(all, 53);
      told.emplace_back(done, loss);
    });
    ASSERT_GT(told.size(), 3u);
    EXPECT_TRUE(
        std::is_sorted(told.begin(), told.end(), [](const auto& a, const auto& b) { return a.first < b.first; }));
    EXPECT_EQ(told.back().first, 53);
    EXPECT_EQ(told.back().second, found.loss);
    EXPECT_EQ(std::count_if(told.begin(), told.end(), [](const auto& t) { return t.first == 53; }), 1);
  }
}

TEST(Evaluate, AStageNeedsWhatIsPredictedOfItAndNoMore) {
  SmallRun runs;
  auto c = runs.config("fits");
  c.steps = 1;
  c.model = runs.model("wide", "layers = 6\nhidden = 128\nheads = 1\nkv-heads = 1\nffn = 512\ncontext = 32\n");
  runs.run(c, {});
  engine::EvaluateConfig e;
  e.checkpoint = c.output, e.sequences = 2;
  const auto whole = evaluate(e, {1});
  ParallelLayout layout{4};
  layout.pipeline = 4;
  const auto stage = evaluate(e, layout);
  EXPECT_LT(stage.predicted.total(), whole.predicted.total());
  // The limit is compared with the stage that needs most memory; the hint names a layout that would fit.
  e.run.memory_limit = "422000000";
  try {
    evaluate(e, {4});
    ADD_FAILURE() << "a model that does not fit was evaluated";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::ExitCode::input_refused);
    EXPECT_NE(error.hint().find("--pipeline-parallel 4 would need"), std::string::npos) << error.what() << error.hint();
  }
  EXPECT_EQ(evaluate(e, layout).loss, whole.loss);
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
        engine::evaluate(e, w, {});
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
  // A list without values has a word.
  e.run.model =
      runs.model("experts", "layers = 3\nhidden = 32\nheads = 4\nffn = 32\ncontext = 32\nexperts-count = 2\n");
  refused("experts-count: the checkpoint has none, ");
  e.given = {};
  // Damages a block that only one rank reads: the part of the last rank.
  const auto file = checkpoint + "/rank-00001.h5";
  auto bytes = base::read_file(file);
  const auto payload = checkpoint::Reader(checkpoint).manifest().files.at("rank-00001.h5").payloads.at("/model");
  bytes[static_cast<std::size_t>(payload.offset + payload.bytes - 4)] ^= 1;
  base::write_file(file, bytes);
  refused("rank-00001.h5");
}

// With two experts a step's metrics have the choices of both. Steps that change no weight read each window once, and an
// evaluation of the same windows counts as many choices, on every layout, also where ranks repeat a micro-batch.
TEST(Evaluate, CountsTheChoicesOfExperts) {
  SmallRun runs;
  auto c = runs.config("experts");
  c.model = runs.model("two-experts",
                       "layers = 3\nhidden = 32\nheads = 4\nffn = 64\ncontext = 32\n[experts]\ncount = 2\n"
                       "dense-layers = 1\n");
  c.micro_batch = 2, c.global_batch = 8, c.steps = 29, c.learning_rate = 1e-30;
  runs.run(c, {2, 1});
  std::vector<std::vector<std::int64_t>> counted(2, std::vector<std::int64_t>(2));
  for (const auto& line : SmallRun::metrics(c))
    for (std::size_t i = 0; i < 2; ++i) {
      const auto& layer = line["experts"]["layers"][i];
      const std::int64_t choices = layer["kept"].get<std::int64_t>() + layer["dropped"].get<std::int64_t>(),
                         most = std::llround(layer["fullest"].get<double>() * static_cast<double>(choices) / 2),
                         first = layer["fullest_expert"].get<std::int64_t>();
      counted[i][static_cast<std::size_t>(first)] += most;
      counted[i][static_cast<std::size_t>(1 - first)] += choices - most;
    }
  engine::EvaluateConfig e;
  e.checkpoint = c.output, e.split = "train";
  ParallelLayout tensor{2}, stages{4}, dealt{2, 1};
  tensor.tensor = 2, stages.pipeline = 2, dealt.experts = 2;
  for (const auto& layout : {ParallelLayout{1}, ParallelLayout{2, 3}, ParallelLayout{5, 1}, tensor, stages, dealt}) {
    const auto found = evaluate(e, layout);
    EXPECT_EQ(found.sequences, 8 * 29) << name_of(layout);
    ASSERT_TRUE(found.gates) << name_of(layout);
    ASSERT_EQ(found.gates->layers.size(), 2u) << name_of(layout);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(found.gates->layers[i].layer, static_cast<std::int64_t>(i) + 1) << name_of(layout);
      EXPECT_EQ(found.gates->layers[i].choices, counted[i]) << name_of(layout);
    }
  }
  e.sequences = 3;  // the second micro-batch is filled up with one more
  EXPECT_EQ(evaluate(e, {3}).gates->layers[0].choices, evaluate(e, {1}).gates->layers[0].choices);
  e.checkpoint = (runs.folder() / "dense").string();
  auto dense = runs.config("dense");
  dense.steps = 1;
  runs.run(dense, {1});
  EXPECT_FALSE(evaluate(e, {1}).gates);
}
