// The identity that a checkpoint records: its keys and their values are a file format.
#include "libtrain/engine/identity_json.h"

#include "libtrain/checkpoint/run_state.h"
#include "libtrain/engine/identity.h"
#include "libtrain/engine/setup.h"
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace trainyard::engine {
namespace identity_json_test {

using testing::SmallRun;

std::set<std::string> keys_of(const nlohmann::json& object) {
  std::set<std::string> keys;
  for (const auto& item : object.items()) keys.insert(item.key());
  return keys;
}

// Written by hand, as the first version of the format had it. Keys that it lacked stand below.
TEST(IdentityJson, HasTheKeysAndValuesOfTheFormat) {
  SmallRun runs;
  auto c = runs.config("identity");
  c.steps = 20, c.seed = 7, c.sequence = 0, c.local_accumulation = 2, c.schedule = "wsd-cosine", c.decay_steps = 5;
  c.learning_rate = 0.01, c.warmup_steps = 3, c.beta2 = 0.999, c.clip = 0.5, c.document_mask = "on";
  const auto identity = make_setup(c, 1, 1).identity;
  auto rest = identity;
  rest.erase("model"), rest.erase("data");
  EXPECT_EQ(rest, (nlohmann::json{{"seed", 7},
                                  {"sequence", 32},  // the model's context
                                  {"global_batch", 14},
                                  {"micro_batch", 1},
                                  {"fold", 2},
                                  {"reduction", "ordered"},
                                  {"document_mask", "on"},
                                  {"objective", "causal"},
                                  {"steps", 20},
                                  {"schedule", "wsd-cosine"},  // a word as the user writes it
                                  {"learning_rate", 0.01},
                                  {"start_learning_rate", 0.0},
                                  {"final_learning_rate", 0.0},
                                  {"warmup_steps", 3},
                                  {"decay_steps", 5},
                                  {"beta1", 0.9},
                                  {"beta2", 0.999},
                                  {"epsilon", 1e-8},
                                  {"weight_decay", 0.1},
                                  {"decay_embeddings", "off"},
                                  {"clip", 0.5}}))
      << rest.dump(2);
  EXPECT_FALSE(identity["model"].contains("name")) << "a name is no part of what a run computes";
}

TEST(IdentityJson, FollowsTheOptimizer) {
  SmallRun runs;
  auto c = runs.config("sgd");
  const auto adamw = keys_of(make_setup(c, 1, 1).identity);
  c.optimizer = "sgd", c.nesterov = true;
  const auto identity = make_setup(c, 1, 1).identity;
  auto expected = adamw;
  for (const auto* key : {"beta1", "beta2", "epsilon"}) expected.erase(key);
  for (const auto* key : {"optimizer", "momentum", "nesterov"}) expected.insert(key);
  EXPECT_EQ(keys_of(identity), expected);
  EXPECT_EQ(identity["nesterov"], "on");
  EXPECT_EQ(identity["optimizer"], "sgd");
}

TEST(IdentityJson, GivesTheLearningRatesAgain) {
  SmallRun runs;
  auto c = runs.config("rates");
  c.schedule = "linear", c.start_learning_rate = 1e-5, c.final_learning_rate = 1e-4, c.warmup_steps = 4;
  const auto setup = make_setup(c, 1, 1);
  const auto again = learning_rate_of(setup.identity);
  ASSERT_TRUE(again.has_value());
  for (int step = 0; step < 20; ++step) EXPECT_EQ(again->at(step), setup.step.learning_rate.at(step)) << step;
  // Percent and samples are kept as what they come to.
  auto relative = c;
  using Unit = base::Amount::Unit;
  relative.steps = 20, relative.global_batch = 8, relative.learning_rate = 0.01;
  relative.start_learning_rate = {5, Unit::percent}, relative.final_learning_rate = {10, Unit::percent};
  relative.warmup_steps = {30, Unit::percent}, relative.decay_steps = {57, Unit::samples};
  auto plain = relative;
  plain.start_learning_rate = 0.01 * 5 / 100, plain.final_learning_rate = 0.001;
  plain.warmup_steps = 6, plain.decay_steps = 8;
  EXPECT_EQ(make_setup(relative, 1, 1).identity.dump(), make_setup(plain, 1, 1).identity.dump());
  plain.decay_steps = 0, plain.schedule = "cosine-restarts:5,2";
  const auto cycles = make_setup(plain, 1, 1);
  EXPECT_EQ(cycles.identity["schedule"], "cosine-restarts:5,2");
  for (int step = 0; step < 20; ++step)
    EXPECT_EQ(learning_rate_of(cycles.identity).value().at(step), cycles.step.learning_rate.at(step)) << step;
  auto unknown = setup.identity;
  unknown["schedule"] = "cosine-restarts:zero";
  EXPECT_FALSE(learning_rate_of(unknown).has_value());
  auto older = setup.identity;
  older.erase("start_learning_rate");  // as before there was one
  EXPECT_EQ(learning_rate_of(older).value().start, 0);
  for (const auto* key : {"schedule", "learning_rate", "final_learning_rate", "warmup_steps", "decay_steps", "steps"}) {
    auto lacking = setup.identity;
    lacking.erase(key);
    EXPECT_FALSE(learning_rate_of(lacking).has_value()) << key;
    lacking[key] = nlohmann::json::array();
    EXPECT_FALSE(learning_rate_of(lacking).has_value()) << key;
  }
  EXPECT_FALSE(learning_rate_of(nlohmann::json::object()).has_value());
}

// A checkpoint names the weights that a run began with: another checkpoint's, imported ones, or initial values.
TEST(IdentityJson, WeightsThatARunBeganWith) {
  checkpoint::RunState made, imported, merged;
  imported.provenance = {{"imported_from", "/model"}, {"model_type", "llama"}};
  merged.provenance = {{"weights_from", "base, step 0"}};
  const auto said = [](const checkpoint::RunState& a, const checkpoint::RunState& b) {
    const auto all = differences(a, b);
    return all.size() == 1 ? text_of(all[0], "a", "b") : std::string();
  };
  EXPECT_EQ(said(merged, imported), "weights from: a has base, step 0, b imported weights");
  EXPECT_EQ(said(made, imported), "weights from: a has initial values, b imported weights");
  imported.provenance["weights_from"] = "other, step 3";
  EXPECT_EQ(said(made, imported), "weights from: a has initial values, b other, step 3");
}

}  // namespace identity_json_test
}  // namespace trainyard::engine
