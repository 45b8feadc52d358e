// Tests that layers with experts have two flat groups: parameter counts, buffers, tables, leases and stages, each
// compared with a walk through the blocks one by one.
#include "libtrain/plan/blocks/flat_group_table.h"
#include "libtrain/plan/cost/flops.h"
#include "libtrain/plan/schedule/accesses.h"
#include "libtrain/plan/schedule/boundaries.h"
#include "libtrain/plan/schedule/stages.h"
#include "libtrain/plan/spec/layer_model.h"
#include "libtrain/plan/spec/presets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace trainyard::plan {
namespace {

ModelConfig published(const char* name, std::int64_t vocabulary) {
  auto m = preset(name);
  m.vocabulary = vocabulary, m.lanes = 1;
  return m;
}

ModelConfig mixed(std::vector<std::int64_t> count, std::int64_t every, std::int64_t dense_layers, std::int64_t layers) {
  auto m = preset("gpt2-nano");
  m.vocabulary = 300, m.lanes = 1, m.layers = layers;
  m.experts.count = std::move(count), m.experts.every = every, m.experts.dense_layers = dense_layers;
  return m;
}

// Dense layers beside layers with experts, in every form that a list of layers can have.
std::vector<ModelConfig> models() {
  auto residual = mixed({4}, 2, 0, 5), shared = mixed({3}, 1, 1, 4), sigmoid = mixed({5}, 1, 0, 2);
  residual.experts.residual = true;
  shared.experts.shared = 2, shared.experts.ffn = 48, shared.activation = Activation::swiglu,
  shared.biases = Biases::off;
  shared.tied = false, sigmoid.experts.score = GateScore::sigmoid;
  return {mixed({4}, 1, 0, 5),
          mixed({4}, 2, 0, 6),
          mixed({2, 4, 8}, 2, 0, 6),
          mixed({2, 2, 16}, 1, 3, 6),
          mixed({3}, 3, 1, 7),
          mixed({1}, 1, 0, 1),
          residual,
          shared,
          sigmoid};
}

std::vector<ModelPart> stages_of(const ModelConfig& m, int stages, int chunks) {
  const auto cuts = uniform_boundaries(item_count(m), stages * chunks);
  std::vector<ModelPart> out;
  for (int s = 0; s < stages; ++s) {
    std::vector<Items> runs;
    for (int c = 0; c < chunks; ++c)
      runs.push_back(
          {cuts[static_cast<std::size_t>(c * stages + s)], cuts[static_cast<std::size_t>(c * stages + s + 1)]});
    out.push_back({m, runs});
  }
  return out;
}

std::vector<std::string> text_of(const ModelPart& part, const std::vector<Access>& accesses) {
  const auto all = flat_groups(part);
  std::vector<std::string> out;
  for (const auto& a : accesses)
    out.push_back((a.kind == Access::Kind::lease ? "lease " : "commit ") +
                  all[static_cast<std::size_t>(a.occurrence.flat_group)].name);
  return out;
}

double billions(std::int64_t n) { return static_cast<double>(n) * 1e-9; }

}  // namespace

// Rajbhandari et al. (2022), table 1 and section 3; Jiang et al. (2024), section 2; Dai et al. (2024), table 3. Their
// counts leave out the tables where they say so.
TEST(ExpertCounts, OfPublishedModels) {
  const auto nlg = published("nlg-350m-moe-128", 51200);
  EXPECT_NEAR(billions(parameter_count(nlg)), 13.15, 0.05);
  const auto mixtral = published("mixtral-8x7b", 32000);
  EXPECT_NEAR(billions(parameter_count(mixtral)), 46.70, 0.005);
  EXPECT_NEAR(billions(active_parameter_count(mixtral)), 12.88, 0.005);
  const auto deepseek = published("deepseek-16b", 102400);
  EXPECT_NEAR(billions(parameter_count(deepseek)), 16.38, 0.005);
  EXPECT_NEAR(billions(active_parameter_count(deepseek)), 2.83, 0.005);
}

// The reference's other decoders: 1.3 B with 128 experts, and the pyramid with a residual part.
TEST(ExpertCounts, OfTheReferencesList) {
  auto large = published("nlg-350m-moe-128", 51200);
  large.hidden = 2048, large.heads = large.kv_heads = 16, large.ffn = 8192;
  EXPECT_NEAR(billions(parameter_count(large)), 52.47, 0.1);
  auto pyramid = published("nlg-350m-moe-128", 51200);
  pyramid.experts.count = {32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 64, 64};
  pyramid.experts.residual = true;
  EXPECT_NEAR(billions(parameter_count(pyramid)), 4.12, 0.05);
}

// In closed form: attention 4 h^2 + 4 h and two norms 4 h; an expert 2 h f + f + h; a gate e h.
TEST(ExpertCounts, InClosedForm) {
  const std::int64_t h = 32, f = 128, v = 300, context = 64;
  const auto expert = 2 * h * f + f + h, dense = 4 * h * h + 4 * h + 4 * h, tables = (v + context) * h + 2 * h;
  const auto m = mixed({2, 4, 8}, 2, 0, 6);
  EXPECT_EQ(parameter_count(m), tables + 6 * dense + 3 * expert + (2 + 4 + 8) * (expert + h));
  EXPECT_EQ(active_parameter_count(m), tables + 6 * dense + 6 * expert + (2 + 4 + 8) * h);
  // Neighbouring layers with different numbers of experts are not alike.
  EXPECT_EQ(parameter_count(mixed({2, 2, 16}, 1, 3, 6)), tables + 6 * dense + 3 * expert + (2 + 2 + 16) * (expert + h));
  auto two = m;
  two.experts.top_k = 2;
  EXPECT_EQ(active_parameter_count(two) - active_parameter_count(m), 3 * expert);
  auto residual = m;
  residual.experts.residual = true;
  EXPECT_EQ(parameter_count(residual) - parameter_count(m), 3 * (expert + 2 * h));
  EXPECT_EQ(active_parameter_count(residual) - active_parameter_count(m), 3 * (expert + 2 * h));
  auto shared = m;
  shared.experts.shared = 3, shared.experts.ffn = 64;
  const auto small = 2 * h * 64 + 64 + h, beside = 2 * h * 3 * 64 + 3 * 64 + h;
  EXPECT_EQ(parameter_count(shared), tables + 6 * dense + 3 * expert + (2 + 4 + 8) * (small + h) + 3 * beside);
  auto sigmoid = m;
  sigmoid.experts.score = GateScore::sigmoid;
  EXPECT_EQ(parameter_count(sigmoid) - parameter_count(m), 2 + 4 + 8);
  const auto without = mixed({}, 1, 0, 6);
  EXPECT_EQ(active_parameter_count(without), parameter_count(without));
}

// For each token: six products of an expert's matrices, and the products of the gate.
TEST(ExpertCounts, FlopsAreOfTheChosen) {
  const auto dense = mixed({}, 1, 0, 6), m = mixed({4}, 2, 0, 6);
  const double tokens = 3 * 64, expert = 2.0 * 32 * 128, gate = 4.0 * 32;
  auto two = m;
  two.experts.top_k = 2;
  EXPECT_DOUBLE_EQ(step_flops(m, 3, 64) - step_flops(dense, 3, 64), 6 * tokens * 3 * gate);
  EXPECT_DOUBLE_EQ(step_flops(two, 3, 64) - step_flops(m, 3, 64), 6 * tokens * 3 * expert);
}

TEST(ExpertFlatGroups, OfALayerAreItsOwnAndThatOfItsExperts) {
  const auto all = flat_groups(mixed({2}, 2, 0, 2));
  std::vector<std::string> names;
  for (const auto& u : all) names.push_back(u.name);
  EXPECT_EQ(names, (std::vector<std::string>{"embedding.tokens", "embedding.positions", "layers.00", "layers.01",
                                             "layers.01.experts", "head"}));
  names.clear();
  for (const auto& p : all[4].parameters) names.push_back(p.name);
  EXPECT_EQ(names, (std::vector<std::string>{"layers.01.experts.00.up.weight", "layers.01.experts.01.up.weight",
                                             "layers.01.experts.00.up.bias", "layers.01.experts.01.up.bias",
                                             "layers.01.experts.00.down.weight", "layers.01.experts.01.down.weight",
                                             "layers.01.experts.00.down.bias", "layers.01.experts.01.down.bias"}));
  EXPECT_GE(find_index(all[3], "gate.weight"), 0);
  EXPECT_EQ(find_index(all[3], "up.weight"), -1);
}

// Compares the planner's table, which lists equal flat groups once, with the flat groups one by one. It does so for
// whole models and for their stages.
TEST(ExpertFlatGroups, TheTableSaysWhatTheFlatGroupsSay) {
  for (const auto& m : models())
    for (const auto& [stages, chunks] : {std::pair{1, 1}, {2, 1}, {3, 1}, {1, 3}})
      for (const auto& part : stages_of(m, stages, chunks)) {
        const Topology ranks({{Axis::data, 3}});
        const FlatGroupSet set(part, ranks);
        ASSERT_EQ(set.table.flat_groups(), static_cast<std::int64_t>(set.flat_groups.size()));
        ASSERT_EQ(set.table.occurrences(), static_cast<std::int64_t>(set.occurrences.size()));
        std::vector<int> seen(set.flat_groups.size(), 0);
        for (const auto& e : set.table.entries())
          for (std::int64_t i = 0; i < e.times; ++i) {
            const auto u = static_cast<std::size_t>(e.index + i * e.stride);
            ASSERT_LT(u, set.flat_groups.size());
            ++seen[u];
            EXPECT_EQ(set.flat_groups[u].part, e.flat_group.part);
            EXPECT_EQ(set.flat_groups[u].parameters.size(), e.flat_group.parameters.size()) << set.flat_groups[u].name;
            EXPECT_EQ(set.layouts[u].padded, e.layout.padded) << set.flat_groups[u].name;
            EXPECT_EQ(set.layouts[u].shard, e.layout.shard) << set.flat_groups[u].name;
            EXPECT_EQ(set.flat_groups[u].name.ends_with(".experts"), e.flat_group.part == Part::layers && e.place == 1)
                << set.flat_groups[u].name;
            const auto occurrences = std::count_if(
                set.occurrences.begin(), set.occurrences.end(),
                [&](const Occurrence& occurrence) { return occurrence.flat_group == static_cast<int>(u); });
            EXPECT_EQ(e.occurrences, occurrences) << set.flat_groups[u].name;
          }
        EXPECT_EQ(seen, std::vector<int>(set.flat_groups.size(), 1));
      }
}

TEST(ExpertFlatGroups, LeasesOfTheTableAreThoseOfTheLists) {
  for (const auto& m : models()) {
    const FlatGroupSet set(m, Topology());
    std::map<int, std::int64_t> training, evaluation, commits;
    for (const auto& a : training_accesses(m, 0))
      ++(a.kind == Access::Kind::lease ? training : commits)[a.occurrence.flat_group];
    for (const auto& a : evaluation_accesses(m, 0)) ++evaluation[a.occurrence.flat_group];
    for (const auto& e : set.table.entries())
      for (std::int64_t i = 0; i < e.times; ++i) {
        const auto u = static_cast<int>(e.index + i * e.stride);
        EXPECT_EQ(e.training_leases, training[u]) << e.flat_group.name << " " << i;
        EXPECT_EQ(e.evaluation_leases, evaluation[u]) << e.flat_group.name << " " << i;
        EXPECT_EQ(e.occurrences, commits[u]) << e.flat_group.name << " " << i;
      }
  }
}

// A layer's experts are leased inside the layer's lease, and committed before the layer.
TEST(ExpertFlatGroups, AccessesAreThoseOfThePlacedBlocks) {
  EXPECT_EQ(text_of(mixed({2}, 2, 0, 2), backward_accesses(mixed({2}, 2, 0, 2), 0)),
            (std::vector<std::string>{"lease head", "lease embedding.tokens", "commit embedding.tokens", "commit head",
                                      "lease layers.01", "lease layers.01.experts", "commit layers.01.experts",
                                      "commit layers.01", "lease layers.00", "commit layers.00",
                                      "commit embedding.tokens", "commit embedding.positions"}));
  for (const auto& m : models()) {
    std::vector<std::string> forward, backward;
    for (const auto& block : placed_blocks(m)) {
      if (block.part != Part::layers) continue;
      const bool experts = layer_has_experts(m, block.index);
      ASSERT_EQ(block.flat_groups.size(), experts ? 2u : 1u);
      const auto &layer = block.flat_groups[0].name, own = layer + ".experts";
      const auto add = [](auto& to, auto at, std::vector<std::string> what) {
        to.insert(at, what.begin(), what.end());
      };
      add(forward, forward.end(),
          experts ? std::vector{"lease " + layer, "lease " + own} : std::vector{"lease " + layer});
      add(backward, backward.begin(),
          experts ? std::vector{"lease " + layer, "lease " + own, "commit " + own, "commit " + layer}
                  : std::vector{"lease " + layer, "commit " + layer});
    }
    const auto of_layers = [&](const std::vector<Access>& accesses) {
      auto all = text_of(m, accesses);
      std::erase_if(all, [](const auto& text) { return text.find("layers.") == std::string::npos; });
      return all;
    };
    EXPECT_EQ(of_layers(forward_accesses(m, 0)), forward);
    EXPECT_EQ(of_layers(evaluation_accesses(m, 0)), forward);
    EXPECT_EQ(of_layers(backward_accesses(m, 0)), backward);
  }
}

TEST(ExpertFlatGroups, StagesHaveTheFlatGroupsOfTheModelOnce) {
  for (const auto& m : models())
    for (const auto& [stages, chunks] : {std::pair{2, 1}, {3, 1}, {2, 2}}) {
      if (item_count(m) < stages * chunks) continue;
      std::multiset<std::string> left;
      for (const auto& u : flat_groups(m)) left.insert(u.name);
      for (const auto& part : stages_of(m, stages, chunks)) {
        const FlatGroupSet set(part, replicas_of(2, 1));
        for (std::size_t u = 0; u < set.flat_groups.size(); ++u)
          if (!set.borrowed[u]) {
            EXPECT_EQ(left.erase(set.flat_groups[u].name), 1u) << set.flat_groups[u].name;
          }
      }
      EXPECT_TRUE(left.empty()) << ::testing::PrintToString(left);
    }
}

// While a micro-batch passes, a layer, its experts and the next layer are in memory at the same time. So no two of
// `slots` neighbours of one kind share a buffer, and flat groups of two kinds never do.
TEST(ExpertSlots, NeighboursHaveSlotsOfTheirOwn) {
  for (const auto& m : models())
    for (const int slots : {1, 2, 3, 40}) {
      const FlatGroupSet set(m, Topology({{Axis::data, 2}}));
      const SlotPlan plan(set.table, slots);
      std::vector<std::size_t> layers, experts, others;
      for (std::size_t u = 0; u < set.flat_groups.size(); ++u)
        (set.flat_groups[u].part != Part::layers         ? others
         : set.flat_groups[u].name.ends_with(".experts") ? experts
                                                         : layers)
            .push_back(u);
      std::set<int> used, of_others;
      const auto rotation = [&](const std::vector<std::size_t>& kind) {
        std::set<int> own;
        for (std::size_t i = 0; i < kind.size(); ++i) {
          const int slot = plan.slot_of(static_cast<int>(kind[i]));
          own.insert(slot);
          EXPECT_EQ(slot, plan.slot_of(static_cast<int>(kind[i % static_cast<std::size_t>(slots)]))) << i;
          EXPECT_GE(plan.elements()[static_cast<std::size_t>(slot)], set.layouts[kind[i]].padded);
        }
        EXPECT_EQ(own.size(), std::min(kind.size(), static_cast<std::size_t>(slots)));
        for (const int slot : own) EXPECT_TRUE(used.insert(slot).second) << "slot " << slot << " of two kinds";
      };
      rotation(layers), rotation(experts);
      for (const auto u : others) EXPECT_TRUE(used.insert(plan.slot_of(static_cast<int>(u))).second);
      EXPECT_EQ(plan.elements().size(), used.size());
      // No buffer is larger than the largest flat group that uses it.
      for (std::size_t s = 0; s < plan.elements().size(); ++s) {
        std::int64_t most = 0;
        for (std::size_t u = 0; u < set.flat_groups.size(); ++u)
          if (plan.slot_of(static_cast<int>(u)) == static_cast<int>(s)) most = std::max(most, set.layouts[u].padded);
        EXPECT_EQ(plan.elements()[s], most);
      }
    }
}

}  // namespace trainyard::plan
