// Whole runs on a GPU with block-sparse attention, causal and masked: the losses of the CPU, the bits of one rank on
// every layout, predicted memory, and resumes.
#include "libtrain/tensor/gpu.h"
#include "tests/engine/reports.h"
#include "tests/engine/small_run.h"
#include "tests/gpu_main.h"

#include <gtest/gtest.h>

#include <string>

namespace trainyard {
namespace {

using testing::ParallelLayout;
using testing::SmallRun;

struct Kind {
  const char *name, *model, *document_mask;
};
// Two layers with lists of their own for each head, one with a window of tokens, both with capped scores; the sequence
// has three and a half blocks.
const Kind causal = {"causal",
                     "dropout-attention = 0.1\n"
                     "[attention]\nlayout = \"sliding, fixed\"\nblock = 16\nwindow = 1\nlocal = \"2\"\npatterns = 2\n"
                     "per-head = \"on\"\nwindow-tokens = \"0, 20\"\nsoftcap = 0.5\n",
                     "off"};
// A BERT that learns hidden tokens, with masked documents.
const Kind masked = {"masked",
                     "dropout-ffn-residual = 0.1\nnorm-position = \"post\"\nembedding-norm = \"on\"\nsegments = 2\n"
                     "head = \"masked\"\nactivation = \"gelu_erf\"\n"
                     "[attention]\ncausal = \"off\"\nlayout = \"bigbird, longformer\"\nblock = 16\nwindow = 1\n"
                     "random = 1\nglobal-blocks = \"1\"\nper-head = \"on\"\n",
                     "on"};

engine::RunConfig config_of(const SmallRun& runs, const Kind& kind, const std::string& output) {
  auto c = runs.config(fmt::format("{}-{}", kind.name, output));
  c.model = runs.model(
      kind.name, std::string("layers = 2\nhidden = 16\nheads = 2\nkv-heads = 2\nffn = 32\ncontext = 56\nlanes = 2\n") +
                     kind.model);
  c.device = "cuda", c.document_mask = kind.document_mask;
  c.steps = 2, c.global_batch = 3, c.validate_every = 2, c.validation_sequences = 2;
  return c;
}

void expect_close(const engine::RunConfig& a, const engine::RunConfig& b, double tolerance) {
  const auto there = SmallRun::metrics(a), here = SmallRun::metrics(b);
  ASSERT_EQ(there.size(), here.size());
  for (std::size_t i = 0; i < here.size(); ++i)
    for (const char* what : {"loss", "gradient_norm", "validation_loss"}) {
      ASSERT_EQ(there[i].contains(what), here[i].contains(what)) << what;
      if (!here[i].contains(what)) continue;
      const auto want = here[i][what].get<double>();
      EXPECT_NEAR(there[i][what].get<double>(), want, (what[0] == 'g' ? 10 : 1) * tolerance * want)
          << a.output << ": " << what << " of step " << i + 1;
    }
}

// Tensor-parallel ranks walk the lists of their heads, pipeline stages have the lists of their layers. Equal lanes give
// equal bits between tensor-parallel degrees where products do not depend on their shapes, as on the emulator.
void every_way(const Kind& kind, const std::string& dtype) {
  SmallRun runs;
  const auto config = [&](const std::string& output) { return config_of(runs, kind, output); };
  const auto one = config("one");
  auto cpu = config("cpu");
  cpu.device = "cpu";
  const auto expected = runs.bits(one, runs.run(one, {1, 0, 1, dtype}));
  testing::expect_no_difference(runs.reports(), "one rank");
  runs.run(cpu, {1, 0, 1, dtype});
  expect_close(one, cpu, dtype == "f32" ? 1e-5 : 2e-2);

  const auto tensor = config("tensor"), staged = config("stages");
  const auto bits = runs.bits(tensor, runs.run(tensor, {4, 3, 1, dtype, "full", 2}));
  if (std::string(tensor::gpu_module().runtime->name) == "emulated") {
    EXPECT_EQ(bits, expected);
  }
  expect_close(tensor, one, dtype == "f32" ? 1e-4 : 2e-2);
  testing::expect_no_difference(runs.reports(), "tensor ranks");
  ParallelLayout stages{2, 1, 1, dtype};
  stages.pipeline = 2;
  EXPECT_EQ(runs.bits(staged, runs.run(staged, stages)), expected);
  testing::expect_no_difference(runs.reports(), "stages");

  auto resumed = config("resumed");
  resumed.stop_after = 1;
  ASSERT_EQ(runs.run(resumed, {3, 2, 1, dtype, "selective"}).code, base::ExitCode::requeue);
  resumed.stop_after = 0;
  EXPECT_EQ(runs.bits(resumed, runs.run(resumed, {1, 0, 1, dtype})), expected);
}

TEST(GpuSparse, CausalInF32) { every_way(causal, "f32"); }
TEST(GpuSparse, MaskedInF32) { every_way(masked, "f32"); }
TEST(GpuSparse, MaskedInBf16) { every_way(masked, "bf16"); }

}  // namespace
}  // namespace trainyard

int main(int argc, char** argv) { return trainyard::testing::run_on_gpu(argc, argv); }
