// Runs with --optimizer sgd: the same bits on every layout and after a resume, the memory of its one state, what is
// refused, and the whole update against double precision.
#include "libtrain/engine/config.h"
#include "libtrain/engine/identity.h"
#include "libtrain/engine/setup.h"
#include "libtrain/engine/trainer.h"
#include "tests/engine/small_run.h"
#include "tests/night.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trainyard {
namespace {

using testing::ParallelLayout;
using testing::SmallRun;

engine::RunConfig sgd(const SmallRun& runs, const std::string& output) {
  auto c = runs.config(output);
  c.optimizer = "sgd", c.momentum = 0.8, c.weight_decay = 0.05, c.learning_rate = 0.05, c.warmup_steps = 3;
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
TEST(Sgd, HasTheSameBitsOnEveryLayout) {
  SmallRun runs;
  for (const char* dtype : {"f32", "bf16"}) {
    auto alone = sgd(runs, std::string("alone-") + dtype);
    alone.steps = testing::by_day_or_night(6, 20);
    const auto expected = runs.bits(alone, runs.run(alone, {1, 0, 1, dtype}));
    EXPECT_NE(expected.find("/optimizer/momentum/layers.00.attention.q.weight"), std::string::npos) << expected;
    EXPECT_EQ(expected.find("/optimizer/m/"), std::string::npos);
    bool turn = dtype == std::string("f32");
    for (const auto& layout :
         {ParallelLayout{2, 0, 1, dtype}, ParallelLayout{2, 1, 2, dtype}, ParallelLayout{3, 2, 1, dtype},
          ParallelLayout{2, 3, 1, dtype, "full"}, ParallelLayout{4, 3, 1, dtype, "none", 2},
          ParallelLayout{2, 0, 1, dtype, "none", 1, false, 2}}) {
      turn = !turn;
      if (!testing::at_night() && turn) continue;
      auto c =
          sgd(runs, fmt::format("{}-{}-{}-{}-{}", dtype, layout.ranks, layout.zero, layout.tensor, layout.pipeline));
      c.steps = alone.steps;
      EXPECT_EQ(runs.bits(c, runs.run(c, layout)), expected) << c.output;
      for (const auto& report : runs.reports()) EXPECT_EQ(report.find("differs"), std::string::npos) << report;
    }
  }
}

TEST(Sgd, ResumesToTheSameBitsOnAnotherLayout) {
  SmallRun runs;
  const auto whole = sgd(runs, "whole");
  const auto expected = runs.bits(whole, runs.run(whole, {1, 0, 1}));
  auto c = sgd(runs, "stopped");
  c.stop_after = 7;
  runs.run(c, {3, 2, 1});
  c.stop_after = 0;
  EXPECT_EQ(runs.bits(c, runs.run(c, {2, 3, 1})), expected);
}

TEST(Sgd, NesterovAndMomentumChangeTheRunAndItsIdentity) {
  SmallRun runs;
  const auto plain = sgd(runs, "plain");
  const auto bits = runs.bits(plain, runs.run(plain, {1, 0, 1}));
  const auto identity = engine::make_setup(plain, 1, 1).identity;
  EXPECT_EQ(identity["optimizer"], "sgd");
  EXPECT_EQ(identity["momentum"], 0.8);
  EXPECT_EQ(identity["nesterov"], "off");
  EXPECT_EQ(identity["weight_decay"], 0.05);
  EXPECT_FALSE(identity.contains("beta1"));
  auto ahead = sgd(runs, "ahead");
  ahead.nesterov = true;
  EXPECT_NE(runs.bits(ahead, runs.run(ahead, {1, 0, 1})), bits);
  ahead.output = plain.output, ahead.steps = 25;
  std::string hint;
  const auto refusal = refusal_of([&] { runs.run(ahead, {1, 0, 1}); }, &hint);
  EXPECT_NE(refusal.find("--nesterov"), std::string::npos) << refusal;
  EXPECT_NE(hint.find("--change nesterov,steps"), std::string::npos) << hint;
}

// The identity of a run with AdamW is what it was before there was a choice.
TEST(Sgd, LeavesTheIdentityOfAdamWAlone) {
  SmallRun runs;
  const auto identity = engine::make_setup(runs.config("adamw"), 1, 1).identity;
  for (const char* key : {"optimizer", "momentum", "nesterov"}) EXPECT_FALSE(identity.contains(key)) << key;
  std::string keys;
  for (const auto& item : identity.items()) keys += item.key() + " ";
  EXPECT_EQ(keys,
            "beta1 beta2 clip data decay_embeddings decay_steps document_mask epsilon final_learning_rate fold "
            "global_batch learning_rate micro_batch model objective reduction schedule seed sequence "
            "start_learning_rate steps warmup_steps weight_decay ");
  EXPECT_EQ(identity["beta1"].dump() + " " + identity["epsilon"].dump() + " " + identity["weight_decay"].dump(),
            "0.9 1e-08 0.1");
}

TEST(Sgd, CannotGoOnFromTheStatesOfAdamW) {
  SmallRun runs;
  for (const bool from_sgd : {false, true}) {
    const auto name = fmt::format("begun-{}", from_sgd);
    auto begun = from_sgd ? sgd(runs, name) : runs.config(name), other = from_sgd ? runs.config(name) : sgd(runs, name);
    begun.steps = other.steps = 4;
    const auto checkpoint = runs.run(begun, {1, 0, 1}).checkpoint;
    other.change = from_sgd ? "beta1,beta2,epsilon,weight_decay" : "nesterov,momentum";
    std::string hint;
    const auto refusal = refusal_of([&] { runs.run(other, {1, 0, 1}); }, &hint);
    const char* both = from_sgd ? "holds the states of sgd (momentum), this run has --optimizer adamw (m, v)"
                                : "holds the states of adamw (m, v), this run has --optimizer sgd (momentum)";
    EXPECT_NE(refusal.find(both), std::string::npos) << refusal;
    EXPECT_NE(hint.find(from_sgd ? "--optimizer sgd" : "--optimizer adamw"), std::string::npos) << hint;
    // A new run may begin with its weights, and its own states are zero.
    other.output += "-anew", other.change = "", other.init_from = checkpoint, other.steps = 4;
    const auto anew = runs.run(other, {2, 1, 1});
    EXPECT_EQ(anew.code, base::ExitCode::done);
    EXPECT_EQ(checkpoint::read_state(anew.checkpoint).optimizer.name, from_sgd ? "adamw" : "sgd");
  }
}

// An identity that an older program wrote may lack a setting that the optimizer has now.
TEST(Sgd, ASettingThatACheckpointDoesNotHaveIsTheDefault) {
  SmallRun runs;
  const auto now = engine::make_setup(sgd(runs, "now"), 1, 1).identity;
  auto was = now;
  was.erase("momentum");
  const auto refusal = refusal_of([&] { engine::require_same_run(was, now, {}, "x"); });
  EXPECT_NE(refusal.find("--momentum: the checkpoint has the default, this run 0.8"), std::string::npos) << refusal;
  EXPECT_EQ(engine::text_of({"momentum", {}, 0.8}, "A", "B"), "momentum: A has none, B 0.8");
}

TEST(Sgd, AndAdamWRefuseEachOthersSettings) {
  const auto refusal = [](const std::vector<std::pair<const char*, const char*>>& given) {
    engine::RunConfig c;
    auto fields = fields_of(c);
    for (const auto& [name, value] : given) {
      auto& f = base::field_named(fields, name, "it");
      f.set(value, name), f.source = base::from_flag;
    }
    return refusal_of([&] { require_settings_of_optimizer(fields, c); });
  };
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({{"optimizer", "sgd"}}), "");
  EXPECT_EQ(refusal({{"optimizer", "sgd"}, {"momentum", "0.5"}, {"weight-decay", "0"}, {"nesterov", "on"}}), "");
  EXPECT_EQ(refusal({{"beta1", "0.5"}, {"optimizer", "adamw"}}), "");
  EXPECT_EQ(refusal({{"optimizer", "sgd"}, {"beta1", "0.9"}}),
            "--beta1 is a setting of adam, adamw, lamb, lion and muon, and --optimizer is sgd");
  EXPECT_EQ(refusal({{"momentum", "0.9"}}), "--momentum is a setting of muon and sgd, and --optimizer is adamw");
  for (const auto& [source, hint] : {std::pair(base::from_flag, "leave --momentum out, or --optimizer muon"),
                                     {base::from_environment, "unset TRAINYARD_MOMENTUM, or --optimizer muon"},
                                     {"run.toml", "leave momentum out of run.toml, or --optimizer muon"}}) {
    engine::RunConfig c;
    auto fields = fields_of(c);
    auto& f = base::field_named(fields, "momentum", "it");
    f.set("0.5", "momentum"), f.source = source;
    try {
      require_settings_of_optimizer(fields, c);
      ADD_FAILURE() << source;
    } catch (const base::UsageError& e) {
      EXPECT_EQ(e.hint(), hint);
    }
  }
  const auto two = refusal({{"optimizer", "sgd"}, {"beta2", "0.9"}, {"epsilon", "0.1"}});
  EXPECT_NE(two.find("--beta2"), std::string::npos) << two;
  EXPECT_NE(two.find("--epsilon"), std::string::npos) << two;
}

TEST(Sgd, PrintsItsOwnSettings) {
  engine::RunConfig c;
  const auto adamw = print_config(fields_of(c), c);
  EXPECT_NE(adamw.find("\noptimizer = \"adamw\""), std::string::npos) << adamw;
  EXPECT_NE(adamw.find("\nbeta1 = "), std::string::npos) << adamw;
  EXPECT_EQ(adamw.find("momentum"), std::string::npos) << adamw;
  c.optimizer = "sgd";
  const auto sgd = print_config(fields_of(c), c);
  EXPECT_NE(sgd.find("\nmomentum = "), std::string::npos) << sgd;
  EXPECT_EQ(sgd.find("\nbeta1 = "), std::string::npos) << sgd;
}

// torch.optim.SGD, written from its documentation in double precision, gets the gradients that the engine sums.
TEST(Sgd, FollowsDoublePrecisionForThirtySteps) {
  SmallRun runs;
  for (const bool nesterov : {false, true}) {
    auto c = sgd(runs, "double");
    c.model = runs.llama(), c.steps = 30, c.nesterov = nesterov, c.clip = 0.4, c.weight_decay = 0.2, c.threads = 1;
    const auto setup = engine::make_setup(c, 1, 1);
    auto world = engine::solo_world();
    data::WindowDataset text(
        c.data, setup.index, setup.index.train,
        {.sequence = setup.plan.sequence, .mask = setup.mask, .order = data::Order::keyed, .seed = c.seed});
    engine::Batches batches(text, nullptr, setup.plan.batch(), 0);
    engine::Trainer trainer(setup.plan, setup.step, world, batches);
    trainer.store().initialize(c.seed);
    auto& states = trainer.store().states();
    std::vector<std::vector<double>> weights, buffers, first;
    for (int u = 0; u < trainer.context().flat_groups(); ++u) {
      const auto shard = states.master_shard(u);
      weights.emplace_back(shard.ptr<float>(), shard.ptr<float>() + shard.count());
      buffers.emplace_back(weights.back().size(), 0.0);
    }
    first = weights;
    bool clipped = false, whole = false;
    std::string norms;
    for (int step = 0; step < c.steps; ++step) {
      ASSERT_TRUE(trainer.begin_step(step, [] { return false; }));
      const auto outcome = trainer.finish_step();
      const double clip = std::min(1.0, c.clip / (outcome.gradient_norm + 1e-6));
      clipped = clipped || clip < 1, whole = whole || clip == 1;
      norms += fmt::format(" {:.3f}", outcome.gradient_norm);
      const double scale = clip / static_cast<double>(outcome.targets);
      double way = 0, error = 0;
      for (int u = 0; u < trainer.context().flat_groups(); ++u) {
        const auto at = static_cast<std::size_t>(u);
        const auto* gradient = trainer.store().shard_gradient(u).ptr<float>();
        const auto& layout = trainer.context().layout(u);
        for (std::size_t p = 0; p < layout.offsets.size(); ++p) {
          const double decay = trainer.context().flat_group(u).parameters[p].decay ? c.weight_decay : 0;
          for (auto e = layout.offsets[p]; e < layout.end(p); ++e) {
            const auto i = static_cast<std::size_t>(e);
            auto &w = weights[at][i], &buffer = buffers[at][i];
            const double g = scale * static_cast<double>(gradient[i]) + decay * w;
            buffer = step == 0 ? g : c.momentum * buffer + g;
            w -= outcome.learning_rate * (nesterov ? g + c.momentum * buffer : buffer);
            way += std::pow(w - first[at][i], 2);
            error += std::pow(w - static_cast<double>(states.master_shard(u).ptr<float>()[i]), 2);
          }
        }
      }
      ASSERT_LT(std::sqrt(error), 1e-5 * std::sqrt(way) + 1e-6) << "step " << step + 1 << ", nesterov " << nesterov;
    }
    EXPECT_TRUE(clipped && whole) << "some steps are clipped and some are not:" << norms;
  }
}

}  // namespace
}  // namespace trainyard
