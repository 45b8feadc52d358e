// Plans of encoder-decoder models: blocks and their names, parameters, FLOPs, memory of two lengths, and what is
// refused.
#include "libtrain/plan/blocks/flat_group_table.h"
#include "libtrain/plan/blocks/inventory.h"
#include "libtrain/plan/blocks/sharing.h"
#include "libtrain/plan/cost/activations.h"
#include "libtrain/plan/cost/flops.h"
#include "libtrain/plan/decision_problems.h"
#include "libtrain/plan/model_file/load_model.h"
#include "libtrain/plan/model_file/model_problems.h"
#include "libtrain/plan/plan.h"
#include "libtrain/plan/problems.h"
#include "libtrain/plan/spec/layer_model.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

using namespace trainyard::plan;

namespace encoder_test {

using Names = std::vector<std::string>;

bool any_has(const Names& all, const std::string& part) {
  return std::any_of(all.begin(), all.end(), [&](const auto& text) { return text.find(part) != std::string::npos; });
}

ModelConfig model(std::int64_t encoder = 3, std::int64_t decoder = 2) {
  ModelConfig m;
  m.hidden = 64, m.heads = m.kv_heads = 4, m.ffn = 256, m.vocabulary = 257, m.context = 128;
  m.encoder_layers = encoder, m.decoder_layers = decoder, m.layers = encoder + decoder;
  return m;
}

TEST(Encoder, ItemsAreBothTowersAndTheBridge) {
  const auto m = model(2, 1);
  EXPECT_EQ(item_names(m),
            (Names{"embedding", "encoder.layers.00", "encoder.layers.01", "bridge", "decoder.layers.00", "head"}));
  EXPECT_EQ(item_of_layer(m, 1), 2);
  EXPECT_EQ(item_of_layer(m, 2), 4);
  EXPECT_EQ(layers_of(m, {0, 3}), (Items{0, 2}));
  EXPECT_EQ(layers_of(m, {3, 6}), (Items{2, 3}));
  EXPECT_EQ(layers_of(m, {3, 4}), (Items{2, 2}));
  EXPECT_EQ(layers_text(m), "2 + 1");
}

// By hand: a layer is 4 h^2 + 4 h of attention, 2 h f + f + h of its feed-forward part and 4 h of norms; a decoder's
// has attention and a norm more.
TEST(Encoder, ParametersAreCountedOnce) {
  const std::int64_t h = 64, f = 256, attention = 4 * h * h + 4 * h, layer = attention + 2 * h * f + f + h + 4 * h,
                     tables = 257 * h + 2 * 128 * h;
  EXPECT_EQ(parameter_count(model()), 3 * layer + 2 * (layer + attention + 2 * h) + tables + 2 * 2 * h);
}

// A table of buckets and heads in each tower, and no table of positions.
TEST(Encoder, RelativePositionsAreTwoTables) {
  auto m = model();
  const auto learned = parameter_count(m);
  m.positions = Positions::relative, m.relative_buckets = 16;
  EXPECT_EQ(parameter_count(m), learned - 2 * 128 * 64 + 2 * 16 * 4);
  Names tables;
  for (const auto& flat_group : flat_groups(m))
    if (flat_group.name.ends_with("relative_positions")) tables.push_back(flat_group.parameters.at(0).name);
  EXPECT_EQ(tables, (Names{"encoder.relative_positions.weight", "decoder.relative_positions.weight"}));
}

// Each layer of a tower uses its table once. It commits the table before its own group, which it leases first.
TEST(Encoder, LayersBorrowTheTableOfTheirTower) {
  auto m = model(3, 2);
  m.positions = Positions::relative, m.experts.count = {4}, m.experts.every = 2;
  const FlatGroupTable table(m, Topology());
  for (const auto& e : table.entries()) {
    if (!e.flat_group.name.ends_with("relative_positions")) continue;
    EXPECT_EQ(e.occurrences, e.flat_group.name.starts_with("encoder.") ? 3 : 2);
    EXPECT_EQ(e.training_leases, 2 * e.occurrences);
  }
  const auto all = flat_groups(m);
  const auto name = [&](int flat_group) { return all.at(static_cast<std::size_t>(flat_group)).name; };
  for (const auto& block : placed_blocks(m)) {
    if (block.part != Part::layers) continue;
    const auto own = block.flat_groups.at(0).name;
    const bool decoder = own.starts_with("decoder.");
    Names steps;
    for (const auto& step : block.accesses.backward)
      steps.push_back((step.kind == Access::Kind::lease ? "lease " : "commit ") +
                      name(block.occurrences.at(static_cast<std::size_t>(step.occurrence)).flat_group));
    const std::string positions = decoder ? "decoder.relative_positions" : "encoder.relative_positions",
                      experts = own + ".experts";
    const bool has_experts = block.flat_groups.size() == 2;
    EXPECT_EQ(steps, has_experts
                         ? (Names{"lease " + own, "lease " + positions, "lease " + experts, "commit " + experts,
                                  "commit " + positions, "commit " + own})
                         : (Names{"lease " + own, "lease " + positions, "commit " + positions, "commit " + own}));
  }
}

// A part without the encoder's embedding has one copy of its table, however many segments of layers use it.
TEST(Encoder, APartBorrowsATableOnce) {
  auto m = model(6, 2);
  m.positions = Positions::relative, m.experts.count = {4}, m.experts.every = 2;
  const ModelPart part(m, {{2, 6}});
  ASSERT_GT(segments(part).size(), 2u);
  Names borrowed;
  for (const auto& segment : segments(part))
    for (const auto& flat_group : borrowed_flat_groups(part, segment)) borrowed.push_back(flat_group->name);
  EXPECT_EQ(borrowed, (Names{"encoder.relative_positions"}));
  const FlatGroupSet set(part, Topology());
  EXPECT_EQ(set.flat_groups.size(), 1u + 4u + 2u);  // the table, layers, experts of two of them
}

TEST(Encoder, TensorRanksDivideTheHeadsOfTables) {
  auto m = model();
  m.positions = Positions::relative;
  const Topology topology({{Axis::data, 1}, {Axis::tensor, 2}});
  int tables = 0;
  for (const auto& flat_group : flat_groups(m)) {
    if (!flat_group.name.ends_with("relative_positions")) continue;
    ++tables;
    EXPECT_EQ(layout(flat_group, topology).shapes.at(0), (std::vector<std::int64_t>{32, 2}));
    EXPECT_EQ(held_part(flat_group.parameters.at(0), topology, 1).start, (std::vector<std::int64_t>{0, 2}));
  }
  EXPECT_EQ(tables, 2);
  EXPECT_EQ(Sharing(m).obstacle(2), "");
  EXPECT_NE(Sharing(m).obstacle(3), "");
}

// The model of Kim et al. (2021), "Scalable and efficient MoE training for multitask multilingual models": a vocabulary
// of 250,000, 24 + 12 layers, every other one with experts. Published: 0.7, 1.8 and 10 billion.
TEST(Encoder, AMixtureHasExpertsInBothTowers) {
  for (const auto& [experts, billions] :
       std::initializer_list<std::pair<int, double>>{{0, 0.760}, {8, 1.818}, {64, 10.28}}) {
    auto m = model(24, 12);
    m.hidden = 1024, m.heads = m.kv_heads = 16, m.ffn = 4096, m.vocabulary = 250000;
    if (experts > 0) m.experts.count = {experts}, m.experts.every = 2;
    EXPECT_NEAR(static_cast<double>(parameter_count(m)) / 1e9, billions, 0.002 * billions) << experts;
  }
  auto m = model(3, 4);
  m.experts.count = {4}, m.experts.every = 2;
  std::vector<std::int64_t> with;
  for (std::int64_t layer = 0; layer < m.layers; ++layer)
    if (layer_has_experts(m, layer)) with.push_back(layer);
  EXPECT_EQ(with, (std::vector<std::int64_t>{1, 4, 6}));  // each tower counts from its own first layer
  EXPECT_EQ(expert_layers(m), 3);
  EXPECT_EQ(expert_layers(m, 4), 1);
}

TEST(Encoder, LayersSeeTheirTower) {
  const auto m = model(1, 1);
  const auto encoder = layer_model(m, 0), decoder = layer_model(m, 1);
  EXPECT_FALSE(encoder.attention.causal);
  EXPECT_TRUE(decoder.attention.causal);
  EXPECT_EQ(encoder.branches, (Names{"attention", "ffn"}));
  EXPECT_EQ(decoder.branches, (Names{"attention", "cross-attention", "ffn"}));
}

// Three times forward: 2 for each weight of a product and row, 4 w for each pair of a query and a key, and the logits.
TEST(Encoder, FlopsAreOfTwoLengths) {
  const double h = 64, f = 256, source = 100, target = 40, weights = 4 * h * h + 2 * h * f;
  const double encoder = source * (2 * weights + 4 * source * h),
               cross = target * 4 * h * h + source * 4 * h * h + 4 * target * source * h,
               decoder = target * (2 * weights + 4 * target * h) + cross, head = target * 2 * h * 257;
  EXPECT_NEAR(step_flops(model(), 6, {40, 100}), 3 * 6 * (3 * encoder + 2 * decoder + head), 1);
}

TEST(Encoder, ASourceCostsMemoryOfItsOwnLength) {
  const auto bytes = [](std::int64_t source) {
    return activation_bytes(model(), {{.batch = 2, .sequence = 32}, {}, source}, Pass::train);
  };
  // Of 64 sources more, each layer of the encoder saves its widths; the decoder keys and values, and the output with
  // the sum of its gradients.
  EXPECT_GT(bytes(96) - bytes(64), 2 * 32 * 4 * 64 * 3 * 8);
  EXPECT_EQ(bytes(96) - bytes(64), bytes(64) - bytes(32));
}

TEST(Encoder, RefusesWhatItDoesNotGoWith) {
  const auto refused = [](auto change, const char* why) {
    auto m = model();
    change(m);
    EXPECT_TRUE(any_has(problems(m), why)) << why;
  };
  EXPECT_TRUE(problems(model()).empty());
  refused([](auto& m) { m.layers = 4; }, "layers 4 is not the sum of encoder-layers 3 and decoder-layers 2");
  refused([](auto& m) { m.branches = {"ffn"}; }, "have attention once");
  refused([](auto& m) { m.branches = {"attention", "cross-attention", "ffn"}; }, "by themselves");
  refused([](auto& m) { m.attention.causal = false; }, "attention-causal is of the decoder");
  refused([](auto& m) { m.attention.layout = {"sliding"}; }, "attention-layout is not supported with encoder-layers");
  refused([](auto& m) { m.attention.window_tokens = {16}; }, "attention-window-tokens is not supported");
  refused([](auto& m) { m.embedding_norm = true; }, "embedding-norm is not supported");
  refused([](auto& m) { m.segments = 2; }, "segments is not supported");
  refused([](auto& m) { m.head = HeadForm::masked; }, "head masked is not supported");
  refused([](auto& m) { m.qk_norm = QkNorm::head; }, "qk-norm is not supported");
  refused([](auto& m) { m.parallel_residual = true; }, "parallel-residual is not supported");
  refused([](auto& m) { m.adapter.rank = 8; }, "adapter-rank is not supported");
  refused([](auto& m) { m.encoder_layers = 0, m.layers = 2; }, "decoder-layers 2 needs encoder-layers");
  refused(
      [](auto& m) {
        m.encoder_layers = m.decoder_layers = 0, m.branches = {"attention", "cross-attention"};
      },
      "the branch cross-attention needs encoder-layers");
  refused([](auto& m) { m.relative_buckets = 16; }, "relative-buckets needs positions relative");
  refused([](auto& m) { m.relative_distance = 64; }, "relative-distance needs positions relative");
  const auto refused_table = [&](auto change, const char* why) {
    refused([&](auto& m) { m.positions = Positions::relative, change(m); }, why);
  };
  refused_table([](auto& m) { m.encoder_layers = m.decoder_layers = 0; }, "positions relative needs encoder-layers");
  refused_table([](auto& m) { m.relative_buckets = 31; }, "relative-buckets 31 is not an even number from 4 on");
  refused_table([](auto& m) { m.relative_buckets = 2; }, "relative-buckets 2 is not an even number from 4 on");
  refused_table([](auto& m) { m.relative_distance = 16; }, "relative-distance 16 is not above half");
  refused_table([](auto& m) { m.position_offset = 2; }, "position-offset needs learned positions");
}

TEST(Encoder, RefusesWhatKeysOfT5DoNotGoWith) {
  const auto refused = [](auto change, const char* why) {
    auto m = model();
    change(m);
    EXPECT_TRUE(any_has(problems(m), why)) << why;
  };
  refused([](auto& m) { m.decoder_start = 257; }, "decoder-start 257 is no token of a vocabulary of 257");
  refused([](auto& m) { m.decoder_start = 0, m.encoder_layers = m.decoder_layers = 0; }, "decoder-start needs encoder");
  refused([](auto& m) { m.dropout_ffn = 0.1, m.experts.count = {4}; }, "dropout-ffn is not supported with experts");
  refused([](auto& m) { m.dropout_final_norm = 0.1, m.norm_position = NormPosition::post; }, "needs a final norm");
  refused([](auto& m) { m.head_scale = 0.5, m.encoder_layers = m.decoder_layers = 0, m.head = HeadForm::masked; },
          "head masked does not support head-scale");
  auto m = model();
  m.decoder_start = 256, m.dropout_ffn = m.dropout_final_norm = 0.1, m.head_scale = 0.5;
  EXPECT_TRUE(problems(m).empty());
}

// Of T5 (Raffel et al. 2020): q (d d_kv)^-1/2 without a factor of scores, others 1 / sqrt(inputs), tokens 1.
TEST(Encoder, InitialValuesFollowInputs) {
  auto m = model(1, 1);
  m.positions = Positions::relative, m.tied = false, m.head_size = 32, m.initial_values = InitialValues::fan_in;
  const auto deviation = [&](const std::string& name) {
    for (const auto& flat_group : flat_groups(m))
      for (const auto& p : flat_group.parameters)
        if (p.name == name) return p.init.stddev;
    ADD_FAILURE() << name;
    return 0.0;
  };
  EXPECT_DOUBLE_EQ(deviation("embedding.tokens.weight"), 1);
  EXPECT_DOUBLE_EQ(deviation("head.weight"), 0.125);
  EXPECT_DOUBLE_EQ(deviation("encoder.relative_positions.weight"), 0.125);
  EXPECT_DOUBLE_EQ(deviation("encoder.layers.00.attention.q.weight"), 0.125);
  m.query_scale = 1;
  EXPECT_DOUBLE_EQ(deviation("encoder.layers.00.attention.q.weight"), 0.125 / std::sqrt(32));
  EXPECT_DOUBLE_EQ(deviation("decoder.layers.00.cross_attention.q.weight"), 0.125 / std::sqrt(32));
  EXPECT_DOUBLE_EQ(deviation("decoder.layers.00.attention.k.weight"), 0.125);
  EXPECT_DOUBLE_EQ(deviation("decoder.layers.00.cross_attention.v.weight"), 0.125);
  EXPECT_DOUBLE_EQ(deviation("decoder.layers.00.attention.output.weight"), 1 / std::sqrt(4 * 32));
  EXPECT_DOUBLE_EQ(deviation("encoder.layers.00.ffn.up.weight"), 0.125);
  EXPECT_DOUBLE_EQ(deviation("encoder.layers.00.ffn.down.weight"), 1 / std::sqrt(256));
}

TEST(Encoder, RelativePositionsAreKeys) {
  const trainyard::testing::Scratch folder;
  const auto path = folder.path + "/model.toml";
  trainyard::testing::spit(path,
                           "encoder-layers = 2\npositions = \"relative\"\nrelative-buckets = 16\n"
                           "relative_distance = 40\n");
  const auto m = load_model(path);
  EXPECT_EQ(m.positions, Positions::relative);
  EXPECT_EQ(m.relative_buckets, 16);
  EXPECT_EQ(m.relative_distance, 40);
}

Plan plan_of(int tensor = 1) {
  Plan p;
  p.model = model(), p.sequence = 64, p.source_sequence = 96, p.global_batch = 4, p.tensor = tensor;
  p.model.lanes = tensor;
  p.topology = topology_of(p, tensor);
  return p;
}

TEST(Encoder, LayoutsAreChecked) {
  const auto refused = [](Plan p, const char* why) {
    p.topology = topology_of(p, p.tensor * p.pipeline);
    Names all;
    for (const auto& problem : decision_problems(p)) all.push_back(problem.message);
    EXPECT_TRUE(any_has(all, why)) << why;
  };
  EXPECT_TRUE(decision_problems(plan_of()).empty());
  EXPECT_TRUE(decision_problems(plan_of(2)).empty());
  auto p = plan_of();
  p.source_sequence = 200;
  refused(p, "source-sequence 200 is longer than the model's context 128");
  p.source_sequence = 0;
  refused(p, "an encoder needs sequences of one token at least");
  p = plan_of();
  p.pipeline = 2, p.topology = topology_of(p, 2);
  EXPECT_TRUE(decision_problems(p).empty());
  p = plan_of();
  p.model = model(0, 0), p.model.layers = 2;
  refused(p, "source-sequence 96 is for models with an encoder");
  p = plan_of(2);
  p.sequence_parallel = true, p.source_sequence = 100, p.micro_batch = 2;
  refused(p, "source-sequence 100) are not a multiple of 128");
  p = plan_of(4);
  p.model.dropout_ffn = 0.1, p.model.ffn = 264;
  refused(p, "tensor-parallel 4 with dropout-ffn does not divide ffn 264 into multiples of 4");
}

TEST(Encoder, ModelFilesHaveTables) {
  const trainyard::testing::Scratch folder;
  const auto load = [&](const std::string& text) {
    const auto path = folder.path + "/model.toml";
    trainyard::testing::spit(path, "hidden = 64\n" + text);
    return load_model(path);
  };
  const auto both = load("[encoder]\nlayers = 3\n[decoder]\nlayers = 2\n");
  EXPECT_EQ(both.layers, 5);
  EXPECT_EQ(both.encoder_layers, 3);
  EXPECT_EQ(both.decoder_layers, 2);
  const auto alike = load("encoder-layers = 4\n");
  EXPECT_EQ(alike.layers, 8);
  EXPECT_EQ(alike.decoder_layers, 4);
  EXPECT_EQ(load("layers = 7\nencoder-layers = 4\n").decoder_layers, 3);
}

}  // namespace encoder_test
