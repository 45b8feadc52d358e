// Evaluation with streamed weights: the bits of weights that are kept, in the predicted memory and with the predicted
// reads, on every layout; and checkpoints that are damaged, cut short or removed while they are read.
#include "tests/engine/small_run.h"

#include "libtrain/base/read_file.h"
#include "libtrain/comm/agreement.h"
#include "libtrain/engine/evaluate.h"
#include "libtrain/plan/blocks/inventory.h"

#include <gtest/gtest.h>

#include <bit>

using namespace trainyard;
using trainyard::testing::ParallelLayout;
using trainyard::testing::SmallRun;

namespace streamed_weights_test {

std::string layout_text(const ParallelLayout& c) {
  return fmt::format("{} ranks, ZeRO {}, tensor {}{}, {} stages of {} chunks, {} by {} experts, {}", c.ranks, c.zero,
                     c.tensor, c.sequence_parallel ? " with rows" : "", c.pipeline, c.virtual_stages, c.schedule,
                     c.experts, c.dtype);
}

engine::Evaluation evaluate(engine::EvaluateConfig c, const ParallelLayout& layout,
                            const engine::EvaluateWatch& watch = {}) {
  const auto dtype = c.run.dtype;
  const auto gathered = c.run.gathered_layers;
  SmallRun::apply(layout, c.run);
  c.run.dtype = dtype, c.run.gathered_layers = gathered, c.run.device = "cpu", c.run.hang_timeout = 120;
  std::vector<engine::Evaluation> found(static_cast<std::size_t>(layout.ranks));
  comm::run_ranks(layout.ranks, [&](int rank, comm::ThreadsWorld& world) {
    auto w = engine::make_world(
        "threads", rank,
        plan::replicas_of(layout.ranks, layout.tensor, layout.pipeline, layout.experts, layout.expert_ranks_per_node),
        world.factory(rank));
    found[static_cast<std::size_t>(rank)] = engine::evaluate(c, w, rank == 0 ? watch : nullptr);
  });
  for (const auto& e : found) {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(e.loss), std::bit_cast<std::uint64_t>(found[0].loss)) << layout_text(layout);
    EXPECT_EQ(e.measured, e.predicted) << layout_text(layout);
    EXPECT_EQ(e.streamed.has_value(), c.stream_weights);
    if (!e.streamed) continue;
    EXPECT_EQ(e.streamed->read, e.streamed->predicted) << layout_text(layout);
    EXPECT_GT(e.streamed->block_bytes, 0) << layout_text(layout);
    EXPECT_EQ(e.measured[base::MemoryCategory::parameters], 0);
    EXPECT_GT(e.measured[base::MemoryCategory::gathered_weights], 0);
  }
  return found[0];
}

engine::EvaluateConfig streamed(engine::EvaluateConfig c) {
  c.stream_weights = true;
  return c;
}

ParallelLayout layout(int ranks, int zero, int tensor = 1, int stages = 1, int experts = 1) {
  ParallelLayout out{ranks, zero};
  out.tensor = tensor, out.sequence_parallel = tensor > 1 && zero > 0, out.pipeline = stages, out.experts = experts;
  return out;
}

ParallelLayout interleaved(int ranks, int zero) {
  auto out = layout(ranks, zero, 1, 2);
  out.schedule = "interleaved", out.virtual_stages = 2;
  return out;
}

struct Case {
  std::string model;
  ParallelLayout trained;
  std::vector<ParallelLayout> layouts;
};

// A tied model, an untied one in bf16 that pipeline stages wrote, and one with experts that two ranks divided.
std::vector<Case> cases(const SmallRun& runs) {
  const auto experts = runs.model("experts",
                                  "layers = 4\nhidden = 32\nheads = 4\nkv-heads = 4\nffn = 32\ncontext = 32\n"
                                  "[experts]\ncount = 4\nevery = 2\ntop-k = 2\n");
  auto narrow = layout(2, 1, 1, 2);
  narrow.dtype = "bf16";
  return {{runs.gpt(),
           layout(1, 0),
           {layout(1, 0), layout(3, 1), layout(2, 0, 2), layout(2, 3), layout(2, 0, 1, 2), layout(3, 3, 1, 3),
            layout(8, 2, 2, 2), interleaved(4, 0)}},
          {runs.llama(), narrow, {layout(1, 3), layout(2, 1, 2), layout(4, 3, 1, 2), layout(7, 0), interleaved(2, 3)}},
          {experts,
           layout(2, 0, 1, 1, 2),
           {layout(1, 0), layout(2, 0, 1, 1, 2), layout(4, 3, 2, 1, 2), layout(4, 1, 1, 2, 2)}}};
}

TEST(StreamedEvaluation, HasTheBitsOfKeptWeightsOnEveryLayout) {
  SmallRun runs;
  int number = 0;
  for (const auto& [model, trained, layouts] : cases(runs)) {
    auto c = runs.config(fmt::format("trained-{}", number++));
    c.model = model, c.steps = 3, c.micro_batch = 4, c.global_batch = 16, c.learning_rate = 1e-3;
    runs.run(c, trained);
    for (const auto dtype : {base::DType::f32, base::DType::bf16}) {
      engine::EvaluateConfig e;
      e.checkpoint = c.output, e.sequences = 21, e.run.dtype = dtype, e.given = {"dtype"};
      const auto kept = evaluate(e, {});
      for (const auto& on : layouts) EXPECT_EQ(evaluate(streamed(e), on).loss, kept.loss) << model << layout_text(on);
    }
  }
}

// The bytes of a model by its number of parameters, which the planner adds up in another way.
TEST(StreamedEvaluation, ReadsEveryWeightOnceAndLayersInEveryPass) {
  SmallRun runs;
  auto c = runs.config("counted");
  c.model = runs.model("deep", "layers = 5\nhidden = 32\nheads = 4\nkv-heads = 4\nffn = 64\ncontext = 32\n");
  c.steps = 1, c.dtype = base::DType::bf16;
  ParallelLayout narrow;
  narrow.dtype = "bf16";
  const auto checkpoint = runs.run(c, narrow).checkpoint;
  const auto model = checkpoint::read_state(checkpoint).model;
  std::int64_t layers = 0;
  for (const auto& flat_group : plan::flat_groups(model))
    if (flat_group.part == plan::Part::layers)
      for (const auto& p : flat_group.parameters) layers += p.count();
  engine::EvaluateConfig e;
  e.checkpoint = c.output, e.sequences = 12, e.given = {"micro-batch"}, e.run.micro_batch = 2;
  const auto all = 2 * plan::parameter_count(model);
  for (const int ranks : {1, 2, 3}) {
    const auto found = *evaluate(streamed(e), layout(ranks, 0)).streamed;
    EXPECT_EQ(found.first_step, all) << ranks;
    EXPECT_EQ(found.later_step, 2 * layers) << ranks;
    EXPECT_EQ(found.read, all + (6 / ranks - 1) * 2 * layers) << ranks;
  }
  // Larger micro-batches read less, and as many slots as layers read nothing again.
  e.run.micro_batch = 6;
  EXPECT_EQ(evaluate(streamed(e), {}).streamed->read, all + 2 * layers);
  e.run.micro_batch = 1, e.run.gathered_layers = 5, e.given.insert("gathered-layers");
  EXPECT_EQ(evaluate(streamed(e), {}).streamed->read, all);
}

TEST(StreamedEvaluation, NeedsLessMemoryAndIsARemedy) {
  SmallRun runs;
  auto c = runs.config("large");
  c.steps = 1;
  c.model = runs.model("wide", "layers = 8\nhidden = 256\nheads = 1\nkv-heads = 1\nffn = 1024\ncontext = 32\n");
  runs.run(c, {});
  engine::EvaluateConfig e;
  e.checkpoint = c.output, e.sequences = 4;
  const auto kept = evaluate(e, {}), lean = evaluate(streamed(e), {});
  EXPECT_EQ(lean.loss, kept.loss);
  EXPECT_LT(2 * lean.predicted.total(), kept.predicted.total());
  e.run.memory_limit = fmt::format("{}", (std::int64_t{400} << 20) + 2 * lean.predicted.total());
  try {
    evaluate(e, {});
    ADD_FAILURE() << "a model that does not fit was evaluated";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::ExitCode::input_refused);
    EXPECT_NE(error.hint().find("stream-weights would need"), std::string::npos) << error.what() << error.hint();
  }
  EXPECT_EQ(evaluate(streamed(e), {}).loss, kept.loss);
  e.run.memory_limit = "401MiB";
  EXPECT_THROW(evaluate(streamed(e), {}), base::Error);
}

// Damages a checkpoint once the first micro-batch is done, and expects that the evaluation ends with exit code 3.
struct Fault {
  const char* name;
  std::function<void(const std::string& checkpoint)> make;
  const char* part;  // of the message
};

TEST(StreamedEvaluation, ACheckpointThatChangesMeanwhileIsRefused) {
  SmallRun runs;
  const auto payload_of = [](const std::string& checkpoint) {
    return checkpoint::Reader(checkpoint).manifest().files.at("rank-00000.h5").payloads.at("/model");
  };
  const Fault faults[] = {
      {"damaged",
       [&](const std::string& checkpoint) {
         const auto payload = payload_of(checkpoint);
         std::fstream file(checkpoint + "/rank-00000.h5", std::ios::in | std::ios::out | std::ios::binary);
         file.seekp(payload.offset + payload.bytes / 2);
         file.put('\x55').put('\xaa').put('\x01');
       },
       "is damaged between bytes"},
      {"cut-short",
       [&](const std::string& checkpoint) {
         std::filesystem::resize_file(checkpoint + "/rank-00000.h5",
                                      static_cast<std::uintmax_t>(payload_of(checkpoint).offset + 5));
       },
       "ends at byte"},
      {"removed", [](const std::string& checkpoint) { std::filesystem::remove_all(checkpoint); },
       "was removed or renamed while it was read"},
      {"replaced",
       [](const std::string& checkpoint) {
         std::filesystem::rename(checkpoint, checkpoint + ".old");
         std::filesystem::copy(checkpoint + ".old", checkpoint);
       },
       "was removed or renamed while it was read"}};
  for (const auto& fault : faults)
    for (const int ranks : {1, 2}) {
      auto c = runs.config(fmt::format("{}-{}", fault.name, ranks));
      // Of several blocks: a reader keeps the last block that it read.
      c.model = runs.model("blocks", "layers = 5\nhidden = 128\nheads = 4\nkv-heads = 4\nffn = 512\ncontext = 32\n");
      c.steps = 1;
      const auto checkpoint = runs.run(c, {}).checkpoint;
      engine::EvaluateConfig e;
      e.checkpoint = checkpoint, e.sequences = 30;
      int reports = 0;
      try {
        evaluate(streamed(e), layout(ranks, 0), [&](std::int64_t, std::int64_t, double) {
          if (reports++ == 0) fault.make(checkpoint);
        });
        ADD_FAILURE() << fault.name << ": not refused on " << ranks << " ranks";
      } catch (const base::Error& error) {
        EXPECT_EQ(error.code(), base::ExitCode::input_refused) << error.what();
        EXPECT_NE(std::string(error.what()).find(fault.part), std::string::npos) << fault.name << ": " << error.what();
      }
      EXPECT_GT(reports, 0) << fault.name;
      EXPECT_LT(reports, 20) << fault.name;
    }
}

}  // namespace streamed_weights_test
