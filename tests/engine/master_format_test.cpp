// Runs whose bf16 weights keep a remainder in place of f32 masters: the bits of f32 masters on every layout, a resume
// from one form to the other, and refusals.
#include "libtrain/base/error.h"
#include "libtrain/engine/setup.h"
#include "tests/engine/reports.h"
#include "tests/engine/small_run.h"
#include "tests/night.h"

#include <gtest/gtest.h>

namespace trainyard {
namespace master_format_test {

using plan::MasterFormat;
using testing::ParallelLayout;
using testing::SmallRun;

engine::RunConfig run_of(const SmallRun& runs, const std::string& model, const std::string& output) {
  auto c = runs.config("masters-" + output);
  c.model = model, c.weight_decay = 0.05, c.warmup_steps = 3, c.steps = testing::by_day_or_night(6, 20);
  return c;
}

// With remainders on each layout, by day on every second one; the bits of f32 masters on one rank.
void expect_bits_of_f32(SmallRun& runs, const engine::RunConfig& config, const std::vector<ParallelLayout>& layouts) {
  auto f32 = config;
  f32.output += "-f32";
  const auto expected = runs.bits(f32, runs.run(f32, {1, 0, 1, "bf16"}));
  static bool turn = false;  // of all models and optimizers: each layout has its turn with half of them
  for (const auto& layout : layouts) {
    turn = !turn;
    if (!testing::at_night() && !turn) continue;
    auto c = config;
    c.master = MasterFormat::remainder;
    c.output +=
        fmt::format("-{}-{}-{}-{}-{}", layout.ranks, layout.zero, layout.tensor, layout.pipeline, layout.experts);
    EXPECT_EQ(runs.bits(c, runs.run(c, layout)), expected) << c.output;
    testing::expect_no_difference(runs.reports(), c.output);
  }
}

TEST(MasterFormat, RemaindersGiveTheBitsOfF32Masters) {
  SmallRun runs;
  const std::vector<ParallelLayout> layouts{{1, 0, 2, "bf16"},
                                            {2, 0, 1, "bf16"},
                                            {3, 1, 2, "bf16"},
                                            {2, 2, 1, "bf16", "full"},
                                            {3, 3, 1, "bf16"},
                                            {4, 3, 1, "bf16", "none", 2},
                                            {2, 1, 1, "bf16", "none", 1, false, 2}};
  for (const char* optimizer : {"adamw", "adam", "lion", "sgd", "muon"}) {
    auto c = run_of(runs, optimizer == std::string("adamw") ? runs.llama() : runs.gpt(), optimizer);
    c.optimizer = optimizer;
    expect_bits_of_f32(runs, c, layouts);
  }
  auto c = run_of(runs, runs.gpt(), "narrow-states");
  c.moment_dtype = base::DType::bf16;
  expect_bits_of_f32(runs, c, {layouts.begin(), layouts.begin() + 2});
}

// Gates whose biases move towards an even load, on ranks with different experts, too.
TEST(MasterFormat, BiasesOfGatesHaveRemainders) {
  SmallRun runs;
  const auto model = runs.model("masters-experts",
                                "layers = 2\nhidden = 32\nheads = 4\nkv-heads = 4\nffn = 64\ncontext = 32\n"
                                "[experts]\ncount = 4\ntop-k = 2\nscore = \"sigmoid\"\nbias-rate = 0.05\n"
                                "capacity-factor = \"none\"\n");
  auto c = run_of(runs, model, "experts");
  ParallelLayout shared{2, 1, 1, "bf16"}, of_tensor{4, 2, 1, "bf16"};
  shared.experts = 2, of_tensor.experts = 2, of_tensor.tensor = 2;
  expect_bits_of_f32(runs, c, {{1, 0, 1, "bf16"}, {2, 0, 1, "bf16"}, {3, 3, 1, "bf16"}, shared, of_tensor});
}

// Checkpoints have f32 masters in either form.
TEST(MasterFormat, MayChangeAtAResume) {
  SmallRun runs;
  auto whole = run_of(runs, runs.gpt(), "whole");
  whole.steps = 12;
  const auto expected = runs.bits(whole, runs.run(whole, {1, 0, 1, "bf16"}));
  auto c = run_of(runs, runs.gpt(), "changed");
  c.steps = 12, c.stop_after = 4;
  runs.run(c, {2, 1, 1, "bf16"});
  c.master = MasterFormat::remainder, c.stop_after = 8;
  runs.run(c, {3, 2, 1, "bf16"});
  c.stop_after = 10;
  runs.run(c, {2, 0, 1, "bf16"});
  c.master = MasterFormat::f32, c.stop_after = 0;
  EXPECT_EQ(runs.bits(c, runs.run(c, {2, 3, 1, "bf16"})), expected);
}

// From an f32 checkpoint, whose weights are not what bf16 says.
TEST(MasterFormat, BeginsWithTheWeightsOfAnF32Run) {
  SmallRun runs;
  auto first = run_of(runs, runs.gpt(), "first");
  const auto from = runs.run(first, {1, 0, 1, "f32"}).checkpoint;
  std::string bits;
  for (const auto master : {MasterFormat::f32, MasterFormat::remainder}) {
    auto c = run_of(runs, runs.gpt(), master == MasterFormat::f32 ? "from-f32" : "from-remainder");
    c.init_from = from, c.master = master;
    const auto got = runs.bits(c, runs.run(c, {2, 2, 1, "bf16"}));
    EXPECT_EQ(got, bits.empty() ? got : bits);
    bits = got;
  }
}

TEST(MasterFormat, IsRefusedWhereItDoesNotApply) {
  SmallRun runs;
  const auto refusal = [&](const char* dtype, const char* optimizer) {
    auto c = run_of(runs, runs.gpt(), "refused");
    SmallRun::apply({1, 1, 1, dtype}, c);
    c.master = MasterFormat::remainder, c.optimizer = optimizer;
    try {
      engine::make_setup(c, 1, 1);
      return std::string();
    } catch (const base::Error& e) {
      return e.what() + std::string(" | ") + e.hint();
    }
  };
  EXPECT_EQ(refusal("bf16", "muon"), "");
  EXPECT_EQ(refusal("f32", "adamw"),
            "--master remainder is for weights in bf16: f32 weights are their own masters | --dtype bf16, or --master "
            "f32");
  EXPECT_EQ(refusal("f16", "adamw"),
            "--master remainder is for weights in bf16: f16 has another range than f32, and 2 bytes do not say what it "
            "lacks | --dtype bf16, or --master f32");
  for (const char* optimizer : {"lamb", "adafactor"})
    EXPECT_EQ(refusal("bf16", optimizer),
              fmt::format("--optimizer {} takes norms of f32 masters, and --master remainder keeps none | --master "
                          "f32, or another --optimizer",
                          optimizer));
}

}  // namespace master_format_test
}  // namespace trainyard
