// Tests the one list of problems. Absurd sizes are refused before a formula overflows, and accepted ones are predicted
// within bounds. Also models as files, JSON and help.
#include "libtrain/base/error.h"
#include "libtrain/plan/blocks/block_kind.h"
#include "libtrain/plan/blocks/block_registry.h"
#include "libtrain/plan/blocks/branch_registry.h"
#include "libtrain/plan/blocks/head.h"
#include "libtrain/plan/extent.h"
#include "libtrain/plan/grid/ranges.h"
#include "libtrain/plan/model_file/load_model.h"
#include "libtrain/plan/model_file/model_fields.h"
#include "libtrain/plan/model_file/model_json.h"
#include "libtrain/plan/model_file/model_problems.h"
#include "libtrain/plan/plan_json.h"
#include "libtrain/plan/spec/lanes.h"
#include "libtrain/plan/spec/limits.h"
#include "libtrain/plan/spec/presets.h"
#include "tests/plan/small_plan.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <tuple>

namespace trainyard::plan {

namespace problems_test {

ModelConfig file(const std::string& text) {
  const testing::Scratch folder;
  testing::spit(folder.path + "/m.toml", text);
  return load_model(folder.path + "/m.toml");
}

// Log-uniform, so that both ends and small values are drawn.
template <class T> T draw(std::mt19937_64& random, base::Range<T> range) {
  if (random() % 8 == 0) return range.high;
  const double low = std::log(static_cast<double>(range.low)), high = std::log(static_cast<double>(range.high));
  return std::min(
      range.high,
      std::max(range.low, static_cast<T>(std::exp(low + (high - low) * static_cast<double>(random() % 1000) / 999))));
}

TEST(OneList, NamesTheFlag) {
  const auto refused = [](auto change, const char* part) {
    auto p = small_plan();
    change(p);
    EXPECT_NE(first_problem(p).find(part), std::string::npos) << first_problem(p) << ", expected " << part;
  };
  refused([](Plan& p) { p.local_accumulation = 3; }, "--local-accumulation 3 does not divide 8");
  refused([](Plan& p) { p.local_accumulation = 16; }, "--local-accumulation 16 does not divide 8");
  refused([](Plan& p) { p.local_accumulation = 8; }, "2 ranks, but a step has only 1 group");
  refused([](Plan& p) { p.gathered_layers = 65; }, "--gathered-layers 65");
  refused([](Plan& p) { p.threads = 5000; }, "--threads 5000");
  refused([](Plan& p) { p.global_batch = std::int64_t{1} << 32; }, "micro-batches of a step");
  refused([](Plan& p) { p.micro_batch = 3; }, "--global-batch 8 is not a multiple of --micro-batch 3");
  refused([](Plan& p) { p.model.norm_epsilon = std::nan(""); }, "norm-epsilon nan");
  refused([](Plan& p) { p.model.dropout_embedding = std::nan(""); }, "dropout-embedding nan");
  refused([](Plan& p) { p.model.rotary_base = std::numeric_limits<double>::infinity(); }, "rotary-base inf");
  EXPECT_EQ(first_problem(small_plan()), "");
  auto p = small_plan();
  p.local_accumulation = 3;
  EXPECT_EQ(decision_problems(p)[0].hint, "--local-accumulation 2");
}

// A plan with tensor-parallel ranks. The model has 8 heads, 4 key-value heads, a feed-forward part of 96 and 4 lanes,
// and its vocabulary is 257.
Plan shared(int ranks, int tensor) {
  auto p = small_plan();
  auto& m = p.model;
  m.hidden = 64, m.heads = 8, m.kv_heads = 4, m.ffn = 96;
  p.tensor = tensor;
  p.topology = replicas_of(ranks, ranks % tensor == 0 ? tensor : 1);
  return p;
}

void expect_refused(const Plan& p, const std::string& message, const std::string& hint) {
  const auto found = decision_problems(p);
  ASSERT_EQ(found.size(), 1u) << text_of(found);
  EXPECT_EQ(found[0].message, message);
  EXPECT_EQ(found[0].hint, hint);
}

TEST(TensorRanks, CopiesAreAddedUpInOneOrder) {
  auto p = shared(4, 2);
  p.reduction = Reduction::fast;
  expect_refused(p,
                 "--reduction fast lets the library choose the order of sums in each tensor-parallel group: copies of "
                 "the same weights could drift apart",
                 "--reduction ordered, or --tensor-parallel 1");
  p = shared(4, 1);
  p.reduction = Reduction::fast;
  EXPECT_EQ(first_problem(p), "");
}

TEST(TensorRanks, DegreesThatDivideNothingAreRefusedWithTheNearest) {
  for (const int tensor : {1, 2, 4}) EXPECT_EQ(first_problem(shared(4, tensor)), "") << tensor;
  expect_refused(shared(6, 3), "--tensor-parallel 3 does not divide kv-heads 4", "--tensor-parallel 2");
  expect_refused(shared(12, 3), "--tensor-parallel 3 does not divide kv-heads 4",
                 "--tensor-parallel 2 or --tensor-parallel 4");
  expect_refused(shared(8, 3),
                 "--tensor-parallel 3 does not divide 8 ranks; --tensor-parallel 3 does not divide kv-heads 4",
                 "--tensor-parallel 2 or --tensor-parallel 4");
  expect_refused(shared(1, 2), "--tensor-parallel 2 does not divide 1 rank", "--tensor-parallel 1, or 2 ranks");
  expect_refused(shared(7, 4), "--tensor-parallel 4 does not divide 7 ranks", "--tensor-parallel 1, or 8 ranks");
  expect_refused(shared(8, 8),
                 "--tensor-parallel 8 is more than the model's 4 key-value heads: some ranks would have none",
                 "--tensor-parallel 4");
  auto p = shared(4, 4);
  p.model.ffn = 98, p.model.lanes = 2;
  expect_refused(p, "--tensor-parallel 4 does not divide ffn 98", "--tensor-parallel 2");
  p = shared(1, 1);
  p.model.lanes = 8;
  expect_refused(p, "model: kv-heads 4 is not a multiple of lanes 8", "--lanes 4");
  p = shared(4, 4);
  p.model.lanes = 2;
  expect_refused(p, "--tensor-parallel 4 does not divide lanes 2",
                 "--tensor-parallel 2; --lanes 4 allows it, in another run");
  p.model.lanes = 1;
  expect_refused(p, "--tensor-parallel 4 does not divide lanes 1",
                 "--tensor-parallel 1; --lanes 4 allows it, in another run");
  p.device = base::DeviceKind::cuda;  // one lane: the library adds, so every degree is allowed
  EXPECT_EQ(first_problem(p), "");
  p.model.lanes = 2;
  EXPECT_NE(first_problem(p), "");
  p = shared(4, 1);
  p.tensor = 0;
  EXPECT_EQ(first_problem(p), "--tensor-parallel 0 must lie between 1 and 4096");
  p.tensor = 2;  // the topology has 1
  EXPECT_EQ(first_problem(p), "the topology has 1 tensor ranks, but --tensor-parallel is 2");
  p.topology = Topology({{Axis::tensor, 2}, {Axis::data, 2}});
  EXPECT_NE(first_problem(p).find("the topology has 4 ranks but its data axis 2, with 2 tensor ranks inside"),
            std::string::npos);
}

TEST(TensorRanks, ABatchIsOfReplicas) {
  auto p = shared(16, 2);
  EXPECT_EQ(first_problem(p), "");
  p.global_batch = 4;
  expect_refused(p,
                 "16 ranks in 8 replicas, but a step has only 4 groups of micro-batches: some ranks would have no work",
                 "raise --global-batch to 8, lower --micro-batch or --local-accumulation, or use fewer ranks");
}

TEST(TensorRanks, SequenceParallelNeedsWholeBlocksOfRows) {
  auto p = shared(2, 2);
  p.sequence_parallel = true;
  expect_refused(p,
                 "--sequence-parallel gives each of 2 tensor ranks whole blocks of 64 tokens: the 32 tokens of a "
                 "micro-batch (--micro-batch 1 of --sequence 32) are not a multiple of 128",
                 "--micro-batch 4, another --sequence, or --sequence-parallel off");
  p.micro_batch = 4;
  EXPECT_EQ(first_problem(p), "");
  p.tensor = 1, p.topology = replicas_of(2, 1);
  expect_refused(p, "--sequence-parallel splits tokens over tensor-parallel ranks, and --tensor-parallel is 1",
                 "--sequence-parallel off, or --tensor-parallel 2 too");
}

TEST(TensorRanks, AllThatIsWrongIsSaidAtOnce) {
  auto p = shared(8, 3);
  p.reduction = Reduction::fast, p.local_accumulation = 3, p.sequence = 100'000;
  const auto text = text_of(decision_problems(p));
  for (const char* part :
       {"4 things are wrong", "--sequence 100000 is longer", "--tensor-parallel 3 does not divide 8 ranks",
        "--tensor-parallel 3 does not divide kv-heads 4", "--reduction fast",
        "--local-accumulation 3 does not divide 8 micro-batches"})
    EXPECT_NE(text.find(part), std::string::npos) << part << ": " << text;
  p = shared(8, 3);
  p.global_batch = 4;  // enough for replicas, once their number is valid
  const auto one = decision_problems(p);
  ASSERT_EQ(one.size(), 1u) << text_of(one);
  EXPECT_EQ(text_of(one), one[0].message + " (try: " + one[0].hint + ")") << "a single problem keeps its hint";
  EXPECT_EQ(as_one(one).hint, one[0].hint);
  EXPECT_EQ(text_of({}), "");
}

TEST(TensorRanks, LanesOfACheckpointAreSaidToBe) {
  auto p = shared(4, 4);
  p.model.lanes = 2;
  const auto said = [&](Lanes lanes) {
    const auto found = decision_problems(p, {lanes, "run/checkpoints/step-00000004"});
    EXPECT_EQ(found.at(0).message,
              "--tensor-parallel 4 does not divide lanes 2, the lanes of run/checkpoints/step-00000004");
    return found.at(0).hint;
  };
  EXPECT_EQ(said(Lanes::open), "--tensor-parallel 2; --lanes 4 allows it, in another run");
  EXPECT_EQ(said(Lanes::of_the_run),
            "--tensor-parallel 2; --lanes 4 --change model goes on with sums of 4 lanes, which round differently");
  EXPECT_EQ(said(Lanes::evaluated), "--tensor-parallel 2");
}

struct Whole : BranchKind {
  std::string prefix() const override { return "whole"; }
  void declare(Declaration& d) const override { d.weight("whole.weight", 4, d.model().hidden); }
  std::vector<SavedTensor> tensors(const ModelConfig&, const MicroShape&, Pass) const override { return {}; }
  std::int64_t forward_workspace_bytes(const ModelConfig&, const MicroShape&, Pass) const override { return 0; }
  std::int64_t backward_workspace_bytes(const ModelConfig&, const MicroShape&) const override { return 0; }
  double forward_flops(const ModelConfig&, const Lengths&) const override { return 0; }
};

TEST(TensorRanks, ABranchThatDoesNotSaySoIsNotShared) {
  register_branch("whole", std::make_shared<Whole>());
  auto p = shared(2, 2);
  p.model.branches = {"attention", "whole", "ffn"};
  expect_refused(p, "the model's branch 'whole' does not support tensor parallelism", "--tensor-parallel 1");
  p.tensor = 1, p.topology = replicas_of(2, 1);
  EXPECT_EQ(first_problem(p), "");
}

// A block from outside the library that was written before tensor parallelism existed.
struct OwnHead : HeadKind {
  bool shared_by_tensor_ranks() const override { return BlockKind::shared_by_tensor_ranks(); }
};

TEST(TensorRanks, ABlockThatDoesNotSaySoIsNotShared) {
  register_block("head", std::make_shared<OwnHead>());
  auto p = shared(2, 2);
  expect_refused(p, "the model's kind of the head does not support tensor parallelism", "--tensor-parallel 1");
  p.tensor = 1, p.topology = replicas_of(2, 1);
  EXPECT_EQ(first_problem(p), "");
  register_block("head", std::make_shared<HeadKind>());
}

// A branch that is sharded along a dimension of its own, which no other width depends on.
struct Narrow : Whole {
  std::string prefix() const override { return "narrow"; }
  void declare(Declaration& d) const override {
    d.parameter("narrow.weight", {6, d.model().hidden}, {}, Decay::no, ShardedDim{0, Axis::tensor});
  }
  bool shared_by_tensor_ranks() const override { return true; }
};

TEST(TensorRanks, ABranchIsCutByWhatDividesItsOwnDims) {
  register_branch("narrow", std::make_shared<Narrow>());
  auto p = shared(4, 4);
  p.model.branches = {"attention", "narrow", "ffn"};
  expect_refused(p, "--tensor-parallel 4 does not divide dim 0 of 'layers.00.narrow.weight', 6", "--tensor-parallel 2");
}

TEST(TensorRanks, RowsOfBf16AreWholeWords) {
  auto p = shared(3, 3);
  auto& m = p.model;
  m.hidden = 45, m.heads = m.kv_heads = 3, m.ffn = 96, m.lanes = 3, m.vocabulary = 384;
  p.dtype = base::DType::bf16;
  EXPECT_EQ(first_problem(p), "") << "32 rows";
  p.sequence = 31;
  expect_refused(p,
                 "--tensor-parallel 3 adds words of 4 bytes: the 31 rows of a micro-batch (--micro-batch 1 of "
                 "--sequence 31) of 45 bf16 numbers are not a multiple of 4 bytes",
                 "an even --micro-batch or --sequence, or --dtype f32");
  p.dtype = base::DType::f32;
  EXPECT_EQ(first_problem(p), "");
  p.dtype = base::DType::bf16, m.hidden = 48;
  EXPECT_EQ(first_problem(p), "");
}

TEST(Lanes, DefaultsAreTheLargestPowerOfTwoThatDivides) {
  const auto lanes = [](std::int64_t kv_heads, std::int64_t ffn, std::int64_t vocabulary, base::DeviceKind device) {
    ModelConfig m;
    m.heads = m.kv_heads = kv_heads, m.hidden = 2 * kv_heads, m.ffn = ffn, m.vocabulary = vocabulary;
    return default_lanes(m, device);
  };
  const auto cpu = base::DeviceKind::cpu;
  EXPECT_EQ(lanes(12, 3072, 50257, cpu), 4);
  EXPECT_EQ(lanes(32, 8192, 128256, cpu), 8);
  EXPECT_EQ(lanes(25, 6400, 50257, cpu), 1);
  EXPECT_EQ(lanes(8, 96, 257, cpu), 2);
  EXPECT_EQ(lanes(8, 8, 257, cpu), 1);
  EXPECT_EQ(lanes(32, 8192, 128256, base::DeviceKind::cuda), 1);
}

TEST(OneList, TheMicroBatchThatIsProposedIsLegal) {
  auto p = small_plan();
  p.micro_batch = 1, p.global_batch = 100'000'000;
  EXPECT_EQ(decision_problems(p)[0].hint, "--micro-batch 100, or a smaller --global-batch");
  p.micro_batch = 100;
  EXPECT_EQ(first_problem(p), "");
  p.micro_batch = 1, p.global_batch = 2147483647;  // a prime
  EXPECT_EQ(decision_problems(p)[0].hint, "a smaller --global-batch");
}

TEST(OneList, DropoutWhoseCountersOverlapIsRefused) {
  auto p = small_plan();
  p.model.hidden = 2 * most_hidden_with_dropout, p.model.heads = p.model.kv_heads = 1024;
  EXPECT_EQ(first_problem(p), "");
  p.model.dropout_attention = 0.1;
  EXPECT_EQ(first_problem(p), "");  // has counters of its own
  for (auto path : {&ModelConfig::dropout_embedding, &ModelConfig::dropout_attention_residual,
                    &ModelConfig::dropout_ffn_residual}) {
    auto q = p;
    q.model.*path = 0.1;
    EXPECT_NE(first_problem(q).find("a hidden of 131072 with dropout"), std::string::npos) << first_problem(q);
    q.model.hidden = most_hidden_with_dropout;
    EXPECT_EQ(first_problem(q), "");
    q.model.context = q.sequence = 2 * most_sequence_with_dropout;
    EXPECT_NE(first_problem(q).find("--sequence 2097152 with dropout"), std::string::npos) << first_problem(q);
  }
}

// Every accepted plan is predicted between a lower bound and the extent, both in floating point. A product that
// overflowed would lie outside. Most of these plans are absurd.
TEST(Extent, WhatIsAcceptedDoesNotOverflow) {
  std::mt19937_64 random(7);
  int accepted = 0, too_large = 0;
  for (int i = 0; i < 2000; ++i) {
    Plan p;
    auto& m = p.model;
    m.heads = m.kv_heads = draw<std::int64_t>(random, {1, 4096});
    m.hidden = std::min<std::int64_t>(1 << 17, m.heads * 2 * draw<std::int64_t>(random, {1, 512})) / m.heads * m.heads;
    m.layers = draw<std::int64_t>(random, {1, i % 16 == 0 ? 10'000 : 20}),
    m.ffn = draw<std::int64_t>(random, {1, 1 << 20}), m.vocabulary = draw(random, ranges::vocabulary);
    m.context = p.sequence = draw(random, ranges::sequence);
    if (random() % 2 == 0) m.activation = Activation::swiglu, m.biases = Biases::off, m.tied = false;
    if (random() % 4 == 0) m.head_size = draw<std::int64_t>(random, {1, 1024}), m.qk_norm = QkNorm::width;
    p.topology = Topology({{Axis::data, draw<int>(random, {1, 1 << 20})}});
    p.zero = static_cast<int>(random() % 4), p.micro_batch = draw(random, ranges::micro_batch);
    p.local_accumulation = draw<std::int64_t>(random, {1, 64});
    const auto micros = p.local_accumulation * p.topology.world() * draw<std::int64_t>(random, {1, 8});
    p.global_batch =
        micros > ranges::global_batch.high / p.micro_batch ? ranges::global_batch.high : micros * p.micro_batch;
    p.threads = draw(random, ranges::threads), p.gathered_layers = draw(random, ranges::gathered_layers);
    if (random() % 4 == 0) p.device = base::DeviceKind::cuda;
    p.recompute = recomputations[random() % recomputations.size()];
    const auto found = decision_problems(p);
    for (const auto& problem : found) too_large += problem.message.find("too large") != std::string::npos ? 1 : 0;
    if (!found.empty() || m.layers > 60) continue;  // large stacks take long to list
    ++accepted;
    predict(p);
    const auto most = extent(p);
    const double rows = static_cast<double>(p.micro_batch) * static_cast<double>(p.sequence);
    const double stream = 4 * rows * static_cast<double>(m.hidden) * static_cast<double>(m.layers);
    ASSERT_GE(static_cast<double>(p.memory.total()), 0.99 * stream) << to_json(p);
    ASSERT_LE(static_cast<double>(p.memory.total()), most.memory) << to_json(p);
    for (const auto bytes : p.memory.categories) ASSERT_GE(bytes, 0) << to_json(p);
    for (const auto& t : p.traffic)
      for (const auto& o : t.operations) {
        ASSERT_GE(o.bytes, 0) << to_json(p);
        ASSERT_LE(static_cast<double>(o.bytes), most.traffic) << to_json(p);
      }
    ASSERT_EQ(plan_from_json(to_json(p), "plan").memory, p.memory);  // its file can hold it
  }
  EXPECT_GT(accepted, 50);
  EXPECT_GT(too_large, 50);
}

TEST(ModelFile, DefaultsFollowWhatIsSaid) {
  auto all_default = file("");
  EXPECT_EQ(all_default.lanes, 0);  // the default of the model and the device
  all_default.lanes = ModelConfig{}.lanes;
  EXPECT_EQ(all_default, ModelConfig{});
  const auto wide = file("hidden = 768\n");
  EXPECT_EQ(wide.heads, 12);
  EXPECT_EQ(wide.kv_heads, 12);
  EXPECT_EQ(wide.ffn, 3072);
  const auto grouped = file("hidden = 768\nheads = 6\nactivation = \"swiglu\"\n");
  EXPECT_EQ(grouped.kv_heads, 6);
  EXPECT_EQ(grouped.ffn, 2048);
  EXPECT_EQ(file("hidden = 768\nkv_heads = 4\nffn = 100\n").kv_heads, 4);
  EXPECT_EQ(file("hidden = 30\n").heads, 2);
  for (int hidden = 1; hidden <= 400; ++hidden)
    EXPECT_EQ(hidden % file("hidden = " + std::to_string(hidden)).heads, 0) << hidden;
  for (const char* wrong : {"hidden = nan\n", "dropout-embedding = inf\n", "hidden = 30\nheads = 4\n",
                            "hidden = 6\nheads = 2\npositions = \"rotary\"\n"})
    EXPECT_THROW(file(wrong), base::InputError) << wrong;
  EXPECT_EQ(file("kv-heads = 4\nlanes = 3\n").lanes, 3) << "--lanes may say others";
  EXPECT_EQ(file("activation = \"gelu_tanh\"\n").activation, Activation::gelu_tanh);
  EXPECT_EQ(file("activation = \"gelu-erf\"\n").activation, Activation::gelu_erf);
  EXPECT_EQ(file("norm-position = \"post\"\n").norm_position, NormPosition::post);
  EXPECT_EQ(file("norm-position = \"inside-post\"\n").norm_position, NormPosition::inside_post);
  const auto gemma = file(
      "hidden = 768\nactivation = \"geglu-tanh\"\nnorm-position = \"sandwich\"\nnorm-offset = 1\n"
      "embedding-scale = 27.7128\nlogit-softcap = 30\n");
  EXPECT_EQ(gemma.ffn, 2048);
  EXPECT_EQ(gemma.norm_position, NormPosition::sandwich);
  EXPECT_EQ(std::tuple(gemma.norm_offset, gemma.embedding_scale, gemma.logit_softcap), std::tuple(1.0, 27.7128, 30.0));
  EXPECT_EQ(file("hidden = 768\nactivation = \"relu-squared\"\nposition-offset = 2\n").ffn, 3072);
  EXPECT_TRUE(file("parallel-residual = \"on\"\n").parallel_residual);
  for (const char* wrong : {"norm-offset = 0.5\n", "position-offset = 2\npositions = \"rotary\"\n",
                            "parallel-residual = \"on\"\nnorm-position = \"sandwich\"\n", "embedding-scale = 0\n",
                            "head = \"masked\"\nactivation = \"geglu-erf\"\n"})
    EXPECT_THROW(file(wrong), base::InputError) << wrong;
  EXPECT_THROW(file("norm-position = \"post\"\nexperts-count = \"4\"\n"), base::InputError);
}

TEST(ModelHelp, NamesEveryKeyAndItsExampleWorks) {
  const auto help = model_help();
  ModelConfig m;
  for (const auto& f : fields_of(m)) EXPECT_NE(help.find("  " + f.name + " "), std::string::npos) << f.name;
  for (const auto& name : preset_names()) EXPECT_NE(help.find(name), std::string::npos) << name;
  auto example = file(help.substr(help.rfind("\n\n") + 2));
  EXPECT_EQ(example.hidden, 256);
  EXPECT_EQ(example.norm, Norm::rms);
  example.vocabulary = 257, example.lanes = default_lanes(example, base::DeviceKind::cpu);
  EXPECT_TRUE(problems(example).empty());
}

// A key that files did not always have is left out at its default, and kept otherwise. A value that names nothing is
// refused with the nearest name.
TEST(ModelJson, BranchesAreLeftOutWhileTheyAreTheUsualOnes) {
  auto m = preset("gpt2-nano");
  m.lanes = 1;
  EXPECT_FALSE(model_to_json(m).contains("branches"));
  m.branches = {"ffn", "attention"};
  const auto json = model_to_json(m);
  EXPECT_EQ(json["branches"], "ffn,attention");
  EXPECT_EQ(model_from_json(json, "x", ""), m);
  EXPECT_EQ(current_form(json), nlohmann::json(json));
  for (const char* wrong : {"attention,fnn", "", ",", "attention,"}) {
    auto bad = json;
    bad["branches"] = wrong;
    EXPECT_THROW(model_from_json(bad, "x", ""), base::InputError) << wrong;
  }
  m.vocabulary = 257;
  EXPECT_TRUE(problems(m).empty());
  m.branches = {"ffn", "attention", "ffn"};
  EXPECT_EQ(problems(m).size(), 1u) << "two branches with one name";
  m.branches = {"attention", "fnn"};
  EXPECT_EQ(problems(m).size(), 1u);
  m.branches = {};
  EXPECT_EQ(problems(m).size(), 1u);
}

// Files from before these choices existed describe models without them.
TEST(ModelJson, PartsOfBertAreLeftOutWhileThereAreNone) {
  auto m = preset("gpt2-nano");
  for (const char* key : {"norm_position", "embedding_norm", "segments", "head"})
    EXPECT_FALSE(model_to_json(m).contains(key)) << key;
  EXPECT_EQ(model_from_json(model_to_json(m), "x", ""), m);
  m.norm_position = NormPosition::post, m.activation = Activation::gelu_erf;
  EXPECT_EQ(model_to_json(m)["norm_position"], "post");
  EXPECT_EQ(model_to_json(m)["activation"], "gelu_erf");
  m.embedding_norm = true, m.segments = 2, m.head = HeadForm::masked;
  EXPECT_EQ(model_to_json(m)["head"], "masked");
  EXPECT_EQ(model_to_json(m)["segments"], 2);
  EXPECT_EQ(model_from_json(model_to_json(m), "x", ""), m);
}

// Experts are refused with norms after sums, and only then.
TEST(ModelFile, NormsBehindBranchesHaveNoExperts) {
  auto m = preset("gpt2-nano");
  m.vocabulary = 257, m.lanes = 1, m.norm_position = NormPosition::post;
  EXPECT_TRUE(problems(m).empty());
  m.experts.count = {4};
  ASSERT_EQ(problems(m).size(), 1u);
  EXPECT_NE(problems(m)[0].find("norm-position post"), std::string::npos);
  for (const auto position : {NormPosition::pre, NormPosition::inside_post, NormPosition::sandwich}) {
    m.norm_position = position;
    EXPECT_TRUE(problems(m).empty());
  }
}

TEST(ModelFile, TheMaskedHeadIsOfOneLayer) {
  auto m = preset("llama-nano");
  m.vocabulary = 257, m.lanes = 1, m.head = HeadForm::masked;
  ASSERT_EQ(problems(m).size(), 1u);
  EXPECT_NE(problems(m)[0].find("head masked"), std::string::npos);
  m.activation = Activation::gelu_tanh;
  EXPECT_TRUE(problems(m).empty());
}

TEST(ModelJson, NumbersAreNumbersAndOldTextIsTheSame) {
  auto m = preset("llama-nano");
  m.vocabulary = 257, m.dropout_attention = 0.1, m.norm_epsilon = 1e-6;
  const auto json = model_to_json(m);
  EXPECT_TRUE(json["kv_heads"].is_number_integer());
  EXPECT_TRUE(json["biases"].is_boolean());
  EXPECT_EQ(json["dropout_attention"], 0.1);
  EXPECT_EQ(model_from_json(json, "x", ""), m);
  // The form that programs wrote before: every value as text, keys and words with hyphens.
  auto old = nlohmann::ordered_json::object();
  auto copy = m;
  for (const auto& f : fields_of(copy)) old[f.name] = f.get();
  EXPECT_TRUE(old["kv-heads"].is_string());
  EXPECT_EQ(model_from_json(old, "x", ""), m);
  EXPECT_EQ(current_form(old), nlohmann::json(json));
  EXPECT_EQ(current_form(json), nlohmann::json(json));
  auto gpt = preset("gpt2-nano");
  EXPECT_EQ(model_to_json(gpt)["activation"], "gelu_tanh");
  EXPECT_EQ(model_from_json(model_to_json(gpt), "x", ""), gpt);
  auto wrong = json;
  wrong["heads"] = 0;
  EXPECT_THROW(model_from_json(wrong, "x", ""), base::InputError);
  wrong = json;
  wrong.erase("ffn");
  EXPECT_THROW(model_from_json(wrong, "x", ""), base::InputError);
  wrong = json;
  wrong["kv-heads"] = 1;  // beside kv_heads
  EXPECT_THROW(model_from_json(wrong, "x", ""), base::InputError);
  wrong["heads"] = nlohmann::ordered_json::array({1});
  EXPECT_THROW(model_from_json(wrong, "x", ""), base::InputError);
}

}  // namespace problems_test
}  // namespace trainyard::plan
