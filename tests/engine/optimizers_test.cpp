// Runs with the optimizers other than AdamW and SGD: the same bits on every layout and after a resume, what is refused,
// and the whole update against double precision.
#include "libtrain/checkpoint/reshard.h"
#include "libtrain/engine/config.h"
#include "libtrain/engine/run_folder.h"
#include "libtrain/engine/setup.h"
#include "libtrain/engine/trainer.h"
#include "tests/engine/small_run.h"
#include "tests/night.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <span>

namespace trainyard {
namespace optimizers_test {

using testing::ParallelLayout;
using testing::SmallRun;

// An element in double precision. `g` is the clipped gradient of the mean loss.
struct Element {
  double w, m = 0, v = 0;
  bool unsure = false;  // rounding decides what becomes of it: it is compared no more
  double update = 0;    // of an optimizer that needs the norm of a whole parameter
};

struct Step {
  double g, decay, rate;
  int number;  // from 1
};

// An optimizer as its paper has it, and what checkpoints and messages say of it.
struct Described {
  std::string name;
  std::vector<std::string> states;
  std::vector<std::pair<const char*, const char*>> others;  // settings that it does not read
  std::function<void(Element&, const Step&, const engine::RunConfig&)> step;
  std::function<void(std::span<Element> parameter, double rate)> of_parameter = {};  // after each element's step
};

// Kingma and Ba 2015, algorithm 1, with L2 regularisation as torch.optim.Adam has it.
void adam(Element& e, const Step& s, const engine::RunConfig& c) {
  const double g = s.g + s.decay * e.w;
  e.m = c.beta1 * e.m + (1 - c.beta1) * g;
  e.v = c.beta2 * e.v + (1 - c.beta2) * g * g;
  const double mean = e.m / (1 - std::pow(c.beta1, s.number)), square = e.v / (1 - std::pow(c.beta2, s.number));
  e.w -= s.rate * mean / (std::sqrt(square) + c.epsilon);
}

// You et al. 2020, algorithm 2, with the bias correction of its moments.
void lamb(Element& e, const Step& s, const engine::RunConfig& c) {
  e.m = c.beta1 * e.m + (1 - c.beta1) * s.g;
  e.v = c.beta2 * e.v + (1 - c.beta2) * s.g * s.g;
  const double mean = e.m / (1 - std::pow(c.beta1, s.number)), square = e.v / (1 - std::pow(c.beta2, s.number));
  e.update = mean / (std::sqrt(square) + c.epsilon) + s.decay * e.w;
}
void scale_by_trust_ratio(std::span<Element> parameter, double rate) {
  double weights = 0, updates = 0;
  for (const auto& e : parameter) weights += e.w * e.w, updates += e.update * e.update;
  const double ratio = weights > 0 && updates > 0 ? std::sqrt(weights / updates) : 1;
  for (auto& e : parameter) e.w -= rate * ratio * e.update;
}

// Chen et al. 2023, algorithm 2.
void lion(Element& e, const Step& s, const engine::RunConfig& c) {
  const double kept = c.beta1 * e.m, fresh = (1 - c.beta1) * s.g, sum = kept + fresh;
  // Where both parts nearly cancel, f32 may have the other sign.
  e.unsure = e.unsure || (sum != 0 && std::abs(sum) < 1e-6 * (std::abs(kept) + std::abs(fresh)));
  e.w -= s.rate * ((sum > 0 ? 1 : sum < 0 ? -1 : 0) + s.decay * e.w);
  e.m = c.beta2 * e.m + (1 - c.beta2) * s.g;
}

const std::vector<Described>& all_described() {
  static const std::vector<Described> all = {
      {"adam", {"m", "v"}, {{"momentum", "0.5"}, {"nesterov", "on"}}, adam},
      {"lamb", {"m", "v"}, {{"momentum", "0.5"}, {"nesterov", "on"}}, lamb, scale_by_trust_ratio},
      {"lion", {"m"}, {{"epsilon", "0.1"}, {"momentum", "0.5"}, {"nesterov", "on"}}, lion},
  };
  return all;
}

engine::RunConfig by(const std::string& optimizer, const SmallRun& runs, const std::string& output) {
  auto c = runs.config(optimizer + "-" + output);
  c.optimizer = optimizer, c.weight_decay = 0.05, c.beta1 = 0.85, c.beta2 = 0.98, c.warmup_steps = 3;
  return c;
}

std::string refusal_of(const std::function<void()>& work, std::string* hint = nullptr) {
  try {
    work();
    return "";
  } catch (const base::Error& e) {
    if (hint != nullptr) *hint = e.hint();
    return e.what();
  }
}

// By day each layout has one of the two dtypes.
TEST(Optimizers, HaveTheSameBitsOnEveryLayout) {
  SmallRun runs;
  const auto config = [&](const std::string& optimizer, const std::string& output) {
    auto c = by(optimizer, runs, output);
    c.steps = testing::by_day_or_night(6, 20);
    return c;
  };
  for (const auto& o : all_described())
    for (const char* dtype : {"f32", "bf16"}) {
      const auto alone = config(o.name, std::string("alone-") + dtype);
      const auto expected = runs.bits(alone, runs.run(alone, {1, 0, 1, dtype}));
      std::string held;
      for (const char* state : {"m", "v", "momentum"})
        if (expected.find(fmt::format("/optimizer/{}/layers.00.attention.q.weight", state)) != std::string::npos)
          held += std::string(held.empty() ? "" : ", ") + state;
      EXPECT_EQ(held, fmt::format("{}", fmt::join(o.states, ", "))) << o.name;
      bool turn = dtype == std::string("f32");
      for (const auto& layout :
           {ParallelLayout{2, 0, 1, dtype}, ParallelLayout{2, 1, 2, dtype}, ParallelLayout{3, 2, 1, dtype},
            ParallelLayout{2, 3, 1, dtype, "full"}, ParallelLayout{4, 3, 1, dtype, "none", 2},
            ParallelLayout{2, 0, 1, dtype, "none", 1, false, 2}}) {
        turn = !turn;
        if (!testing::at_night() && turn) continue;
        auto c = config(
            o.name, fmt::format("{}-{}-{}-{}-{}", dtype, layout.ranks, layout.zero, layout.tensor, layout.pipeline));
        EXPECT_EQ(runs.bits(c, runs.run(c, layout)), expected) << c.output;
        for (const auto& report : runs.reports()) EXPECT_EQ(report.find("differs"), std::string::npos) << report;
      }
    }
}

// Each expert's matrices are parameters of their own, so it does not matter how many experts a rank holds. By day each
// layout has one of the two dtypes.
TEST(Optimizers, HaveTheSameBitsHoweverExpertsAreShared) {
  SmallRun runs;
  const auto model = runs.model("experts",
                                "layers = 2\nhidden = 32\nheads = 4\nkv-heads = 4\nffn = 64\ncontext = 32\n"
                                "[experts]\ncount = 4\nevery = 2\ntop-k = 2\nscore = \"sigmoid\"\nbias-rate = 0.05\n");
  const auto experts = [&](const std::string& output) {
    auto c = by("lamb", runs, output);
    c.model = model, c.steps = 6, c.global_batch = 8;
    return c;
  };
  for (const char* dtype : {"f32", "bf16"}) {
    const auto alone = experts(std::string("experts-alone-") + dtype);
    const auto expected = runs.bits(alone, runs.run(alone, {1, 0, 1, dtype}));
    int n = 0;
    for (const auto& [ranks, zero, tensor, pipeline, degree] : std::vector<std::array<int, 5>>{
             {2, 0, 1, 1, 2}, {4, 1, 1, 1, 2}, {4, 3, 1, 1, 4}, {4, 0, 2, 1, 2}, {4, 2, 2, 1, 1}, {4, 1, 1, 2, 2}}) {
      auto c = experts(fmt::format("experts-{}-{}", dtype, n++));
      if (!testing::at_night() && (n % 2 == 1) == (dtype == std::string("f32"))) continue;
      ParallelLayout layout{ranks, zero, 1, dtype, "none", tensor};
      layout.pipeline = pipeline, layout.experts = degree;
      SCOPED_TRACE(fmt::format("{} ranks, ZeRO {}, {} tensor, {} stages, experts over {}", ranks, zero, tensor,
                               pipeline, degree));
      EXPECT_EQ(runs.bits(c, runs.run(c, layout)), expected);
      for (const auto& report : runs.reports()) EXPECT_EQ(report.find("differs"), std::string::npos) << report;
    }
  }
}

// The checkpoint is also resharded on the way.
TEST(Optimizers, ResumeToTheSameBitsOnAnotherLayout) {
  SmallRun runs;
  for (const auto& o : all_described()) {
    const auto whole = by(o.name, runs, "whole");
    const auto expected = runs.bits(whole, runs.run(whole, {1, 0, 1}));
    auto c = by(o.name, runs, "stopped");
    c.stop_after = 7;
    runs.run(c, {3, 2, 1});
    c.stop_after = 13;
    const auto from = runs.run(c, {2, 3, 1}).checkpoint;
    const auto next = (runs.folder() / (o.name + "-resharded")).string();
    checkpoint::ReshardOptions options;
    options.history = engine::history_through(from, 13);
    checkpoint::reshard(checkpoint::Reader(from), next, {2, {}, 1, {}, {}, 2}, options);
    c.stop_after = 0, c.resume = next;
    EXPECT_EQ(runs.bits(c, runs.run(c, {4, 1, 1, "f32", "none", 2})), expected) << o.name;
  }
}

TEST(Optimizers, HaveTheirSettingsInTheIdentity) {
  SmallRun runs;
  for (const auto& o : all_described()) {
    const auto identity = engine::make_setup(by(o.name, runs, "identity"), 1, 1).identity;
    EXPECT_EQ(identity["optimizer"], o.name);
    EXPECT_EQ(identity["beta1"], 0.85);
    EXPECT_EQ(identity["beta2"], 0.98);
    EXPECT_EQ(identity["weight_decay"], 0.05);
    for (const auto& [name, value] : o.others) EXPECT_FALSE(identity.contains(name)) << o.name << " " << name;
  }
}

TEST(Optimizers, ChangeASettingOnlyWhereItIsNamed) {
  SmallRun runs;
  for (const auto& o : all_described()) {
    auto c = by(o.name, runs, "changed");
    c.steps = 4;
    runs.run(c, {1, 0, 1});
    c.beta2 = 0.9, c.steps = 6;
    std::string hint;
    const auto refusal = refusal_of([&] { runs.run(c, {1, 0, 1}); }, &hint);
    EXPECT_NE(refusal.find("beta2"), std::string::npos) << refusal;
    EXPECT_NE(hint.find("beta2,steps"), std::string::npos) << hint;
    c.change = "beta2,steps";
    EXPECT_EQ(runs.run(c, {1, 0, 1}).code, base::ExitCode::done) << o.name;
  }
}

// A run keeps its optimizer. A new run may begin with the weights of another one's, and its own states are zero.
TEST(Optimizers, CannotGoOnFromTheStatesOfAdamW) {
  SmallRun runs;
  for (const auto& o : all_described()) {
    auto c = runs.config("begun-" + o.name);
    c.steps = 4;
    const auto checkpoint = runs.run(c, {1, 0, 1}).checkpoint;
    c.optimizer = o.name;
    std::string hint;
    const auto refusal = refusal_of([&] { runs.run(c, {1, 0, 1}); }, &hint);
    EXPECT_NE(refusal.find(fmt::format("holds the states of adamw (m, v), this run has --optimizer {} ({})", o.name,
                                       fmt::join(o.states, ", "))),
              std::string::npos)
        << refusal;
    EXPECT_NE(hint.find("--optimizer adamw"), std::string::npos) << hint;
    c.output += "-anew", c.init_from = checkpoint;
    const auto anew = runs.run(c, {2, 1, 1});
    EXPECT_EQ(anew.code, base::ExitCode::done);
    const auto stored = checkpoint::read_state(anew.checkpoint).optimizer;
    EXPECT_EQ(stored.name, o.name);
    EXPECT_EQ(stored.states, o.states);
  }
}

TEST(Optimizers, RefuseSettingsThatTheyDoNotRead) {
  const auto refusal = [](const std::vector<std::pair<const char*, const char*>>& given) {
    engine::RunConfig c;
    auto fields = fields_of(c);
    for (const auto& [name, value] : given) {
      auto& f = base::field_named(fields, name, "it");
      f.set(value, name), f.source = base::from_flag;
    }
    return refusal_of([&] { require_settings_of_optimizer(fields, c); });
  };
  for (const auto& o : all_described()) {
    EXPECT_EQ(refusal({{"optimizer", o.name.c_str()}, {"beta1", "0.5"}, {"beta2", "0.5"}, {"weight-decay", "0"}}), "");
    for (const auto& [name, value] : o.others) {
      const auto text = refusal({{"optimizer", o.name.c_str()}, {name, value}});
      EXPECT_TRUE(text.starts_with(fmt::format("--{} is a setting of ", name))) << text;
      EXPECT_TRUE(text.ends_with(fmt::format(", and --optimizer is {}", o.name))) << text;
    }
  }
}

// The engine's gradients go through the update of the paper in double precision.
void follow_double_precision(const Described& o) {
  SmallRun runs;
  auto c = by(o.name, runs, "double");
  c.model = runs.llama(), c.steps = 40, c.clip = 0.4, c.weight_decay = 0.2, c.epsilon = 1e-4, c.threads = 1;
  const auto setup = engine::make_setup(c, 1, 1);
  auto world = engine::solo_world();
  data::WindowDataset text(
      c.data, setup.index, setup.index.train,
      {.sequence = setup.plan.sequence, .mask = setup.mask, .order = data::Order::keyed, .seed = c.seed});
  engine::Batches batches(text, nullptr, setup.plan.batch(), 0);
  engine::Trainer trainer(setup.plan, setup.step, world, batches);
  trainer.store().initialize(c.seed);
  auto& states = trainer.store().states();
  std::vector<std::vector<Element>> elements;
  std::vector<std::vector<float>> first;
  for (int u = 0; u < trainer.context().flat_groups(); ++u) {
    const auto shard = states.master_shard(u);
    first.emplace_back(shard.ptr<float>(), shard.ptr<float>() + shard.count());
    elements.emplace_back();
    for (const float w : first.back()) elements.back().push_back({.w = w});
  }
  bool clipped = false, whole = false;
  for (int step = 0; step < c.steps; ++step) {
    ASSERT_TRUE(trainer.begin_step(step, [] { return false; }));
    const auto outcome = trainer.finish_step();
    const double clip = std::min(1.0, c.clip / (outcome.gradient_norm + 1e-6));
    clipped = clipped || clip < 1, whole = whole || clip == 1;
    const double scale = clip / static_cast<double>(outcome.targets);
    double way = 0, error = 0;
    std::int64_t compared = 0, unsure = 0;
    for (int u = 0; u < trainer.context().flat_groups(); ++u) {
      const auto at = static_cast<std::size_t>(u);
      const auto* gradient = trainer.store().shard_gradient(u).ptr<float>();
      const auto* weights = states.master_shard(u).ptr<float>();
      const auto& layout = trainer.context().layout(u);
      for (std::size_t p = 0; p < layout.offsets.size(); ++p) {
        const double decay = trainer.context().flat_group(u).parameters[p].decay ? c.weight_decay : 0;
        const auto begin = static_cast<std::size_t>(layout.offsets[p]), end = static_cast<std::size_t>(layout.end(p));
        for (auto i = begin; i < end; ++i)
          o.step(elements[at][i], {scale * static_cast<double>(gradient[i]), decay, outcome.learning_rate, step + 1},
                 c);
        if (o.of_parameter) o.of_parameter(std::span(elements[at]).subspan(begin, end - begin), outcome.learning_rate);
        for (auto i = begin; i < end; ++i) {
          const auto& e = elements[at][i];
          unsure += e.unsure;
          if (e.unsure) continue;
          ++compared;
          way += std::pow(e.w - static_cast<double>(first[at][i]), 2);
          error += std::pow(e.w - static_cast<double>(weights[i]), 2);
        }
      }
    }
    ASSERT_LT(std::sqrt(error), 1e-5 * std::sqrt(way) + 1e-6) << o.name << ", step " << step + 1;
    ASSERT_LT(unsure * 1000, compared) << o.name << ", step " << step + 1;
  }
  EXPECT_TRUE(clipped && whole) << "some steps are clipped and some are not: " << o.name;
}

TEST(Optimizers, FollowDoublePrecisionForFortySteps) {
  for (const auto& o : all_described()) follow_double_precision(o);
}

}  // namespace optimizers_test
}  // namespace trainyard
