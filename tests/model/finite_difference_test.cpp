// Every registered block, and the whole small model, against central finite differences in double precision.
#include "libtrain/model/assemble.h"
#include "libtrain/model/recompute.h"
#include "libtrain/plan/blocks/block_registry.h"
#include "tests/model/small_model.h"
#include "tests/night.h"
#include "tests/tools/outside/low_rank.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

namespace trainyard::test {
namespace finite_difference_test {

using base::DType;

std::vector<std::vector<std::int32_t>> windows(const plan::ModelConfig& m) {
  return formula_windows(m.vocabulary, 3, 2, 13, true);
}

// Central difference of f at x. At night four points make the truncation error one of fourth order; by day two points
// are nearer.
double derivative(double& x, const std::function<double()>& f, const std::function<void()>& changed) {
  const bool day = !testing::at_night();
  const double x0 = x, h = day ? 2e-4 : 1e-3;
  const auto at = [&](double offset) {
    x = x0 + offset;
    changed();
    return f();
  };
  const auto two_points = [&](double offset) { return (at(offset) - at(-offset)) / (2 * offset); };
  const double d = day ? two_points(h) : (4 * two_points(h) - two_points(2 * h)) / 3;
  x = x0;
  changed();
  return d;
}

void expect_near(double analytic, double numeric, double scale, const std::string& where) {
  EXPECT_NEAR(analytic, numeric, 2e-6 * (std::abs(numeric) + scale)) << where;
}

// Moves weights away from their initial values, so that norms, biases and attention all matter.
void stir(PlainStore& store) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal(0, 0.2);
  for (std::size_t u = 0; u < store.flat_groups.size(); ++u)
    for (std::size_t p = 0; p < store.flat_groups[u].parameters.size(); ++p)
      for (std::int64_t i = 0; i < store.flat_groups[u].parameters[p].count(); ++i)
        store.master[u][static_cast<std::size_t>(store.layouts[u].offsets[p] + i)] += normal(random);
  store.publish();
}

// Checks some elements of every parameter that `occurrences` names. Their gradients are those at the point itself, from
// one pass; a difference moves one element from there and back.
void check_parameters(PlainStore& store, const std::vector<plan::Occurrence>& occurrences,
                      const std::function<double()>& objective, int samples) {
  struct Sample {
    double* x;
    double gradient, scale;
    std::string where;
  };
  std::mt19937_64 random(11);
  std::vector<Sample> chosen;
  objective();
  for (const auto& occurrence : occurrences) {
    const auto u = static_cast<std::size_t>(occurrence.flat_group);
    for (std::size_t p = 0; p < store.flat_groups[u].parameters.size(); ++p) {
      const auto& parameter = store.flat_groups[u].parameters[p];
      if (parameter.update.kind != plan::Update::Kind::optimizer) continue;  // it has no gradient
      const auto gradient = [&](std::int64_t i) {
        return store.gradient_of(occurrence.flat_group, static_cast<int>(p), i);
      };
      double scale = 0;
      for (std::int64_t i = 0; i < parameter.count(); ++i) scale = std::max(scale, std::abs(gradient(i)));
      for (int k = 0; k < samples; ++k) {
        const auto i = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(parameter.count()));
        chosen.push_back({&store.master[u][static_cast<std::size_t>(store.layouts[u].offsets[p] + i)], gradient(i),
                          scale, parameter.name + "[" + std::to_string(i) + "]"});
      }
      for (std::int64_t i = parameter.count(); i < parameter.stored_count(); ++i)
        ASSERT_EQ(gradient(i), 0.0) << "padding of " << parameter.name;
    }
  }
  for (const auto& [x, analytic, scale, where] : chosen)
    expect_near(analytic, derivative(*x, objective, [&] { store.publish(); }), scale + 1e-3, where);
}

void whole_model(plan::ModelConfig m, plan::Recompute recompute, bool label_smoothing = false) {
  if (emulated()) {
    m.layers = 1, m.hidden = 16, m.heads /= 2, m.kv_heads = std::max<std::int64_t>(1, m.kv_heads / 2), m.ffn = 24;
    m.lanes = std::min(m.lanes, m.kv_heads);
  }
  const Batch batch(windows(m), true);
  PlainStore store(m, DType::f64, 3);
  stir(store);
  plan::MicroShape shape{{2, 13}, {DType::f64, 1}};
  shape.label_smoothing = label_smoothing;
  Runner runner(m, shape, recompute);
  std::int64_t targets = 0;
  const auto loss = [&] {
    const auto r = runner.train(store, batch);
    targets = r.targets;
    return r.loss_sum;
  };
  check_parameters(store, plan::occurrences(m), loss, emulated() ? 1 : testing::by_day_or_night(1, 2));
  EXPECT_TRUE(runner.saved.empty());
  EXPECT_EQ(runner.activations.used_bytes(), 0);
  EXPECT_EQ(runner.workspace.used_bytes(), 0);
  std::int64_t counted = 0;
  for (auto w : batch.weights) counted += w;
  EXPECT_EQ(targets, counted);
  EXPECT_LT(targets, 2 * 13);
}

TEST(FiniteDifferences, Gpt2) { whole_model(with_dropout(small_gpt2()), plan::Recompute::none); }
TEST(FiniteDifferences, Llama) { whole_model(with_dropout(small_llama()), plan::Recompute::none); }
TEST(FiniteDifferences, InnerDropout) {
  whole_model(with_inner_dropout(small_gpt2()), plan::Recompute::selective);
  whole_model(with_inner_dropout(small_llama()), plan::Recompute::none);
}
TEST(FiniteDifferences, SmoothedLlama) { whole_model(small_llama(), plan::Recompute::none, true); }
TEST(FiniteDifferences, SmoothedBert) { whole_model(small_bert(), plan::Recompute::none, true); }
TEST(FiniteDifferences, PostNorm) { whole_model(with_dropout(small_post()), plan::Recompute::none); }
TEST(FiniteDifferences, PostNormSelective) { whole_model(with_dropout(small_post()), plan::Recompute::selective); }
TEST(FiniteDifferences, PostNormRecomputed) { whole_model(with_dropout(small_post()), plan::Recompute::layers); }
TEST(FiniteDifferences, UntiedLlamaWithNormsBehind) {
  auto m = with_dropout(small_llama());
  m.norm_position = plan::NormPosition::post, m.activation = plan::Activation::geglu_erf;
  whole_model(m, plan::Recompute::none);
}
TEST(FiniteDifferences, Bert) { whole_model(with_dropout(small_bert()), plan::Recompute::none); }
TEST(FiniteDifferences, UntiedBertWithoutBiases) {
  auto m = with_dropout(small_bert());
  m.tied = false, m.biases = plan::Biases::off, m.activation = plan::Activation::gelu_tanh;
  whole_model(m, plan::Recompute::selective);
}
// The parts of BERT in a pre-norm model.
TEST(FiniteDifferences, PreNormWithTheMaskedHead) {
  auto m = with_dropout(small_bert());
  m.norm_position = plan::NormPosition::pre, m.norm = plan::Norm::rms, m.positions = plan::Positions::rotary;
  whole_model(m, plan::Recompute::layers);
}
TEST(FiniteDifferences, Sandwich) { whole_model(with_dropout(small_sandwich()), plan::Recompute::selective); }
TEST(FiniteDifferences, InsidePost) { whole_model(with_dropout(small_inside_post()), plan::Recompute::layers); }
TEST(FiniteDifferences, Parallel) { whole_model(with_dropout(small_parallel()), plan::Recompute::none); }
TEST(FiniteDifferences, ExactGelu) {
  auto m = small_gpt2();
  m.activation = plan::Activation::gelu_erf;
  whole_model(m, plan::Recompute::none);
}
TEST(FiniteDifferences, Gpt2Recomputed) { whole_model(with_dropout(small_gpt2()), plan::Recompute::layers); }
TEST(FiniteDifferences, TiedLlamaWithBiases) {
  auto m = with_dropout(small_llama());
  m.tied = true, m.biases = plan::Biases::on, m.activation = plan::Activation::geglu_tanh;
  whole_model(m, plan::Recompute::selective);
}
// YaRN's cosines and sines have a factor, and the end of each head does not rotate.
TEST(FiniteDifferences, ScaledAnglesOfAPartOfEachHead) {
  auto m = small_llama();
  m.rotary = {.scaling = plan::RotaryScaling::yarn, .factor = 4, .original = 16, .fraction = 0.5};
  whole_model(m, plan::Recompute::none);
}
// Heads that are wider or narrower than hidden / heads, biases of q, k and v alone, and a scale of its own.
TEST(FiniteDifferences, HeadsOfAnotherSize) {
  for (const std::int64_t size : {16, 4}) {
    auto m = with_dropout(small_llama());
    m.head_size = size, m.biases = plan::Biases::qkv, m.query_scale = 0.3;
    whole_model(m, plan::Recompute::none);
  }
}
// The weights' gradients add up two lanes of heads.
TEST(FiniteDifferences, NormsOfQueriesAndKeys) {
  auto m = with_dropout(small_llama());
  m.qk_norm = plan::QkNorm::head, m.head_size = 16, m.lanes = 2;
  whole_model(m, plan::Recompute::none);
  m.norm_epsilon = 0.1;
  whole_model(m, plan::Recompute::selective);
  m.qk_norm = plan::QkNorm::width;
  whole_model(m, plan::Recompute::none);
  auto gpt = small_gpt2();
  gpt.qk_norm = plan::QkNorm::width;
  whole_model(gpt, plan::Recompute::selective);
}
TEST(FiniteDifferences, UntiedGpt2WithGroupedQueries) {
  auto m = small_gpt2();
  m.tied = false, m.kv_heads = 1;
  whole_model(m, plan::Recompute::none);
}

// So small a difference changes no choice of an expert and no place. The gate's losses are left out: the tests of
// kernels/gate and the golden models check their gradients.
plan::ModelConfig small_experts(plan::ModelConfig m) {
  m.experts.count = {4}, m.experts.balance_loss = 0, m.experts.min_capacity = 1, m.experts.ffn = 48;
  return m;
}
TEST(FiniteDifferences, AdaptersOnAllLayers) {
  whole_model(with_adapters(with_dropout(small_gpt2())), plan::Recompute::layers);
  whole_model(with_adapters(with_dropout(small_llama())), plan::Recompute::selective);
  whole_model(with_adapters(with_dropout(small_bert())), plan::Recompute::none);
  whole_model(with_adapters(with_dropout(small_sandwich())), plan::Recompute::layers);
}
TEST(FiniteDifferences, AdaptersOnSomeLayers) {
  whole_model(with_adapters(with_dropout(small_parallel()), {"o"}), plan::Recompute::layers);
  whole_model(with_adapters(with_dropout(small_post()), {"down"}), plan::Recompute::selective);
  whole_model(with_adapters(with_dropout(small_inside_post()), {"up", "v"}), plan::Recompute::none);
  auto m = with_adapters(with_dropout(small_llama()), {"gate", "k"});
  m.qk_norm = plan::QkNorm::head;
  whole_model(m, plan::Recompute::layers);
  m.qk_norm = plan::QkNorm::width;
  whole_model(m, plan::Recompute::none);
}
TEST(FiniteDifferences, AdaptersBesideExperts) {
  auto mixed = small_experts(with_adapters(with_dropout(small_gpt2()), {"q", "k", "v", "o"}));
  mixed.experts.every = 2, mixed.experts.top_k = 2, mixed.experts.residual = true;
  mixed.experts.noise = plan::GateNoise::jitter;
  whole_model(mixed, plan::Recompute::selective);
  auto shared = small_experts(with_adapters(small_llama(), {"o"}));
  shared.experts.top_k = 3, shared.experts.shared = 2, shared.experts.capacity_factor = "none";
  shared.experts.count = {5, 4};
  whole_model(shared, plan::Recompute::layers);
}
TEST(FiniteDifferences, OneExpertOfFour) {
  auto m = small_experts(with_dropout(small_gpt2()));
  m.experts.every = 2, m.experts.overflow = plan::Overflow::position;
  whole_model(m, plan::Recompute::none);
}
TEST(FiniteDifferences, TwoExpertsAndAMix) {
  auto m = small_experts(with_dropout(small_gpt2()));
  m.experts.top_k = 2, m.experts.residual = true, m.experts.noise = plan::GateNoise::jitter;
  whole_model(m, plan::Recompute::selective);
}
TEST(FiniteDifferences, ThreeExpertsAndSharedOnes) {
  auto m = small_experts(small_llama());
  m.experts.top_k = 3, m.experts.shared = 2, m.experts.capacity_factor = "none", m.experts.count = {5, 4};
  m.activation = plan::Activation::geglu_tanh;
  whole_model(m, plan::Recompute::layers);
}
TEST(FiniteDifferences, SigmoidScores) {
  auto m = small_experts(small_llama());
  m.experts.top_k = 2, m.experts.score = plan::GateScore::sigmoid, m.experts.overflow = plan::Overflow::probability;
  m.experts.noise = plan::GateNoise::gumbel;
  whole_model(m, plan::Recompute::none);
}
TEST(FiniteDifferences, ScaledScoresWithinGroups) {
  auto m = small_experts(small_llama());
  m.experts.top_k = 2, m.experts.groups = 2;
  m.experts.weights = plan::GateWeights::scores, m.experts.scale = 2.5, m.experts.shared = 1;
  whole_model(m, plan::Recompute::none);
}

// Three branches, one of them from outside the library.
TEST(FiniteDifferences, ABranchOfOnesOwn) {
  low_rank::register_branch();
  auto m = with_dropout(small_gpt2());
  m.branches = {"low_rank", "attention", "ffn"};
  whole_model(m, plan::Recompute::none);
  m.branches = {"low_rank"};
  whole_model(m, plan::Recompute::layers);
  m.norm_position = plan::NormPosition::post;
  whole_model(m, plan::Recompute::layers);
  m.branches = {"low_rank", "attention", "ffn"};
  whole_model(m, plan::Recompute::selective);
}

// The head's gradients when it has more tokens than it makes logits of at a time.
TEST(FiniteDifferences, ChunksOfTheMaskedHead) {
  if (on_gpu()) GTEST_SKIP() << "several chunks are long there";
  auto m = small_bert();
  m.layers = 1, m.context = 300;
  const Batch batch(formula_windows(m.vocabulary, 3, 1, 300, false), false);
  PlainStore store(m, DType::f64, 3);
  stir(store);
  Runner runner(m, {1, 300, DType::f64, 2});
  const auto occurrences = plan::placed_blocks(m).back().occurrences;
  check_parameters(
      store, {occurrences.front()}, [&] { return runner.train(store, batch).loss_sum; }, 2);
}

// One block alone. The objective is <c, output> for a fixed random c, plus the loss if the block has one.
void one_block(const std::string& name, const plan::ModelConfig& m, bool wrapped) {
  SCOPED_TRACE(name + " of " + m.name);
  const auto places = plan::placed_blocks(m);
  const auto& place = name == "embedding" ? places.front() : name == "head" ? places.back() : places[2];
  auto block = model::block_factory(name)(m, place);
  if (wrapped) block = model::recompute(std::move(block));
  const Batch batch(windows(m), true, 100);
  PlainStore store(m, DType::f64, 3);
  stir(store);
  const plan::MicroShape shape{{2, 13}, {DType::f64, 1}};
  tensor::Arena activations(tensor::Category::activations, 8 << 20, test_device()),
      workspace(tensor::Category::workspace, 64 << 20, test_device());
  const auto exec = test_exec(&workspace, 1);
  model::Saved saved(activations);
  const auto n = static_cast<std::size_t>(shape.rows() * m.hidden);
  std::vector<double> input(n), c(n), gradient(n);
  Twin stream(n * sizeof(double));
  const auto set = [&](const std::vector<double>& values) {
    std::memcpy(stream.host.data(), values.data(), stream.host.size());
    stream.push();
  };
  const auto get = [&] {
    exec->synchronize();
    stream.pull();
    std::vector<double> values(n);
    std::memcpy(values.data(), stream.host.data(), stream.host.size());
    return values;
  };
  std::mt19937_64 random(9);
  std::normal_distribution<double> normal(0, 1);
  for (auto& x : input) x = normal(random);
  for (auto& x : c) x = normal(random);
  const auto objective = [&] {
    store.committed.clear();
    model::Step step{*exec, &store, batch.micro, DType::f64, 17, plan::Pass::train, 0, 0};
    set(input);
    model::Flow flow{base::View(stream.there(), DType::f64, {shape.rows(), m.hidden}, test_device()), {}};
    block->forward(step, flow, saved);
    double value = 0;
    const auto output = get();
    if (place.part != plan::Part::output)
      for (std::size_t i = 0; i < n; ++i) value += c[i] * output[i];
    set(c);
    block->backward(step, flow, saved);
    EXPECT_TRUE(saved.empty());
    gradient = get();
    store.pull();
    return value + step.loss_sum;
  };
  check_parameters(store, place.occurrences, objective, testing::by_day_or_night(2, 4));
  EXPECT_EQ(store.held, 0);
  EXPECT_EQ(store.opened, 0);
  for (const auto& occurrence : place.occurrences)
    EXPECT_EQ((store.committed[{occurrence.flat_group, occurrence.index}]), 1);
  if (place.part == plan::Part::input) return;  // it has no hidden states as input
  objective();
  const auto analytic = gradient;
  for (std::size_t i = 5; i < n; i += n / 12)
    expect_near(analytic[i], derivative(input[i], objective, [] {}), 1e-2, "input[" + std::to_string(i) + "]");
}

TEST(FiniteDifferences, EveryRegisteredBlock) {
  for (const auto& name : plan::block_names())
    if (name != "bridge")  // only beside an encoder (encoder_decoder_test.cpp)
      for (const auto& m : {with_dropout(small_gpt2()), with_dropout(small_llama()), with_dropout(small_post()),
                            with_dropout(small_bert()), with_dropout(small_sandwich()),
                            with_dropout(small_inside_post()), with_dropout(small_parallel())}) {
        one_block(name, m, false);
        one_block(name, m, true);
      }
}

}  // namespace finite_difference_test
}  // namespace trainyard::test
