// Whole runs on a GPU: the losses of the CPU up to rounding, the same bits on every layout, predicted memory, and
// checkpoints that move from one device to the other.
#include "libtrain/tensor/gpu.h"
#include "libtrain/engine/evaluate.h"
#include "tests/engine/reports.h"
#include "tests/engine/small_run.h"
#include "tests/gpu_main.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

namespace trainyard {
namespace {

using testing::ParallelLayout;
using testing::SmallRun;

engine::RunConfig tiny(SmallRun& runs, const std::string& output, const std::string& model) {
  auto c = runs.config(output);
  c.model = model;
  c.device = "cuda";
  c.steps = 4;
  c.global_batch = 3;
  c.learning_rate = 0.01;
  return c;
}

std::string gpt(SmallRun& runs) {
  return runs.model("gpu-gpt",
                    "layers = 2\nhidden = 16\nheads = 2\nkv-heads = 2\nffn = 32\ncontext = 8\ndropout-embedding = "
                    "0.1\ndropout-attention = 0.1\n"
                    "dropout-attention-residual = 0.1\ndropout-ffn-residual = 0.1\n");
}
std::string llama(SmallRun& runs) {
  return runs.model("gpu-llama",
                    "layers = 1\nhidden = 16\nheads = 2\nkv-heads = 1\nffn = 32\ncontext = 8\nnorm = "
                    "\"rms\"\npositions = \"rotary\"\nactivation = \"geglu-tanh\"\n"
                    "biases = \"off\"\ntied = \"off\"\nnorm-position = \"sandwich\"\nnorm-offset = 1\n"
                    "embedding-scale = 4\nlogit-softcap = 3\n");
}

// Weights that are read into host memory and copied have the bits of weights that stay on the device.
TEST(Gpu, StreamedWeightsAreThoseThatAreKept) {
  SmallRun runs;
  const auto deep = runs.model("gpu-deep", "layers = 5\nhidden = 16\nheads = 2\nkv-heads = 2\nffn = 32\ncontext = 8\n");
  const auto c = tiny(runs, "streamed", deep);
  runs.run(c, {2, 1});
  for (const auto dtype : {base::DType::f32, base::DType::bf16})
    for (const auto& layout : {ParallelLayout{1}, ParallelLayout{2, 3}, ParallelLayout{2, 0, 1, "f32", "none", 2}}) {
      const auto evaluate = [&](bool stream) {
        engine::EvaluateConfig e;
        e.checkpoint = c.output, e.sequences = 9, e.given = {"dtype"}, e.stream_weights = stream;
        SmallRun::apply(layout, e.run);
        e.run.dtype = dtype, e.run.device = "cuda", e.run.hang_timeout = 120;
        std::vector<engine::Evaluation> found(static_cast<std::size_t>(layout.ranks));
        comm::run_ranks(layout.ranks, [&](int rank, comm::ThreadsWorld& world) {
          auto w =
              engine::make_world("threads", rank, plan::replicas_of(layout.ranks, layout.tensor), world.factory(rank));
          found[static_cast<std::size_t>(rank)] = engine::evaluate(e, w, {});
        });
        for (const auto& f : found) EXPECT_EQ(f.measured, f.predicted);
        return found[0];
      };
      const auto kept = evaluate(false), streamed = evaluate(true);
      EXPECT_EQ(streamed.loss, kept.loss) << layout.ranks << " ranks, " << base::name_of(dtype);
      EXPECT_EQ(streamed.streamed->read, streamed.streamed->predicted);
      EXPECT_EQ(streamed.measured[base::MemoryCategory::parameters], 0);
      EXPECT_EQ(streamed.measured[base::MemoryCategory::save_snapshot],
                streamed.measured[base::MemoryCategory::gathered_weights]);
    }
}

// The choices of experts are counted on the device, by tensor-parallel ranks once. Rounding may move a choice.
TEST(Gpu, EvaluationsCountTheChoicesOfExperts) {
  SmallRun runs;
  const auto model =
      runs.model("gpu-experts", "layers = 2\nhidden = 16\nheads = 2\nffn = 32\ncontext = 8\n[experts]\ncount = 4\n");
  const auto c = tiny(runs, "counted", model);
  runs.run(c, {1});
  const auto counted = [&](const char* device, const ParallelLayout& layout) {
    engine::EvaluateConfig e;
    e.checkpoint = c.output, e.sequences = 9;
    SmallRun::apply(layout, e.run);
    e.run.dtype = base::DType::f32, e.run.device = device, e.run.hang_timeout = 120;
    std::vector<std::vector<std::int64_t>> found;
    comm::run_ranks(layout.ranks, [&](int rank, comm::ThreadsWorld& world) {
      auto w = engine::make_world("threads", rank, plan::replicas_of(layout.ranks, layout.tensor), world.factory(rank));
      const auto evaluation = engine::evaluate(e, w, {});
      if (rank > 0) return;
      for (const auto& layer : evaluation.gates->layers) found.push_back(layer.choices);
    });
    return found;
  };
  const auto expected = counted("cpu", {1});
  ASSERT_EQ(expected.size(), 2u);
  for (const auto& layer : expected) EXPECT_GE(std::accumulate(layer.begin(), layer.end(), std::int64_t{0}), 9 * 8);
  ParallelLayout tensor{2};
  tensor.tensor = 2;
  for (const auto& layout : {ParallelLayout{1}, ParallelLayout{2, 3}, tensor}) {
    const auto found = counted("cuda", layout);
    ASSERT_EQ(found.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t expert = 0; expert < 4; ++expert)
        EXPECT_NEAR(static_cast<double>(found[i][expert]), static_cast<double>(expected[i][expert]), 2)
            << layout.ranks << " ranks, layer " << i << ", expert " << expert;
  }
}

TEST(Gpu, LossesAreThoseOfTheCpu) {
  SmallRun runs;
  int n = 0;
  for (const auto& model : {gpt(runs), llama(runs)})
    for (const std::string dtype : {"f32", "bf16", "f16"}) {
      auto gpu = tiny(runs, fmt::format("gpu-{}", n), model), cpu = tiny(runs, fmt::format("cpu-{}", n++), model);
      cpu.device = "cpu";
      gpu.document_mask = cpu.document_mask = "on";
      runs.run(gpu, {1, 0, 1, dtype});
      runs.run(cpu, {1, 0, 1, dtype});
      const auto a = SmallRun::metrics(gpu), b = SmallRun::metrics(cpu);
      ASSERT_EQ(a.size(), b.size());
      for (std::size_t i = 0; i < a.size(); ++i) {
        if (!b[i]["gradient_norm"].is_number()) {  // f16 overflows while the loss scale is too large
          EXPECT_EQ(a[i]["gradient_norm"], b[i]["gradient_norm"]) << model << " " << dtype << " step " << i + 1;
          continue;
        }
        const double loss = b[i]["loss"], norm = b[i]["gradient_norm"];
        EXPECT_NEAR(a[i]["loss"].get<double>(), loss, (dtype == "f32" ? 1e-5 : 2e-2) * loss)
            << model << " " << dtype << " step " << i + 1;
        EXPECT_NEAR(a[i]["gradient_norm"].get<double>(), norm, (dtype == "f32" ? 1e-4 : 5e-2) * norm)
            << model << " " << dtype << " step " << i + 1;
      }
    }
}

TEST(Gpu, TheSameBitsOnEveryCut) {
  SmallRun runs;
  std::string expected;
  int n = 0;
  for (const auto& layout :
       std::vector<ParallelLayout>{{1, 0, 1}, {1, 3, 1, "f32", "full"}, {2, 0, 1}, {2, 1, 1}, {2, 2, 1}, {3, 3, 1}}) {
    auto config = tiny(runs, fmt::format("cut-{}", n++), gpt(runs));
    if (layout.zero == 3) config.gathered_layers = 1;  // so that layers share one buffer in turn
    const auto bits = runs.bits(config, runs.run(config, layout));
    if (expected.empty()) expected = bits;
    EXPECT_EQ(bits, expected) << layout.ranks << " ranks, ZeRO " << layout.zero;
    testing::expect_no_difference(runs.reports(), fmt::format("{} ranks, ZeRO {}", layout.ranks, layout.zero));
  }
}

// Also where a resume joins masters of what it reads, and a checkpoint of what it writes.
TEST(Gpu, RemaindersGiveTheBitsOfF32Masters) {
  SmallRun runs;
  std::string expected;
  int n = 0;
  for (const auto master : {plan::MasterFormat::f32, plan::MasterFormat::remainder})
    for (const auto& layout : std::vector<ParallelLayout>{{1, 0, 1, "bf16"}, {2, 0, 1, "bf16"}, {3, 3, 1, "bf16"}}) {
      auto config = tiny(runs, fmt::format("masters-{}", n++), gpt(runs));
      config.master = master, config.weight_decay = 0.1, config.stop_after = 2;
      runs.run(config, layout);
      config.stop_after = 0;
      const auto bits = runs.bits(config, runs.run(config, layout));
      if (expected.empty()) expected = bits;
      EXPECT_EQ(bits, expected) << layout.ranks << " ranks, ZeRO " << layout.zero;
      testing::expect_no_difference(runs.reports(), fmt::format("{} ranks, ZeRO {}", layout.ranks, layout.zero));
    }
}

// The products of its iterations are the device's. Scratch is that of the plan, too.
TEST(Gpu, MuonIsThatOfTheCpuWithTheSameBitsOnEveryCut) {
  SmallRun runs;
  const auto config = [&](const std::string& output) {
    auto c = tiny(runs, output, gpt(runs));
    c.optimizer = "muon", c.momentum = 0.95, c.nesterov = true;
    return c;
  };
  auto cpu = config("muon-cpu");
  cpu.device = "cpu";
  runs.run(cpu, {1, 0, 1});
  std::string expected;
  int n = 0;
  for (const auto& layout : std::vector<ParallelLayout>{{1, 0, 1}, {2, 0, 1}, {2, 1, 1}, {3, 3, 1}}) {
    const auto c = config(fmt::format("muon-{}", n++));
    const auto bits = runs.bits(c, runs.run(c, layout));
    if (expected.empty()) expected = bits;
    EXPECT_EQ(bits, expected) << layout.ranks << " ranks, ZeRO " << layout.zero;
    testing::expect_no_difference(runs.reports(), fmt::format("{} ranks, ZeRO {}", layout.ranks, layout.zero));
    const auto a = SmallRun::metrics(c), b = SmallRun::metrics(cpu);
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i)
      EXPECT_NEAR(a[i]["loss"].get<double>(), b[i]["loss"].get<double>(), 1e-4) << "step " << i + 1;
  }
}

// Tensor-parallel ranks. Equal lanes give equal bits where products do not depend on their shapes, as on the emulator.
// A library that chooses by shape can only be close.
TEST(Gpu, TensorRanksAreOneRank) {
  SmallRun runs;
  const auto config = [&](const std::string& output) {
    auto c = tiny(runs, output,
                  runs.model("gpu-lanes",
                             "layers = 1\nhidden = 16\nheads = 2\nkv-heads = 2\nffn = 32\ncontext = 8\nlanes = "
                             "2\ndropout-attention = 0.1\ndropout-ffn-residual = 0.1\n"));
    c.steps = 2;
    return c;
  };
  const auto one = config("one"), layout = config("cut");
  const auto expected = runs.bits(one, runs.run(one, {1, 0, 1}));
  const auto bits = runs.bits(layout, runs.run(layout, {4, 3, 1, "f32", "full", 2}));
  if (std::string(tensor::gpu_module().runtime->name) == "emulated") {
    EXPECT_EQ(bits, expected);
  }
  const auto a = SmallRun::metrics(layout), b = SmallRun::metrics(one);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(a[i]["loss"].get<double>(), b[i]["loss"].get<double>(), 1e-4) << "step " << i + 1;
  testing::expect_no_difference(runs.reports(), "tensor ranks");
}

TEST(Gpu, StagesAreOneRank) {
  SmallRun runs;
  const auto config = [&](const std::string& output) {
    auto c = tiny(runs, output,
                  runs.model("gpu-stages",
                             "layers = 2\nhidden = 16\nheads = 2\nkv-heads = 2\nffn = 32\ncontext = "
                             "8\ndropout-attention = 0.1\ndropout-ffn-residual = 0.1\n"));
    c.steps = 3, c.validate_every = 2, c.validation_sequences = 2;
    return c;
  };
  const auto one = config("one");
  const auto expected = runs.bits(one, runs.run(one, {}));
  for (const auto& [ranks, stages, chunks, schedule, zero] :
       {std::tuple{2, 2, 1, "1f1b", 0}, {4, 2, 1, "gpipe", 3}, {2, 2, 2, "interleaved", 1}}) {
    const auto c = config(fmt::format("stages-{}-{}", schedule, zero));
    ParallelLayout layout{ranks, zero};
    layout.pipeline = stages, layout.virtual_stages = chunks, layout.schedule = schedule;
    EXPECT_EQ(runs.bits(c, runs.run(c, layout)), expected) << schedule;
    testing::expect_no_difference(runs.reports(), schedule,
                                  [four = ranks == 4](std::size_t rank) { return four && rank % 2 == 1; });
  }
}

// Gates choose on the device, and a step does not wait for the number of rows of an expert.
TEST(Gpu, ExpertsAreThoseOfTheCpuWithTheSameBitsOnEveryCut) {
  SmallRun runs;
  const auto config = [&](const std::string& output) {
    auto c = tiny(runs, output,
                  runs.model("gpu-experts",
                             "layers = 2\nhidden = 16\nheads = 2\nkv-heads = 2\nffn = 32\ncontext = 8\nlanes = 1\n"
                             "dropout-ffn-residual = 0.1\nexperts-count = 4\nexperts-every = 2\nexperts-top-k = 2\n"
                             "experts-shared = 1\nexperts-capacity-factor = 1\nexperts-min-capacity = 1\n"
                             "experts-score = \"sigmoid\"\n"));
    c.global_batch = 10, c.steps = 3, c.validate_every = 2, c.validation_sequences = 2;
    return c;
  };
  auto one = config("one"), layout = config("cut"), cpu = config("cpu");
  cpu.device = "cpu";
  const auto expected = runs.bits(one, runs.run(one, {1, 0, 1}));
  testing::expect_no_difference(runs.reports(), "one rank");
  EXPECT_EQ(runs.bits(layout, runs.run(layout, {3, 3, 1, "f32", "selective"})), expected);
  testing::expect_no_difference(runs.reports(), "three ranks");
  // Expert parallelism, where one rank idles in the last accumulation step: in overlap chunks, and beside tensor
  // parallelism.
  for (const auto& [ranks, experts, chunks, tensor] : {std::tuple{2, 2, 2, 1}, {4, 2, 1, 1}, {4, 2, 1, 2}}) {
    auto shared = config(fmt::format("shared-{}-{}", ranks, tensor));
    shared.micro_batch = tensor == 2 ? 1 : shared.micro_batch;
    ParallelLayout of{ranks, ranks == 2 ? 3 : 1, 1, "f32", ranks == 2 ? "full" : "none", tensor};
    of.experts = experts, of.expert_overlap_chunks = chunks;
    if (tensor == 1) {
      EXPECT_EQ(runs.bits(shared, runs.run(shared, of)), expected);
    } else {
      runs.run(shared, of);  // with one lane each tensor-parallel degree has bits of its own
      const auto a = SmallRun::metrics(shared), b = SmallRun::metrics(one);
      for (std::size_t i = 0; i < b.size(); ++i)
        EXPECT_NEAR(a.at(i)["loss"].get<double>(), b[i]["loss"].get<double>(), 1e-4) << "step " << i + 1;
    }
    testing::expect_no_difference(runs.reports(), fmt::format("experts over {}", experts));
  }
  // Hierarchical all-to-all; the device puts the rows in order between the two hops.
  auto whole = config("whole"), nodes = config("nodes");
  whole.global_batch = nodes.global_batch = 6;
  ParallelLayout of{4, 1};
  of.experts = 4, of.expert_ranks_per_node = 2;
  const auto wanted = runs.bits(whole, runs.run(whole, {1, 0, 1}));
  EXPECT_EQ(runs.bits(nodes, runs.run(nodes, of)), wanted);
  testing::expect_no_difference(runs.reports(), "nodes of two");
  runs.run(cpu, {1, 0, 1});
  const auto there = SmallRun::metrics(one), here = SmallRun::metrics(cpu);
  ASSERT_EQ(there.size(), here.size());
  for (std::size_t i = 0; i < here.size(); ++i) {
    EXPECT_NEAR(there[i]["loss"].get<double>(), here[i]["loss"].get<double>(), 1e-4) << "step " << i + 1;
    EXPECT_GT(there[i]["experts"]["layers"][0]["dropped"].get<int>(), 0);
  }
}

TEST(Gpu, CheckpointsGoFromDeviceToDevice) {
  SmallRun runs;
  auto whole = tiny(runs, "whole", gpt(runs));
  runs.run(whole, {1, 0, 1});
  const auto expected = SmallRun::metrics(whole);
  for (const auto& [first, second] :
       std::vector<std::pair<std::string, std::string>>{{"cpu", "cuda"}, {"cuda", "cpu"}}) {
    auto c = tiny(runs, "from-" + first, gpt(runs));
    c.device = first;
    c.stop_after = 2;
    runs.run(c, {2, 2, 1});
    c.device = second;
    c.stop_after = 0;
    EXPECT_EQ(runs.run(c, {1, 1, 1}).code, base::ExitCode::done);
    const auto metrics = SmallRun::metrics(c);
    ASSERT_EQ(metrics.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_NEAR(metrics[i]["loss"].get<double>(), expected[i]["loss"].get<double>(), 1e-4)
          << first << " to " << second;
  }
  // On one device the change of layout loses nothing.
  auto c = tiny(runs, "resumed", gpt(runs));
  c.stop_after = 2;
  runs.run(c, {2, 3, 1});
  c.stop_after = 0;
  engine::RunResult finished;
  finished.checkpoint = whole.output + "/checkpoints/step-00000004";
  EXPECT_EQ(runs.bits(c, runs.run(c, {1, 0, 1})), runs.bits(whole, finished));
}

TEST(Gpu, ALossThatIsNotFiniteIsNamed) {
  SmallRun runs;
  auto c = tiny(runs, "wild", gpt(runs));
  c.learning_rate = 1e30;
  c.clip = 0;
  try {
    runs.run(c, {2, 2, 1});
    FAIL() << "a loss that is not finite was taken";
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::check_failed);
    EXPECT_NE(std::string(e.what()).find("micro-batch"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace trainyard

int main(int argc, char** argv) { return trainyard::testing::run_on_gpu(argc, argv); }
