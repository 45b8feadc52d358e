// Tests a model's experts as data: which layers have them, their capacity, the keys of files, and invalid settings.
#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/plan/blocks/inventory.h"
#include "libtrain/plan/model_file/load_model.h"
#include "libtrain/plan/model_file/model_fields.h"
#include "libtrain/plan/model_file/model_json.h"
#include "libtrain/plan/model_file/model_problems.h"
#include "libtrain/plan/problems.h"
#include "libtrain/plan/spec/lanes.h"
#include "libtrain/plan/spec/layer_model.h"
#include "libtrain/plan/spec/presets.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace trainyard::plan {
namespace experts_test {

using Numbers = std::vector<std::int64_t>;

ModelConfig dense() {
  auto m = preset("gpt2-nano");
  m.vocabulary = 257, m.lanes = 1, m.layers = 6;
  return m;
}

ModelConfig with_count(Numbers count, std::int64_t every = 1, std::int64_t dense_layers = 0) {
  auto m = dense();
  m.experts.count = std::move(count), m.experts.every = every, m.experts.dense_layers = dense_layers;
  return m;
}

Numbers layers_with_experts(const ModelConfig& m) {
  Numbers out;
  for (std::int64_t l = 0; l < m.layers; ++l)
    if (layer_has_experts(m, l)) out.push_back(l);
  return out;
}

ModelConfig file(const std::string& text) {
  const testing::Scratch folder;
  testing::spit(folder.path + "/m.toml", text);
  return load_model(folder.path + "/m.toml");
}

// The refusal of a file, with its hint, or "accepted".
std::string refusal(const std::string& text) {
  try {
    file(text);
  } catch (const base::InputError& e) {
    return std::string(e.what()) + " (" + e.hint() + ")";
  }
  return "accepted";
}

std::int64_t places(const char* factor, std::int64_t tokens, std::int64_t count, std::int64_t top_k,
                    std::int64_t least = 0) {
  ExpertConfig e;
  e.capacity_factor = factor, e.top_k = top_k, e.min_capacity = least;
  return expert_capacity(e, count, tokens, Pass::train);
}

std::string problem_of(const std::function<void(ModelConfig&)>& change) {
  auto m = with_count({4});
  change(m);
  const auto found = problems(m);
  EXPECT_LE(found.size(), 1u) << ::testing::PrintToString(found);
  return found.empty() ? "" : found[0];
}

TEST(ExpertLayers, EveryNthBehindTheDenseOnes) {
  EXPECT_EQ(layers_with_experts(dense()), Numbers{});
  EXPECT_EQ(layers_with_experts(with_count({4})), (Numbers{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(layers_with_experts(with_count({4}, 2)), (Numbers{1, 3, 5}));
  EXPECT_EQ(layers_with_experts(with_count({4}, 4)), (Numbers{3}));
  EXPECT_EQ(layers_with_experts(with_count({4}, 1, 1)), (Numbers{1, 2, 3, 4, 5}));
  EXPECT_EQ(layers_with_experts(with_count({4}, 2, 1)), (Numbers{2, 4}));
  EXPECT_EQ(layers_with_experts(with_count({4}, 7)), Numbers{});
  for (const std::int64_t every : {1, 2, 3, 5, 7})
    for (const std::int64_t first : {0, 1, 2, 6, 9}) {
      const auto m = with_count({4}, every, first);
      std::int64_t seen = 0;
      for (std::int64_t l = 0; l <= m.layers; ++l) {
        EXPECT_EQ(expert_layers(m, l), seen) << every << " " << first << " " << l;
        seen += layer_has_experts(m, l) ? 1 : 0;
      }
    }
}

TEST(ExpertLayers, ALayerSeesItsOwnNumberAndItsOwnBranches) {
  const auto m = with_count({2, 4, 8}, 2);
  for (const auto& [layer, count] : {std::pair<std::int64_t, std::int64_t>{1, 2}, {3, 4}, {5, 8}}) {
    const auto seen = layer_model(m, layer);
    EXPECT_EQ(expert_count(seen), count);
    EXPECT_EQ(seen.branches, (std::vector<std::string>{"attention", "experts"}));
  }
  for (const std::int64_t layer : {0, 2, 4}) EXPECT_EQ(layer_model(m, layer), dense());
  EXPECT_EQ(expert_count(layer_model(with_count({7}), 5)), 7);
}

TEST(ExpertLayers, AlikeAreThoseThatSeeTheSameModel) {
  for (const auto& m : {dense(), with_count({4}), with_count({4}, 2), with_count({4}, 1, 3),
                        with_count({2, 2, 4, 4, 4}, 1, 1), with_count({2, 2, 4}, 2), with_count({3}, 3)})
    for (std::int64_t first = 0; first < m.layers; ++first)
      for (auto end = first + 1; end <= m.layers; ++end) {
        auto next = first + 1;
        while (next < end && layer_model(m, next) == layer_model(m, first)) ++next;
        EXPECT_EQ(alike_layers(m, first, end), next - first) << first << " " << end;
      }
}

TEST(ExpertCapacity, IsOfTheExactFraction) {
  EXPECT_EQ(places("1.2", 50, 4, 1), 15);  // 1.2 in binary is larger and would give 16
  EXPECT_EQ(places("1.1", 10, 11, 1), 1);
  EXPECT_EQ(places("1.1", 100, 10, 1), 11);
  EXPECT_EQ(places("0.1", 30, 3, 1), 1);
  EXPECT_EQ(places("0.1", 31, 3, 1), 2);
  EXPECT_EQ(places("1.25", 8, 4, 2), 5);
  EXPECT_EQ(places("1.000000001", 8, 4, 1), 3);
  EXPECT_EQ(places("1", 8, 3, 1), 3);
  EXPECT_EQ(places("0.5", 8, 4, 3), 3);  // the reference's gate of three choices
}

TEST(ExpertCapacity, HasBounds) {
  EXPECT_EQ(places("1", 8, 4, 1, 4), 4);
  EXPECT_EQ(places("1", 3, 4, 1, 4), 3) << "no more places than tokens";
  EXPECT_EQ(places("999999999", 16, 2, 2), 16);
  EXPECT_EQ(places("0.000000001", 16, 2, 2), 1);
  EXPECT_EQ(places("999999999.999999999", std::int64_t{1} << 48, 1, 4096), std::int64_t{1} << 48);
  EXPECT_EQ(places("none", 16, 2, 2, 4), 0);
  ExpertConfig e;
  e.top_k = 2, e.capacity_factor = "1", e.min_capacity = 0;
  EXPECT_EQ(expert_rows(e, 4, 10, Pass::train), 20);
  e.capacity_factor = "0.5";
  EXPECT_EQ(expert_capacity(e, 4, 10, Pass::train), 3);
  EXPECT_EQ(expert_rows(e, 4, 10, Pass::train), 12);
  e.capacity_factor = "none";
  EXPECT_EQ(expert_rows(e, 4, 10, Pass::train), 20);
}

TEST(ExpertCapacity, EvaluationsMayHaveTheirOwn) {
  ExpertConfig e;
  e.capacity_factor = "1", e.min_capacity = 1;
  EXPECT_EQ(expert_capacity(e, 4, 16, Pass::evaluate), 4);
  e.evaluation_capacity_factor = "2";
  EXPECT_EQ(expert_capacity(e, 4, 16, Pass::evaluate), 8);
  EXPECT_EQ(expert_capacity(e, 4, 16, Pass::train), 4);
  e.evaluation_capacity_factor = "none";
  EXPECT_EQ(expert_capacity(e, 4, 16, Pass::evaluate), 0);
  EXPECT_EQ(expert_rows(e, 4, 16, Pass::evaluate), 16);
  e.capacity_factor = "none", e.evaluation_capacity_factor = "1";
  EXPECT_EQ(expert_capacity(e, 4, 16, Pass::train), 0);
  EXPECT_EQ(expert_capacity(e, 4, 16, Pass::evaluate), 4);
}

TEST(ExpertFile, ATableAndFlatKeysAreTheSame) {
  const auto table = file(
      "layers = 6\n[experts]\ncount = 4\ntop-k = 2\nevery = 2\ncapacity-factor = 1.5\n"
      "overflow = \"position\"\nresidual = true\n");
  EXPECT_EQ(table.experts.count, Numbers{4});
  EXPECT_EQ(table.experts.top_k, 2);
  EXPECT_EQ(table.experts.every, 2);
  EXPECT_EQ(table.experts.capacity_factor, "1.5");
  EXPECT_EQ(table.experts.overflow, Overflow::position);
  EXPECT_TRUE(table.experts.residual);
  EXPECT_EQ(table,
            file("layers = 6\nexperts-count = 4\nexperts-top-k = 2\nexperts_every = 2\n"
                 "experts-capacity-factor = \"1.5\"\nexperts-overflow = \"position\"\nexperts-residual = \"on\"\n"));
  EXPECT_EQ(table, file("layers = 6\nexperts-top-k = 2\n[experts]\ncount = [4]\nevery = 2\ncapacity_factor = \"1.5\"\n"
                        "overflow = \"position\"\nresidual = true\n"));
  EXPECT_EQ(file("layers = 6\n[experts]\nevery = 2\ncount = [2, 2, 4]\n").experts.count, (Numbers{2, 2, 4}));
  EXPECT_EQ(file("layers = 6\n[experts]\nevery = 2\ncount = \"2,2,4\"\n").experts.count, (Numbers{2, 2, 4}));
  EXPECT_EQ(file("[experts]\ncount = 4\ncapacity-factor = 2\n").experts.capacity_factor, "2");
  EXPECT_EQ(file("[experts]\ncount = 4\ncapacity-factor = \"none\"\n").experts.capacity_factor, "none");
  EXPECT_TRUE(file("experts-count = []\n").experts.count.empty());
}

TEST(ExpertFile, RefusalsNameWhatIsMeant) {
  const auto refused = [](const std::string& text, const char* part) {
    const auto said = refusal(text);
    EXPECT_NE(said.find(part), std::string::npos) << text << "\n" << said;
  };
  refused("[experts]\ncount = 4\ntopk = 2\n", "'experts-top-k'");
  refused("[experts]\ncount = 4\nevry = 2\n", "'experts-every'");
  refused("[experts]\ncount = 4.5\n", "experts.count '4.5' is not a whole number");
  refused("[experts]\ncount = [4, \"x\"]\n", "experts.count 'x' is not a whole number");
  refused("[experts]\ncount = [[4]]\n", "experts.count");
  refused("[experts]\ncount = 0\n", "experts.count 0 must lie between 1 and 4096");
  refused("[experts]\ncount = 4\ntop-k = [1]\n", "experts.top-k' is neither text nor number");
  refused("[experts]\ncount = 4\nresidual = 1\n", "experts.residual 1 is not known; use off, on");
  refused("[experts]\ncount = 4\ncapacity-factor = 0\n", "neither a positive decimal number nor none");
  refused("[experts]\ncount = 4\ncapacity-factor = \"same\"\n", "neither a positive decimal number nor none");
  refused("[experts]\ncount = 4\ncapacity-factor = -1.5\n", "neither a positive decimal number nor none");
  refused("[experts]\ncount = 4\noverflow = \"positon\"\n", "position");
  refused("[experts]\ncount = 4\nbias-rate = 0.1\n", "experts-bias-rate needs experts-score sigmoid");
  refused("[experts]\ncount = 4\ncapacity-factor = \"none\"\noverflow = \"position\"\n", "experts-overflow is for");
  refused("[experts]\ncount = 4\ncapacity-factor = \"none\"\nmin-capacity = 9\n", "experts-min-capacity is for");
  refused("[experts]\ncount = 4\nnetwork = \"fnn\"\n", "ffn");
  refused("[experts]\ncount = 4\ntop-k = 1\ntop_k = 1\n", "one key, given twice");
  refused("experts-count = 4\n[experts]\ncount = 4\n", "one key, given twice");
  refused("[experts]\ncount = 4\n[experts]\nevery = 2\n", "experts");
  refused("experts = 4\n", "unknown key 'experts'");
  refused("[[experts]]\ncount = 4\n", "unknown key 'experts'");
  refused("[experts.count]\nx = 4\n", "experts.count");
}

TEST(ExpertFile, WhatIsPrintedIsReadBack) {
  const testing::Scratch folder;
  for (const auto& name : preset_names()) {
    auto m = preset(name);
    testing::spit(folder.path + "/m.toml", base::print_fields(fields_of(m)));
    auto again = load_model(folder.path + "/m.toml");
    EXPECT_EQ(again, m) << name;
  }
  auto m = with_count({2, 4, 8}, 2);
  auto& e = m.experts;
  e.ffn = 48, e.capacity_factor = "1.125", e.evaluation_capacity_factor = "none", e.min_capacity = 7,
  e.overflow = Overflow::probability, e.noise = GateNoise::jitter, e.score = GateScore::sigmoid, e.bias_rate = 0.25,
  e.shared = 3, e.balance_loss = 1e-7, e.z_loss = 1.0 / 3, e.top_k = 2, e.scale = 2.5, e.groups = e.top_groups = 2;
  testing::spit(folder.path + "/m.toml", base::print_fields(fields_of(m)));
  EXPECT_EQ(load_model(folder.path + "/m.toml"), m);
  EXPECT_EQ(model_from_json(model_to_json(m), "x", ""), m);
  EXPECT_EQ(current_form(model_to_json(m)), nlohmann::json(model_to_json(m)));
}

TEST(ExpertJson, AModelWithoutExpertsHasTheJsonItAlwaysHad) {
  const auto json = model_to_json(dense());
  EXPECT_EQ(
      json.dump(),
      R"({"name":"gpt2-nano","layers":6,"hidden":32,"heads":4,"kv_heads":4,"ffn":128,"vocabulary":257,"context":64,)"
      R"("norm":"layer","positions":"learned","activation":"gelu_tanh","biases":true,"tied":true,)"
      R"("dropout_embedding":0.0,"dropout_attention":0.0,"dropout_attention_residual":0.0,)"
      R"("dropout_ffn_residual":0.0,"norm_epsilon":1e-05,"rotary_base":10000.0})");
  const auto some = model_to_json(with_count({4}));
  EXPECT_EQ(some.size(), json.size() + 1) << some.dump();
  EXPECT_EQ(some["experts_count"], decltype(some)({4}));
  auto flat = some;
  flat["experts_count"] = 4;  // as a person may write it
  EXPECT_EQ(model_from_json(flat, "x", ""), with_count({4}));
  EXPECT_EQ(nlohmann::json(current_form(flat)), nlohmann::json(some));
  for (const auto& wrong : {nlohmann::ordered_json({4.5}), nlohmann::ordered_json({"x"}), nlohmann::ordered_json(true),
                            nlohmann::ordered_json::object(), nlohmann::ordered_json({{4}})}) {
    flat["experts_count"] = wrong;
    EXPECT_THROW(model_from_json(flat, "x", ""), base::InputError) << wrong;
  }
}

TEST(ExpertProblems, EachSaysWhatWouldWork) {
  EXPECT_EQ(problem_of([](ModelConfig&) {}), "");
  EXPECT_EQ(problem_of([](ModelConfig& m) { m.experts.top_k = 5; }),
            "experts-top-k 5 is more than the 4 experts of a layer: 4 at most");
  EXPECT_EQ(problem_of([](ModelConfig& m) { m.experts.count = {8, 8, 8, 8, 8, 2}, m.experts.top_k = 3; }),
            "experts-top-k 3 is more than the 2 experts of a layer: 2 at most");
  EXPECT_EQ(problem_of([](ModelConfig& m) {
              m.experts.count = {4, 8};
            }),
            "experts-count lists 2 numbers, but 6 layers of the model have experts: list as many, or one for all");
  EXPECT_EQ(problem_of([](ModelConfig& m) {
              m.experts.count = {4, 8}, m.experts.every = 6;
            }),
            "experts-count lists 2 numbers, but 1 layer of the model has experts: list as many, or one for all");
  EXPECT_EQ(problem_of([](ModelConfig& m) { m.experts.every = 5, m.experts.dense_layers = 2; }),
            "no layer has experts: of 6 layers the first 2 are dense, and after these only each 5-th layer has "
            "experts; with experts-every 4 one layer has");
  EXPECT_EQ(problem_of([](ModelConfig& m) { m.experts.count.clear(), m.experts.top_k = 2, m.experts.shared = 1; }),
            "experts-top-k, experts-shared without experts: set experts-count, or leave them out");
  EXPECT_EQ(problem_of([](ModelConfig& m) { m.experts.count.clear(), m.experts.residual = true; }),
            "experts-residual without experts: set experts-count, or leave it out");
  EXPECT_EQ(problem_of([](ModelConfig& m) { m.branches = {"attention"}; }),
            "experts replace the branch 'ffn', which the model's branches do not name");
  EXPECT_EQ(problem_of([](ModelConfig& m) { m.experts.residual = true, m.experts.shared = 1; }),
            "experts-residual and experts-shared both add a feed-forward part beside the experts: use one of them");
  // Rules of the gate that are allowed with k choices.
  const auto rules = [](std::int64_t k, GatePlacement placement, BalanceOver over, GateWeights weights) {
    auto m = with_count({4});
    m.experts.top_k = k, m.experts.placement = placement, m.experts.balance_over = over, m.experts.weights = weights;
    return problems(m);
  };
  for (const std::int64_t k : {1, 2, 3})
    for (const auto placement : {GatePlacement::usual, GatePlacement::choices, GatePlacement::tokens})
      for (const auto over : {BalanceOver::usual, BalanceOver::first, BalanceOver::all})
        for (const auto weights : {GateWeights::usual, GateWeights::kept, GateWeights::chosen, GateWeights::scores}) {
          const bool by_choice = k == 2 && placement != GatePlacement::tokens;
          const bool places = placement != GatePlacement::choices || k == 2;
          const bool balances =
              k == 1 || by_choice || over == BalanceOver::all || (k > 2 && over != BalanceOver::first);
          const bool weighs = k > 1 || weights == GateWeights::usual || weights == GateWeights::scores;
          EXPECT_EQ(rules(k, placement, over, weights).empty(), places && balances && weighs)
              << k << " " << static_cast<int>(placement) << " " << static_cast<int>(over) << " "
              << static_cast<int>(weights);
        }
  // Groups that limit the choice.
  const auto grouped = [](std::vector<std::int64_t> count, std::int64_t k, std::int64_t groups, std::int64_t top) {
    return problem_of([&](ModelConfig& m) {
      m.experts.count = count, m.experts.top_k = k, m.experts.groups = groups, m.experts.top_groups = top;
    });
  };
  EXPECT_EQ(grouped({8}, 4, 4, 2), "");
  EXPECT_EQ(grouped({8}, 3, 3, 2), "experts-groups 3 does not divide the 8 experts of a layer");
  EXPECT_EQ(grouped({8}, 1, 2, 3), "experts-top-groups 3 is more than experts-groups 2");
  EXPECT_EQ(grouped({8}, 5, 4, 2), "experts-top-k 5 is more than the 4 experts of experts-top-groups 2");
  EXPECT_EQ(grouped({16, 8, 8, 8, 8, 8}, 3, 8, 2),
            "experts-top-k 3 is more than the 2 experts of experts-top-groups 2");
  EXPECT_EQ(problem_of([](ModelConfig& m) { m.lanes = 4, m.experts.ffn = 90; }),
            "the experts' width 90 is not a multiple of lanes 4");
  EXPECT_EQ(problem_of([](ModelConfig& m) {
              m.experts.count.clear(), m.branches = {"attention", "experts"};
            }),
            "branches name 'experts': name 'ffn' there and set experts-count; in layers with experts these replace it");
  EXPECT_NE(problem_of([](ModelConfig& m) { m.experts.capacity_factor = "1e3"; }).find("experts-capacity-factor"),
            std::string::npos);
}

// The message names the largest experts-every, or number of dense layers, that leaves one layer with experts.
TEST(ExpertProblems, TheEveryThatIsProposedWorks) {
  for (std::int64_t first = 0; first < 6; ++first) {
    auto m = with_count({4}, 10'000, first);
    EXPECT_NE(problems(m).at(0).find(fmt::format("experts-every {} ", 6 - first)), std::string::npos);
    m.experts.every = 6 - first;
    EXPECT_TRUE(problems(m).empty()) << first;
    EXPECT_EQ(expert_layers(m), 1);
  }
  for (const std::int64_t dense_layers : {6, 9})
    EXPECT_EQ(problems(with_count({4}, 1, dense_layers)).at(0),
              fmt::format("no layer has experts: experts-dense-layers {} leaves none of 6 layers; 5 would leave one",
                          dense_layers));
}

TEST(ExpertProblems, OfAPlan) {
  Plan p;
  p.model = with_count({4});
  p.sequence = 32, p.micro_batch = p.global_batch = 4;
  EXPECT_TRUE(decision_problems(p).empty()) << text_of(decision_problems(p));
  const auto refused = [&](const std::function<void(Plan&)>& change, const char* part) {
    auto q = p;
    change(q);
    const auto said = text_of(decision_problems(q));
    EXPECT_NE(said.find(part), std::string::npos) << said;
  };
  refused([](Plan& q) { q.tensor = 2, q.topology = replicas_of(2, 2), q.model.lanes = 2, q.model.experts.count = {5}; },
          "--tensor-parallel 2 does not divide the experts of a layer, 5");
  const auto shape = [](Plan& q, std::int64_t sequence, std::int64_t micro) {
    q.model.context = q.sequence = sequence, q.micro_batch = q.global_batch = micro;
  };
  refused([&](Plan& q) { shape(q, 1 << 16, 1 << 15); }, "more than 2147483647 ");
  refused([&](Plan& q) { shape(q, 1 << 16, 1 << 14), q.model.experts.top_k = 2; }, "more than 2147483647 ");
  refused([&](Plan& q) { shape(q, 1 << 21, 1); }, "--sequence 2097152 with experts: the random numbers");
  refused(
      [&](Plan& q) {
        shape(q, 1 << 21, 1), q.model.experts.overflow = Overflow::position, q.model.experts.noise = GateNoise::gumbel;
      },
      "--sequence 2097152 with experts: the random numbers");
  refused([](Plan& q) { q.model.hidden = 1 << 15, q.model.experts.noise = GateNoise::jitter; },
          "a hidden of 32768 with experts-noise jitter");
  auto q = p;
  shape(q, 1 << 21, 1), q.model.experts.overflow = Overflow::position;
  EXPECT_TRUE(decision_problems(q).empty()) << text_of(decision_problems(q));
  q.model.experts.overflow = Overflow::random, q.model.experts.capacity_factor = "none";
  EXPECT_TRUE(decision_problems(q).empty()) << text_of(decision_problems(q));
}

TEST(ExpertHelp, NamesThePresets) {
  for (const char* name : {"moe-nano", "gpt2-moe-8", "nlg-350m-moe-128", "mixtral-8x7b", "deepseek-16b"}) {
    auto m = load_model(name);
    m.vocabulary = 32000, m.lanes = default_lanes(m, base::DeviceKind::cpu);
    EXPECT_TRUE(problems(m).empty()) << name;
  }
}

// Suggested lanes divide the width of an expert, too.
TEST(Experts, LanesThatTheirWidthCanHave) {
  Plan p;
  p.model = preset("moe-nano");
  p.model.vocabulary = 257, p.model.hidden = 32, p.model.heads = p.model.kv_heads = 8;
  for (const auto& [width, lanes, advised] : {std::tuple{30, 4, 2}, {31, 8, 1}, {36, 8, 4}}) {
    p.model.experts.ffn = width, p.model.lanes = lanes;
    const auto found = decision_problems(p);
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found[0].hint, fmt::format("--lanes {}", advised));
    p.model.lanes = advised;
    EXPECT_TRUE(problems(p.model).empty());
  }
}

}  // namespace experts_test
}  // namespace trainyard::plan
