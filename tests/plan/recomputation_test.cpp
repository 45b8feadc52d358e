// Tests recomputation by layers: its text, which layers it means, memory and FLOPs counted by hand, and the fewest
// layers that fit, against all numbers of layers.
#include "libtrain/plan/spec/recomputation.h"

#include "libtrain/base/error.h"
#include "libtrain/plan/auto_setting.h"
#include "libtrain/plan/cost/activation_offload.h"
#include "libtrain/plan/cost/activations.h"
#include "libtrain/plan/cost/flops.h"
#include "libtrain/plan/decision_problems.h"
#include "libtrain/plan/recompute_choice.h"
#include "tests/plan/small_plan.h"

#include <gtest/gtest.h>

namespace trainyard::plan {
namespace recomputation_test {

Recomputation read(const std::string& text) { return recomputation_of_text(text, "--recompute"); }

std::string refusal(const std::string& text) {
  try {
    read(text);
  } catch (const base::UsageError& e) {
    return std::string(e.what()) + "; " + e.hint();
  }
  return {};
}

TEST(Recomputation, Text) {
  for (const char* text :
       {"none", "selective", "full", "full:0.5", "selective:0.25", "full:0.25,selective:0.5", "full:0.416,selective"})
    EXPECT_EQ(recomputation_text(read(text)), text);
  EXPECT_EQ(read("layers"), Recomputation(Recompute::layers)) << "as older plans have it";
  EXPECT_EQ(recomputation_text(read("selective,full:0.5")), "full:0.5,selective");
  EXPECT_EQ(recomputation_text(read("full:0.7,selective:0.3")), "full:0.7,selective");
  EXPECT_EQ(recomputation_text(read("full:1")), "full");
  EXPECT_EQ(read("full:0.7,selective").selective, 0.3);
  EXPECT_EQ(recomputation_text(read("selective:0.9,full")), "full:0.1,selective");
  EXPECT_EQ(recomputed_text(read("full")), "layers recomputed");
  EXPECT_EQ(recomputed_text(read("selective")), "norms and activations recomputed");
  EXPECT_EQ(recomputed_text(read("full:0.416,selective")), "recompute full:0.416,selective");
  EXPECT_EQ(recomputed_text(read("none")), "");
}

TEST(Recomputation, RefusesOtherTexts) {
  EXPECT_EQ(refusal("ful"), "--recompute ful is not known; did you mean 'full'?");
  for (const char* text :
       {"full:0", "full:1e-12", "full:6", "full:1.5", "full:-1", "full:nan", "full:x", "full:", "selective:2"})
    EXPECT_NE(refusal(text).find("is no share of the layers"), std::string::npos) << text << ": " << refusal(text);
  EXPECT_NE(refusal("full,selective").find("each of the two would have all layers"), std::string::npos);
  EXPECT_NE(refusal("full:0.6,selective:0.5").find("together more than all layers"), std::string::npos);
  EXPECT_NE(refusal("full:1,selective").find("together more than all layers"), std::string::npos);
  EXPECT_NE(refusal("full:0.5,full:0.25").find("full comes twice"), std::string::npos);
  EXPECT_NE(refusal("none,full:0.5").find("none stands alone"), std::string::npos);
  EXPECT_NE(refusal("full:0.5,none").find("none stands alone"), std::string::npos);
  EXPECT_NE(refusal("none:0.5").find("none stands alone"), std::string::npos);
  for (const char* text : {"", ",", "full:0.5,"})
    EXPECT_NE(refusal(text).find("is not known"), std::string::npos) << text;
}

TEST(Recomputation, SharesAreRoundedUpToLayers) {
  EXPECT_EQ(share_of(0.55, 20), 11) << "though 0.55 times 20 is more than 11 in binary";
  EXPECT_EQ(share_of(0.5, 7), 4);
  EXPECT_EQ(share_of(0.001, 7), 1);
  EXPECT_EQ(share_of(0, 7), 0);
  EXPECT_EQ(share_of(1, 7), 7);
  const auto mixed = read("full:0.25,selective:0.5");
  EXPECT_EQ(mixed.full_layers(7), 2);
  EXPECT_EQ(mixed.selective_layers(7), 4);  // 0.75 of 7 is 5.25, so six of seven are recomputed
  std::string forms;
  for (int layer = 0; layer < 7; ++layer) forms += name_of(mixed.of_layer(layer, 7))[0];
  EXPECT_EQ(forms, "ffssssn");
}

// A rank with two virtual stages, of three layers and of four: the first layers are those of the first virtual stage.
TEST(Recomputation, LayersOfVirtualStagesAreCountedOn) {
  auto m = preset("gpt2");
  m.vocabulary = 257;
  const ModelPart part(m, {{0, 4}, {7, 11}});
  EXPECT_EQ(layer_count(part), 7);
  std::vector<std::string> found;
  for (const auto& s : segments(part, read("full:0.5,selective:0.15")))
    found.push_back(fmt::format("{} {}+{} {}", s.chunk, s.first, s.times, name_of(s.recompute)));
  EXPECT_EQ(found,
            (std::vector<std::string>{"0 0+1 none", "0 0+3 full", "1 6+1 full", "1 7+1 selective", "1 8+2 none"}));
  const ActivationOffload inputs(part, {{1, 32}, {base::DType::f32, 1}}, {Place::disk, 0.5}, read("full:0.5"), {2, 1});
  EXPECT_EQ(inputs.layers_of_chunks(), (std::vector<std::int64_t>{2, 0})) << "half of the four recomputed layers";
  const ActivationOffload all(part, {{1, 32}, {base::DType::f32, 1}}, {Place::disk, 1}, read("full:0.5"), {2, 1});
  EXPECT_EQ(all.layers_of_chunks(), (std::vector<std::int64_t>{3, 1}));
}

// By hand, for gpt2 small and 1024 tokens: see Activations.OfALayerSelectiveKeepsFiveEighths. Of twelve layers three
// keep their input alone (a row), six keep 10 rows and statistics, and three keep 16 rows and statistics.
TEST(Recomputation, MemoryAndFlopsByHand) {
  auto m = preset("gpt2");
  m.vocabulary = 50257;
  const MicroShape s{{1, 1024}, {base::DType::bf16, 1}};
  const std::int64_t row = 1024 * 768 * 2, statistics = 1024 * 4 * (4 + 12), head = 2 * row + 1024 * 4 * 2;
  const auto mixed = read("full:0.25,selective:0.5");
  const auto layers = 3 * row + 6 * (10 * row + statistics) + 3 * (16 * row + statistics);
  EXPECT_EQ(activation_bytes(m, s, Pass::train, mixed), row + layers + head);
  EXPECT_EQ(slot_bytes(m, s, mixed, {3}).total({3}), 3 * (row + layers + head) + 16 * row + statistics);
  EXPECT_EQ(slot_bytes(m, s, mixed, {3}, {2}).total({3}), 3 * (row + layers - 2 * row + head) + 16 * row + statistics)
      << "two inputs elsewhere";
  const double none = step_flops(m, 4, 1024), full = step_flops(m, 4, 1024, Recompute::layers);
  EXPECT_EQ(step_flops(m, 4, 1024, mixed), none + (full - none) / 4);
}

// Two stages of unequal depth: each has a quarter of its own layers recomputed.
TEST(Recomputation, EachStageHasItsShare) {
  auto p = small_plan();
  p.model.layers = 12, p.pipeline = 2, p.topology = replicas_of(2, 1, 2), p.partition = "0,5";
  p.recompute = read("full:0.25");
  predict(p);
  std::string forms;
  for (const auto form : recompute_of_layers(p)) forms += name_of(form)[0];
  EXPECT_EQ(forms, "fnnnffnnnnnn");  // of four layers and of eight: one and two
  const double none = step_flops(p.model, 8, 32), full = step_flops(p.model, 8, 32, Recompute::layers);
  EXPECT_EQ(p.flops, none + (full - none) / 4);
}

Plan deep() {
  auto p = small_plan();
  p.model.layers = 10, p.micro_batch = 4, p.global_batch = 32;
  return p;
}

std::int64_t need(Plan p, const Recomputation& recompute) {
  p.recompute = recompute;
  predict(p);
  return p.memory.total();
}

// Every limit that some number of layers just fits.
TEST(RecomputeChoice, FewestLayersThatFit) {
  for (const auto order : {AccumulationOrder::depth, AccumulationOrder::breadth}) {
    auto p = deep();
    p.accumulation_order = order;
    const auto layers = p.model.layers;
    const auto all_of = [&](Recompute form, std::int64_t some) {
      const auto share = static_cast<double>(some) / static_cast<double>(layers);
      return form == Recompute::layers ? Recomputation(share, 1 - share) : Recomputation(0, share);
    };
    for (const auto form : {Recompute::selective, Recompute::layers})
      for (std::int64_t some = 1; some <= layers; ++some) {
        const auto bytes = need(p, all_of(form, some));
        std::int64_t fewest = 1;
        while (need(p, all_of(form, fewest)) > bytes) ++fewest;
        const auto found = fewest_recomputed(p, form, bytes);
        EXPECT_EQ(form == Recompute::layers ? found.full_layers(layers) : found.selective_layers(layers), fewest)
            << name_of(form) << " " << some << " of " << layers;
        EXPECT_LE(need(p, found), bytes);
        EXPECT_EQ(memory_with(p, found), need(p, found));
      }
    EXPECT_EQ(fitting_recomputation(p, need(p, Recompute::none)), Recomputation());
    EXPECT_EQ(recomputation_text(fitting_recomputation(p, need(p, Recompute::none) - 1)), "selective:0.1");
    EXPECT_EQ(recomputation_text(fitting_recomputation(p, need(p, Recompute::selective) - 1)), "full:0.1,selective");
    EXPECT_EQ(fitting_recomputation(p, 0), Recomputation());
    // One micro-batch in flight needs no more than its last layer does while it is computed again.
    const auto least = fitting_recomputation(p, 1);
    EXPECT_EQ(recomputation_text(least), order == AccumulationOrder::depth ? "full:0.9,selective" : "full");
    for (std::int64_t some = 1; some <= layers; ++some)
      EXPECT_LE(need(p, least), need(p, all_of(Recompute::layers, some)));
  }
}

TEST(RecomputeChoice, GoesWithScheduleAndActivationsElsewhere) {
  auto p = deep();
  p.offload = offload_of_text("activations=disk", "test");
  EXPECT_EQ(undecided_recomputation(p), Recomputation(Recompute::layers));
  p.recompute = Recompute::layers;
  EXPECT_TRUE(decision_problems(p).empty());
  EXPECT_EQ(recomputation_text(fitting_recomputation(p, need(p, Recompute::none) + (std::int64_t{1} << 40))),
            "full:0.1")
      << "the others keep all";
  EXPECT_EQ(recomputation_text(fitting_recomputation(p, need(p, Recomputation(0.6, 0)))), "full:0.6");
  p.offload = {};
  p.pipeline = 2, p.topology = replicas_of(2, 1, 2), p.pipeline_schedule = PipelineSchedule::zero_bubble;
  EXPECT_EQ(fitting_recomputation(p, 1), Recomputation());
}

TEST(RecomputeChoice, AutoIsATextOfTheSetting) {
  ParallelLayout layout;
  bool automatic = false;
  auto fields = fields_of(layout);
  let_be_auto(fields, "recompute", automatic);
  auto& field = base::field_named(fields, "recompute", "test");
  field.set("auto", "--recompute");
  EXPECT_TRUE(automatic);
  EXPECT_EQ(field.get(), "auto");
  EXPECT_EQ(layout.recompute, Recomputation());
  field.set("full:0.5", "--recompute");
  EXPECT_FALSE(automatic);
  EXPECT_EQ(field.get(), "full:0.5");
}

}  // namespace recomputation_test
}  // namespace trainyard::plan
