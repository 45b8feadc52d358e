// Low-rank adapters on attention beside frozen experts: the same bits, the predicted memory and the announced bytes,
// however data-, expert- and tensor-parallel ranks, pipeline stages and ZeRO divide the model.
#include "tests/engine/covering.h"
#include "tests/engine/reports.h"
#include "tests/engine/small_run.h"
#include "tests/night.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>

namespace trainyard {
namespace same_bits_adapted_experts_test {

using testing::ParallelLayout;
using testing::SmallRun;

// gate, data- and expert-parallel ranks, ZeRO stage, pipeline stages, recomputation, dtype, tensor parallelism
constexpr std::array<int, 7> levels = {4, 4, 4, 3, 3, 2, 3};
using Choice = testing::Choice<levels.size()>;

struct Ranks {
  int data, experts;
};
constexpr std::array<Ranks, 4> ranks = {{{2, 2}, {4, 2}, {3, 3}, {2, 1}}};

// The gates: top-1 with few places; top-2 with noise and a residual part; top-3 with noise, shared experts and a dense
// layer; sigmoid scores with biases, without a capacity.
std::string model_of(const SmallRun& runs, int gate) {
  const std::array<const char*, 4> lines = {
      "dropout-ffn-residual = 0.1\n[experts]\ncount = 12\nevery = 2\ncapacity-factor = 0.5\nmin-capacity = 2\n"
      "z-loss = 0.001\n",
      "[experts]\ncount = 12\nevery = 2\ntop-k = 2\noverflow = \"position\"\nnoise = \"jitter\"\nresidual = true\n"
      "capacity-factor = 1\n",
      "norm = \"rms\"\npositions = \"rotary\"\nactivation = \"swiglu\"\nbiases = \"off\"\ntied = \"off\"\n"
      "[experts]\ncount = [12, 12, 24]\ndense-layers = 1\ntop-k = 3\noverflow = \"probability\"\nshared = 2\nffn = 32\n"
      "capacity-factor = 0.75\nnoise = \"jitter\"\n",
      "[experts]\ncount = 12\ntop-k = 2\nscore = \"sigmoid\"\nbias-rate = 0.05\ncapacity-factor = \"none\"\n"
      "evaluation-capacity-factor = 1.5\n"};
  return runs.model(fmt::format("adapted-experts-{}", gate),
                    std::string("layers = 4\nhidden = 32\nheads = 4\nkv-heads = 4\nffn = 64\ncontext = 32\n") +
                        lines[static_cast<std::size_t>(gate)]);
}

ParallelLayout layout_of(const Choice& c) {
  const auto of = ranks[static_cast<std::size_t>(c[1])];
  ParallelLayout layout;
  layout.zero = c[2];
  layout.pipeline = c[3] == 0 ? 1 : 2;
  layout.schedule = c[3] == 2 ? "interleaved" : "1f1b";
  layout.virtual_stages = c[3] == 2 ? 2 : 1;
  layout.tensor = c[6] == 0 ? 1 : 2;
  layout.sequence_parallel = c[6] == 2;
  layout.ranks = of.data * layout.pipeline * layout.tensor;
  layout.experts = of.experts;
  if (c[0] == 3 && of.experts > 1 && layout.tensor == 1) layout.expert_capacity_buffer = c[2] % 2 == 0 ? 150 : 0;
  layout.recompute = plan::name_of(plan::recomputations[static_cast<std::size_t>(c[4])]);
  layout.dtype = c[5] == 0 ? "f32" : "bf16";
  return layout;
}

engine::RunConfig config_of(const SmallRun& runs, int gate, const std::string& output) {
  auto c = runs.config(output);
  c.model = model_of(runs, gate);
  c.adapter = "lora:8", c.adapter_on = gate % 2 == 0 ? "q,k,v,o" : "q,o";
  c.steps = c.validate_every = 2, c.micro_batch = 4, c.global_batch = 48;
  c.validation_sequences = 12;
  return c;
}

std::string bits_of(const SmallRun& runs, const engine::RunConfig& c, const engine::RunResult& r) {
  auto bits = runs.bits(c, r);
  for (const auto& j : SmallRun::metrics(c)) {
    if (j.contains("validation_loss")) bits += "validation " + j["validation_loss"].dump() + "\n";
    if (j.contains("experts")) bits += "experts " + j["experts"].dump() + "\n";
  }
  return bits;
}

TEST(SameBitsAdaptedExperts, EveryPair) {
  SmallRun runs;
  std::map<std::tuple<int, int>, std::string> expected;  // by gate and dtype
  int n = 0;
  for (const auto& choice : testing::choices_of_pairs(levels)) {
    const auto layout = layout_of(choice);
    const int gate = choice[0];
    auto& want = expected[{gate, choice[5]}];
    if (want.empty()) {
      auto c = config_of(runs, gate, fmt::format("one-{}", n));
      want = bits_of(runs, c, runs.run(c, {1, 0, 1, layout.dtype}));
      ASSERT_NE(want.find("validation"), std::string::npos);
    }
    auto c = config_of(runs, gate, fmt::format("cut-{}", n));
    c.gathered_layers = 1 + n % 3;
    const auto where = fmt::format(
        "{} ranks, {} tensor{}, experts over {}, {} stages of {}, ZeRO {}, {}, recompute {}, "
        "buffer {}, gate {}",
        layout.ranks, layout.tensor, layout.sequence_parallel ? " and rows" : "", layout.experts, layout.pipeline,
        layout.virtual_stages, layout.zero, layout.dtype, layout.recompute, layout.expert_capacity_buffer, gate);
    const ::testing::ScopedTrace trace(__FILE__, __LINE__, where);
    EXPECT_EQ(bits_of(runs, c, runs.run(c, layout)), want);
    testing::expect_no_difference(runs.reports(), where);
    std::filesystem::remove_all(c.output);
    ++n;
  }
  EXPECT_GE(expected.size(), 6u);
}

// Backward goes through all rounds, because the input of experts has a gradient though their weights have none.
TEST(SameBitsAdaptedExperts, SeveralRounds) {
  SmallRun runs;
  const auto alone = config_of(runs, 3, "alone");
  const auto want = bits_of(runs, alone, runs.run(alone, {}));
  for (const char* recompute : {"none", "selective", "full"}) {
    ParallelLayout layout{4, 3, 1, "f32", recompute};
    layout.experts = 2, layout.expert_capacity_buffer = 128;
    auto c = config_of(runs, 3, std::string("rounds-") + recompute);
    EXPECT_EQ(bits_of(runs, c, runs.run(c, layout)), want) << recompute;
    testing::expect_no_difference(runs.reports(), recompute);
    std::int64_t most = 0;
    for (const auto& j : SmallRun::metrics(c)) most = std::max(most, j.value("expert_rounds", std::int64_t{0}));
    EXPECT_GT(most, 1) << recompute;
  }
}

// Experts, gates and their biases stay, and nothing of them is kept but their values.
TEST(SameBitsAdaptedExperts, OnlyAdaptersMove) {
  SmallRun runs;
  const auto values = [](const std::string& checkpoint) {
    std::map<std::string, std::uint64_t> out;
    const checkpoint::Reader reader(checkpoint);
    for (const auto& t : reader.tensors()) out[t.path] = t.fingerprint;
    return out;
  };
  for (const int gate : {2, 3}) {
    auto base = config_of(runs, gate, fmt::format("base-{}", gate));
    base.adapter.clear(), base.adapter_on.clear();
    const auto trained = runs.run(base, {}).checkpoint;
    const auto before = values(trained);
    auto c = config_of(runs, gate, fmt::format("beside-{}", gate));
    c.init_from = trained;
    ParallelLayout layout{4, 3, 1};
    layout.experts = 2;
    for (const auto& [path, fingerprint] : values(runs.run(c, layout).checkpoint)) {
      const bool adapter = path.find(".adapter.") != std::string::npos;
      EXPECT_TRUE(adapter || path.starts_with("/model/")) << path;
      if (!adapter) {
        EXPECT_EQ(fingerprint, before.at(path)) << path;
      }
    }
  }
}

}  // namespace same_bits_adapted_experts_test
}  // namespace trainyard
