// Parameter groups and rates by layer: their text, what they match, and runs whose bits follow from other settings.
#include "libtrain/engine/parameter_groups.h"
#include "libtrain/checkpoint/view.h"
#include "libtrain/comm/agreement.h"
#include "libtrain/plan/blocks/inventory.h"
#include "libtrain/plan/spec/presets.h"
#include "tests/engine/reports.h"
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace trainyard {
namespace parameter_groups_test {

using engine::parameter_groups;
using engine::ParameterGroup;
using testing::error_text_of;
using testing::ParallelLayout;
using testing::SmallRun;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(ParameterGroups, AreReadFromText) {
  EXPECT_TRUE(parameter_groups("").empty());
  const auto groups = parameter_groups("layers.*.ffn.*:learning_rate_scale=0.25:weight-decay=0,embedding.*:frozen");
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0], (ParameterGroup{"layers.*.ffn.*", 0.25, 0.0, {}}));
  EXPECT_EQ(groups[1], (ParameterGroup{"embedding.*", {}, {}, true}));
  EXPECT_EQ(parameter_groups(engine::text_of(groups)), groups);
  for (const auto& [text, said] : {std::pair("head.*", "it sets nothing"),
                                   {":frozen", "begins with a pattern"},
                                   {"head.*:freeze", "'freeze' is not known"},
                                   {"head.*:frozen=1", "'frozen=1' is not known"},
                                   {"head.*:weight-decay=-1", "weight-decay is -1, expected a number from 0 to 1000"},
                                   {"head.*:learning-rate-scale=", "learning-rate-scale is , expected a number"},
                                   {"head.*:learning-rate-scale=nan", "expected a number"},
                                   {"head.*:weight-decay=1:weight-decay=2", "weight-decay is set twice"},
                                   {"head.*:frozen:weight-decay=1", "neither a learning rate nor weight decay"},
                                   {"head.*:frozen,,a:frozen", "begins with a pattern"},
                                   {"[!\xff]*:frozen", "names of parameters are letters"}}) {
    const auto error = error_text_of([given = text] { parameter_groups(given); });
    EXPECT_TRUE(has(error, said)) << text << ": " << error;
  }
}

TEST(ParameterGroups, AreTablesOfAFile) {
  const auto of = [](const std::string& text) {
    engine::RunConfig c;
    auto fields = engine::fields_of(c);
    base::read_toml_text(fields, text, "run.toml");
    return c.groups;
  };
  EXPECT_EQ(of("steps = 3\n[[group]]\nmatch = \"layers.*\"\nlearning-rate-scale = 0.5\n[[group]]\nmatch = "
               "\"embedding.*\"\nfrozen = true\n[[group]]\nmatch = \"head.*\"\nweight_decay = 1\nfrozen = false\n"),
            "layers.*:learning-rate-scale=0.5,embedding.*:frozen,head.*:trained:weight-decay=1");
  EXPECT_EQ(of("group = \"head.*:frozen\"\n"), "head.*:frozen");
  for (const auto& [text, said] : {std::pair("[[group]]\nfrozen = true\n", "has no key match"),
                                   {"[[group]]\nmatch = \"a,b\"\nfrozen = true\n", "neither commas nor colons"},
                                   {"[[group]]\nmatch = \"head.*\"\nspeed = 3\n", "'speed=3' is not known"},
                                   {"[[group]]\nmatch = [1]\n", "key 'group.match' is neither text nor number"}})
    EXPECT_TRUE(has(error_text_of([&, t = text] { of(t); }), said)) << error_text_of([&, t = text] { of(t); });
}

TEST(ParameterGroups, MatchNamesOfParameters) {
  auto model = plan::preset("gpt2-nano");
  model.vocabulary = 257;
  const auto matched = engine::matched_parameters({parameter_groups("layers.*.attention.q.weight:frozen"), 1}, model);
  ASSERT_EQ(matched.size(), 1u);
  EXPECT_EQ(matched[0].parameters, model.layers);
  EXPECT_EQ(matched[0].elements, model.layers * model.hidden * model.hidden);
  EXPECT_EQ(engine::text_of(matched[0]),
            fmt::format("layers.*.attention.q.weight: frozen; {} parameters, {} elements", model.layers,
                        base::count_text(model.layers * model.hidden * model.hidden)));
  const auto said = [&](const std::string& text) {
    return error_text_of([&] { engine::require_matches({parameter_groups(text), 1}, model); });
  };
  EXPECT_TRUE(has(said("layers.7.*:frozen"), "--group layers.7.* matches no parameter that is trained"))
      << said("x:frozen");
  EXPECT_TRUE(has(said("*:frozen"), "--group freezes every parameter"));
  EXPECT_TRUE(has(said("layers.*:frozen,embedding.*:learning-rate-scale=0,head.*:frozen"), "freezes every parameter"));
  EXPECT_EQ(said("*:frozen,head.*:learning-rate-scale=2"), "not refused");
  EXPECT_EQ(said("*:frozen,head.*:trained"), "not refused");
  EXPECT_EQ(said("head.*:trained,*:frozen"), said("*:frozen"));
  EXPECT_EQ(said("*:frozen,head.*:weight-decay=2"), said("*:frozen"));
}

// Powers of two are exact factors of a rate.
TEST(ParameterGroups, RatesOfLayersFallFromTheHead) {
  auto model = plan::preset("gpt2-nano");
  model.vocabulary = 257;
  const auto layers = static_cast<double>(model.layers);
  for (const auto& flat_group : plan::flat_groups(model)) {
    const auto scale = engine::rate_scale_of_layer(flat_group, 0.5, model);
    auto want = 1.0;
    if (flat_group.part == plan::Part::input) want = std::pow(0.5, layers + 1);
    else if (flat_group.name == "layers.00") want = std::pow(0.5, layers);
    else if (flat_group.name == fmt::format("layers.{:02}", model.layers - 1)) want = 0.5;
    else if (flat_group.part == plan::Part::layers) continue;
    EXPECT_EQ(scale, want) << flat_group.name;
  }
}

// Layers of both towers are counted from the head on, and the bridge stands with the encoder's last layer.
TEST(ParameterGroups, RatesOfTowersFallFromTheHead) {
  auto model = plan::preset("gpt2-nano");
  model.vocabulary = 257, model.layers = 5, model.encoder_layers = 3, model.decoder_layers = 2;
  std::map<std::string, double> seen;
  for (const auto& flat_group : plan::flat_groups(model))
    seen[flat_group.name] = engine::rate_scale_of_layer(flat_group, 0.5, model);
  const std::map<std::string, double> want = {{"embedding.tokens", 1.0 / 64},  {"encoder.positions", 1.0 / 64},
                                              {"encoder.layers.00", 1.0 / 32}, {"encoder.layers.01", 1.0 / 16},
                                              {"encoder.layers.02", 1.0 / 8},  {"encoder", 1.0 / 8},
                                              {"decoder.positions", 1.0 / 8},  {"decoder.layers.00", 1.0 / 4},
                                              {"decoder.layers.01", 1.0 / 2},  {"head", 1}};
  EXPECT_EQ(seen, want);
}

class GroupedRuns : public ::testing::Test {
 protected:
  std::string bits(engine::RunConfig c, const ParallelLayout& layout = {}) {
    c.output += fmt::format("-{}", ++runs_made_);
    c.steps = std::min<std::int64_t>(c.steps, 6), c.global_batch = 6;
    return runs_.bits(c, runs_.run(c, layout));
  }
  engine::RunConfig config(const std::string& optimizer) {
    auto c = runs_.config("run");
    c.optimizer = optimizer, c.model = runs_.llama(), c.weight_decay = 0.25;
    if (optimizer == "lion" || optimizer == "muon") c.learning_rate = 1e-3;
    return c;
  }
  SmallRun runs_;
  int runs_made_ = 0;
};

TEST_F(GroupedRuns, AFactorForAllIsAnotherRate) {
  for (const char* optimizer : {"adamw", "adam", "sgd", "lamb", "lion", "muon", "adafactor"}) {
    auto scaled = config(optimizer), other = scaled;
    scaled.groups = "*:learning-rate-scale=0.5", other.learning_rate /= 2;
    EXPECT_EQ(bits(scaled), bits(other)) << optimizer;
  }
}

TEST_F(GroupedRuns, AWeightDecayReplacesTheRuns) {
  for (const char* optimizer : {"adamw", "lamb", "muon", "adafactor"}) {
    auto without = config(optimizer), other = without;
    without.groups = "*:weight-decay=0", other.weight_decay = 0;
    EXPECT_EQ(bits(without), bits(other)) << optimizer;
    auto more = config(optimizer), most = more;
    more.groups = "*:weight-decay=0,layers.*.weight:weight-decay=0.5,head.weight:weight-decay=0.5";
    more.groups += ",*norm.weight:weight-decay=0";
    most.weight_decay = 0.5;  // has neither norms nor embeddings
    EXPECT_EQ(bits(more), bits(most)) << optimizer;
  }
}

TEST_F(GroupedRuns, ALaterGroupCountsAndLayersDecay) {
  auto decayed = config("adamw"), grouped = decayed;
  decayed.layer_decay = 0.5;
  grouped.groups =
      "layers.*:learning-rate-scale=7,embedding.*:learning-rate-scale=0.125,layers.00.*:learning-rate-scale=0.25,"
      "layers.01.*:learning-rate-scale=0.5";
  const auto found = bits(decayed);
  EXPECT_EQ(found, bits(grouped));
  EXPECT_NE(found, bits(config("adamw")));
}

TEST_F(GroupedRuns, FrozenParametersKeepTheirValuesAndAreInNoNorm) {
  auto c = config("adamw");
  c.output += "-frozen", c.steps = 4, c.global_batch = 6;
  c.groups = "embedding.*:frozen,layers.00.*:frozen,layers.*norm*:frozen";
  auto begun = c;
  begun.output += "-begun", begun.stop_after = 1, begun.groups = "*:learning-rate-scale=0,head.*:learning-rate-scale=1";
  const auto frozen = runs_.run(c, {}), first = runs_.run(begun, {});
  checkpoint::Reader after(frozen.checkpoint), before(first.checkpoint);  // step 1 leaves all but the head as it was
  int same = 0, changed = 0;
  for (const auto& t : after.tensors())
    for (const auto& b : before.tensors()) {
      if (t.path != b.path || !t.path.starts_with("/model/") || has(t.path, "head.")) continue;
      const bool is_frozen = has(t.path, "embedding") || has(t.path, "layers.00") || has(t.path, "norm");
      EXPECT_EQ(t.fingerprint == b.fingerprint, is_frozen) << t.path;
      ++(is_frozen ? same : changed);
    }
  EXPECT_GT(same, 5);
  EXPECT_GT(changed, 5);
  // The norm of the first step is below that of a run in which everything is trained.
  auto whole = begun;
  whole.output += "-whole", whole.groups.clear();
  runs_.run(whole, {});
  const double of_some = SmallRun::metrics(c)[0]["gradient_norm"],
               of_all = SmallRun::metrics(whole)[0]["gradient_norm"];
  EXPECT_LT(of_some, 0.999 * of_all);
  EXPECT_GT(of_some, 0.01 * of_all);
}

TEST_F(GroupedRuns, HaveTheSameBitsOnEveryLayoutAndAfterAStop) {
  for (const char* optimizer : {"adamw", "lamb", "muon", "adafactor"}) {
    auto c = config(optimizer);
    c.groups = "layers.*.attention.*:learning-rate-scale=0.3,embedding.*:frozen,*.ffn.*:weight-decay=0.03";
    c.layer_decay = 0.8;
    const auto expected = bits(c);
    std::vector<ParallelLayout> layouts(5);
    layouts[0].ranks = 3, layouts[0].zero = 1, layouts[1].ranks = 3, layouts[1].zero = 3, layouts[1].threads = 2;
    layouts[2].ranks = 2, layouts[2].tensor = 2, layouts[3].ranks = 2, layouts[3].pipeline = 2;
    layouts[4].ranks = 4, layouts[4].tensor = 2, layouts[4].zero = 2;
    for (const auto& layout : layouts) {
      EXPECT_EQ(bits(c, layout), expected) << optimizer << " " << layout.ranks;
      testing::expect_no_difference(runs_.reports(), optimizer);
    }
  }
  auto c = config("adamw");
  c.groups = "layers.*:learning-rate-scale=0.3", c.steps = 6, c.global_batch = 6, c.stop_after = 3;
  runs_.run(c, {});
  auto other = c;
  other.stop_after = 0, other.groups = "layers.*:learning-rate-scale=0.5";
  EXPECT_TRUE(has(error_text_of([&] { runs_.run(other, {}); }),
                  "--group: the checkpoint has layers.*:learning-rate-scale=0.3, this run "
                  "layers.*:learning-rate-scale=0.5"));
  other.groups.clear(), other.layer_decay = 0.5, other.change = "group";
  EXPECT_TRUE(has(error_text_of([&] { runs_.run(other, {}); }), "--layer-decay: the checkpoint has 1.0, this run 0.5"));
  other.change = "group,layer-decay";
  EXPECT_EQ(runs_.run(other, {}).step, 6);
}

}  // namespace parameter_groups_test
}  // namespace trainyard
