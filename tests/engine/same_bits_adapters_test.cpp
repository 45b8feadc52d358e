// Low-rank adapters beside frozen weights: the same bits in every parallel layout, predicted memory and traffic, frozen
// weights that stay, beginnings from a base checkpoint, resumes on other layouts, refusals.
#include "tests/engine/every_layout.h"
#include "tests/night.h"

#include <array>
#include <map>

namespace trainyard {
namespace same_bits_adapters_test {

using testing::ParallelLayout;
using testing::SmallRun;

// tensor and sequence parallelism, pipeline stages, ZeRO stage, data-parallel degree, threads, recomputation, dtype,
// model
constexpr std::array<int, 8> levels = {3, 3, 4, 2, 2, 3, 2, 2};
using Choice = testing::Choice<levels.size()>;

engine::RunConfig config_of(SmallRun& runs, bool llama, const std::string& output) {
  auto c = runs.config(output);
  c.model = runs.model(fmt::format("adapted-{}", llama),
                       std::string("layers = 4\nhidden = 32\nheads = 8\nkv-heads = 4\nffn = 64\ncontext = 64\n") +
                           (llama ? "norm = \"rms\"\npositions = \"rotary\"\nactivation = \"swiglu\"\nbiases = "
                                    "\"off\"\ntied = \"off\"\n"
                                  : "dropout-attention-residual = 0.2\ndropout-ffn-residual = 0.1\n"));
  c.adapter = "lora:8", c.adapter_on = llama ? "q,k,v,o,gate,up,down" : "v,o,up", c.adapter_alpha = 12;
  c.steps = 3;
  c.micro_batch = 4;
  c.global_batch = 24;
  c.validate_every = 3;
  c.validation_sequences = 8;
  return c;
}

ParallelLayout layout_of(const Choice& c) {
  auto layout = testing::layout_of_six(c);
  layout.dtype = c[6] == 0 ? "f32" : "bf16";
  return layout;
}

TEST(SameBitsAdapters, SameBitsAndPredictedBytesInEveryLayout) {
  SmallRun runs;
  const testing::LayoutChoices<levels.size()> choices{
      levels,
      layout_of,
      [](SmallRun& r, const Choice& choice, const std::string& output) { return config_of(r, choice[7] == 1, output); },
      {7}};
  EXPECT_GE(testing::expect_every(testing::Strength::pairs, runs, choices).size(), 4u);
}

std::map<std::string, std::uint64_t> fingerprints(const std::string& checkpoint) {
  std::map<std::string, std::uint64_t> out;
  checkpoint::Reader reader(checkpoint);
  for (const auto& t : reader.tensors()) out[t.path] = t.fingerprint;
  return out;
}

// A base is trained, then adapters beside it, on other ranks and dtypes.
TEST(SameBitsAdapters, TheBaseStaysAndTheAdaptersMove) {
  SmallRun runs;
  auto base = config_of(runs, true, "base");
  base.adapter.clear(), base.adapter_on.clear(), base.adapter_alpha = 0;
  const auto trained = runs.run(base, {1, 0, 1});
  const auto before = fingerprints(trained.checkpoint);
  for (const auto& layout :
       {ParallelLayout{1, 0, 1}, ParallelLayout{4, 3, 1, "f32", "none", 2, true}, ParallelLayout{2, 1, 1, "f32"}}) {
    auto c = config_of(runs, true, fmt::format("beside-{}", layout.ranks));
    c.init_from = trained.checkpoint;
    auto shorter = c;  // the values after another number of steps
    shorter.output += "-one", shorter.stop_after = 1;
    const auto one = fingerprints(runs.run(shorter, layout).checkpoint);
    const auto r = runs.run(c, layout);
    testing::expect_no_difference(runs.reports(), testing::text_of(layout));
    const auto after = fingerprints(r.checkpoint);
    int adapters = 0, states = 0;
    for (const auto& [path, fingerprint] : after) {
      const bool adapter = path.find(".adapter.") != std::string::npos;
      if (path.starts_with("/model/") && !adapter) {
        EXPECT_EQ(fingerprint, before.at(path)) << path;
      }
      if (path.starts_with("/model/") && adapter) {
        ++adapters;
        EXPECT_NE(fingerprint, one.at(path)) << path;  // both A and B move
      }
      if (!path.starts_with("/model/")) {
        ++states;
        EXPECT_TRUE(adapter) << path;
      }
    }
    EXPECT_EQ(adapters, 4 * 7 * 2);
    EXPECT_EQ(states, 2 * adapters);
    checkpoint::Reader(r.checkpoint).verify_all();
  }
}

// Only adapters may be absent from the weights that a run begins with, and none of theirs is left out.
TEST(SameBitsAdapters, NothingIsLeftOutOrMadeUpAtAStart) {
  SmallRun runs;
  auto base = config_of(runs, true, "small");
  base.adapter.clear(), base.adapter_on.clear(), base.adapter_alpha = 0;
  const auto weights = runs.run(base, {}).checkpoint;
  for (const bool adapted : {false, true}) {
    auto deeper = adapted ? config_of(runs, true, "deeper-adapted") : base;
    if (!adapted) deeper.output += "-deeper";
    deeper.model = runs.model("deeper",
                              "layers = 5\nhidden = 32\nheads = 8\nkv-heads = 4\nffn = 64\ncontext = 64\nnorm = "
                              "\"rms\"\npositions = \"rotary\"\nactivation = \"swiglu\"\nbiases = "
                              "\"off\"\ntied = \"off\"\n");
    deeper.init_from = weights;
    const auto said = testing::error_text_of([&] { runs.run(deeper, {}); });
    EXPECT_NE(said.find("layers.04"), std::string::npos) << said;
  }
  auto adapted = config_of(runs, true, "adapted-whole");
  adapted.init_from = weights;
  auto fewer = config_of(runs, true, "fewer");
  fewer.init_from = runs.run(adapted, {}).checkpoint, fewer.adapter_on = "q";
  const auto said = testing::error_text_of([&] { runs.run(fewer, {}); });
  EXPECT_NE(said.find("has an adapter layers.00.adapter.attention.k.adapter_a, and this run's model has none"),
            std::string::npos)
      << said;
}

// A new adapter adds nothing, so the first loss is that of the base.
TEST(SameBitsAdapters, TheFirstLossIsThatOfTheBase) {
  SmallRun runs;
  auto base = config_of(runs, true, "plain");
  base.adapter.clear(), base.adapter_on.clear(), base.adapter_alpha = 0;
  runs.run(base, {1, 0, 1});
  const auto c = config_of(runs, true, "adapted");
  runs.run(c, {1, 0, 1});
  EXPECT_EQ(SmallRun::metrics(base).front()["loss"], SmallRun::metrics(c).front()["loss"]);
  EXPECT_NE(SmallRun::metrics(base).back()["loss"], SmallRun::metrics(c).back()["loss"]);
}

TEST(SameBitsAdapters, AResumeOnAnotherLayoutGoesOn) {
  SmallRun runs;
  for (const char* dtype : {"f32", "bf16"}) {
    auto whole = config_of(runs, true, fmt::format("whole-{}", dtype));
    whole.steps = 4;
    const auto want = runs.bits(whole, runs.run(whole, {1, 0, 1, dtype}));
    auto parts = whole;
    parts.output = (runs.folder() / fmt::format("parts-{}", dtype)).string();
    parts.stop_after = 2;
    ASSERT_EQ(runs.run(parts, {4, 2, 1, dtype, "none", 2, true}).code, base::ExitCode::requeue);
    parts.stop_after = 0;
    const auto r = runs.run(parts, {2, 3, 1, dtype});
    ASSERT_EQ(r.code, base::ExitCode::done);
    EXPECT_EQ(runs.bits(parts, r), want) << dtype;
  }
}

// What the sentence of a refused run has in it.
void expect_refused(SmallRun& runs, engine::RunConfig c, const ParallelLayout& layout, const std::string& words) {
  try {
    runs.run(c, layout);
    ADD_FAILURE() << words;
  } catch (const base::Error& e) {
    EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
    EXPECT_EQ(e.code(), base::ExitCode::usage) << e.what();
    EXPECT_FALSE(e.hint().empty()) << e.what();
  }
}

TEST(SameBitsAdapters, Refusals) {
  SmallRun runs;
  const auto with = [&](auto change) {
    auto c = config_of(runs, true, "refused");
    change(c);
    return c;
  };
  expect_refused(runs, with([](auto& c) { c.adapter = "dora:8"; }), {}, "expected lora:RANK");
  expect_refused(runs, with([](auto& c) { c.adapter = "lora:12"; }), {}, "12 is not a multiple of 8");
  expect_refused(runs, with([](auto& c) { c.adapter = "lora:64"; }), {}, "adapter-rank 64 is above hidden 32");
  expect_refused(runs, with([](auto& c) { c.adapter_on = "q,q"; }), {}, "names 'q' twice");
  expect_refused(runs, with([](auto& c) { c.adapter_on = "q,w"; }), {}, "adapter-on");
  expect_refused(runs, with([](auto& c) { c.adapter.clear(); }), {}, "the model has no adapters");
  expect_refused(runs, with([](auto& c) { c.optimizer = "adafactor"; }), {}, "not made for adapters");
  auto pipelined = ParallelLayout{2, 0, 1};
  pipelined.pipeline = 2, pipelined.schedule = "zero-bubble";
  expect_refused(runs, config_of(runs, true, "refused"), pipelined, "zero-bubble");
  expect_refused(runs, with([&](auto& c) {
                   c.model = runs.model("gateless", "layers = 1\nhidden = 32\nheads = 4\nffn = 64\ncontext = 32\n");
                   c.adapter_on = "gate";
                 }),
                 {}, "no gate");
  expect_refused(runs, with([&](auto& c) {
                   c.model = runs.model("expert",
                                        "layers = 2\nhidden = 32\nheads = 4\nffn = 64\ncontext = "
                                        "32\nexperts-count = 4\n");
                   c.adapter_on = "q,up";
                 }),
                 {}, "beside experts only attention has adapters");
}

}  // namespace same_bits_adapters_test
}  // namespace trainyard
