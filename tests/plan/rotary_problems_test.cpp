// Which keys of rotary positions go together, and what a layer with a window of tokens sees of them.
#include "libtrain/plan/model_file/rotary_problems.h"

#include "libtrain/plan/blocks/layer.h"
#include "libtrain/plan/model_file/model_json.h"
#include "libtrain/plan/model_file/model_problems.h"
#include "libtrain/plan/spec/layer_model.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace trainyard::plan {
namespace rotary_problems_test {

ModelConfig rotary_model() {
  ModelConfig m;
  m.positions = Positions::rotary, m.vocabulary = 257;  // heads of 16
  return m;
}

// Each change is refused alone, with a sentence that has this part.
void refused(const std::function<void(ModelConfig&)>& change, const std::string& part) {
  auto m = rotary_model();
  change(m);
  const auto list = problems(m);
  ASSERT_EQ(list.size(), 1U) << part;
  EXPECT_NE(list[0].find(part), std::string::npos) << list[0];
}
void accepted(const RotaryConfig& rotary) {
  auto m = rotary_model();
  m.rotary = rotary;
  EXPECT_EQ(problems(m), std::vector<std::string>());
  EXPECT_EQ(model_from_json(model_to_json(m), "x", ""), m);
}

TEST(RotaryKeys, GoWithTheScalingThatReadsThem) {
  using enum RotaryScaling;
  accepted({});
  accepted({.scaling = linear, .factor = 2});
  accepted({.scaling = llama3, .factor = 8, .low = 1, .high = 4, .original = 8192});
  accepted({.scaling = yarn, .factor = 8, .original = 8192, .beta_fast = 16, .attention_factor = 1.5});
  accepted({.fraction = 0.25});
  const auto plain = model_to_json(rotary_model());
  for (const auto& f : plain.items())
    EXPECT_TRUE(f.key() == "rotary_base" || !f.key().starts_with("rotary")) << f.key();
  refused([](auto& m) { m.positions = Positions::learned, m.rotary.fraction = 0.5; }, "positions are not rotary");
  refused([](auto& m) { m.rotary.factor = 2; }, "rotary-factor is read by rotary-scaling linear, llama3, yarn");
  refused([](auto& m) { m.rotary = {.scaling = linear, .factor = 2, .low = 2}; }, "rotary-low is read by");
  refused([](auto& m) { m.rotary = {.scaling = linear, .factor = 2, .high = 2}; }, "rotary-high is read by");
  refused([](auto& m) { m.rotary = {.scaling = linear, .factor = 2, .original = 2}; }, "rotary-original is read by");
  refused([](auto& m) { m.rotary = {.scaling = llama3, .factor = 2, .original = 9, .beta_fast = 9}; }, "beta-fast is");
  refused([](auto& m) { m.rotary = {.scaling = llama3, .factor = 2, .original = 9, .beta_slow = 9}; }, "beta-slow is");
  refused([](auto& m) { m.rotary = {.scaling = llama3, .factor = 2, .original = 9, .attention_factor = 2}; },
          "attention-factor is");
}

TEST(RotaryKeys, HaveValuesThatAnglesCanBeMadeOf) {
  using enum RotaryScaling;
  refused([](auto& m) { m.rotary = {.scaling = linear}; }, "rotary-factor above 1, not 1");
  refused([](auto& m) { m.rotary = {.scaling = llama3, .factor = 2}; }, "needs rotary-original");
  refused([](auto& m) { m.rotary = {.scaling = yarn, .factor = 2}; }, "needs rotary-original");
  refused([](auto& m) { m.rotary = {.scaling = llama3, .factor = 2, .low = 4, .original = 9}; },
          "rotary-low 4 is not below rotary-high 4");
  refused([](auto& m) { m.rotary = {.scaling = yarn, .factor = 2, .original = 9, .beta_slow = 32}; },
          "rotary-beta-slow 32 is not below rotary-beta-fast 32");
  refused([](auto& m) { m.rotary.fraction = 0.2; }, "rotary-fraction 0.2 of a head of 16 is 3 channels");
  refused([](auto& m) { m.rotary.fraction = 0.1; }, "is 1 channels");
  refused([](auto& m) { m.rotary.local_base = 500; }, "no layer has one");
  refused([](auto& m) { m.rotary.local_base = 0.5, m.attention.window_tokens = {8}; }, "is below 1.001");
}

TEST(RotaryKeys, LayersWithAWindowOfTokensHaveTheLocalBase) {
  auto m = rotary_model();
  m.rotary = {.scaling = RotaryScaling::linear, .factor = 8, .fraction = 0.5, .local_base = 500};
  m.attention.window_tokens = {8, 0};
  const auto local = layer_model(m, 0), far = layer_model(m, 1);
  EXPECT_EQ(local.rotary_base, 500);
  EXPECT_EQ(local.rotary, (RotaryConfig{.fraction = 0.5}));
  EXPECT_EQ(far.rotary_base, 10000);
  EXPECT_EQ(far.rotary, (RotaryConfig{.scaling = RotaryScaling::linear, .factor = 8, .fraction = 0.5}));
  m.rotary.local_base = 0;
  EXPECT_EQ(layer_model(m, 0).rotary, m.rotary);
}

TEST(HeadKeys, SizesOfHeadsAndTheirNorms) {
  auto m = rotary_model();
  m.hidden = 30, m.vocabulary = 257;
  EXPECT_NE(problems(m).at(0).find("hidden 30 is not a multiple of heads 4"), std::string::npos);
  m.head_size = 12, m.qk_norm = QkNorm::head, m.query_scale = 0.5, m.biases = Biases::qkv;
  EXPECT_EQ(problems(m), std::vector<std::string>());
  const auto json = model_to_json(m);
  EXPECT_EQ(json["head_size"], 12);
  EXPECT_EQ(json["qk_norm"], "head");
  EXPECT_EQ(model_from_json(json, "x", ""), m);
  for (const char* key : {"head_size", "qk_norm", "query_scale"})
    EXPECT_FALSE(model_to_json(rotary_model()).contains(key)) << key;
  refused([](auto& other) { other.head_size = 7; }, "even head size, not 7");
}

// Every rank has the weights of heads whole; ranks divide those of a width as they divide heads.
TEST(HeadKeys, WeightsOfNorms) {
  auto m = rotary_model();
  m.kv_heads = 2, m.head_size = 12;
  const auto find = [&](const std::string& name) {
    const auto groups = LayerKind().flat_groups(m, 0);
    for (const auto& p : groups.at(0).parameters)
      if (p.name == "layers.00.attention." + name) return p;
    return Parameter{};
  };
  EXPECT_EQ(find("q_norm.weight").name, "");
  m.qk_norm = QkNorm::head;
  EXPECT_EQ(find("q_norm.weight").shape, std::vector<std::int64_t>{12});
  EXPECT_EQ(find("k_norm.weight").shape, std::vector<std::int64_t>{12});
  EXPECT_FALSE(find("q_norm.weight").sharded || find("q_norm.weight").decay);
  m.qk_norm = QkNorm::width;
  EXPECT_EQ(find("q_norm.weight").shape, std::vector<std::int64_t>{48});
  EXPECT_EQ(find("k_norm.weight").shape, std::vector<std::int64_t>{24});
  EXPECT_TRUE(find("q_norm.weight").sharded && find("k_norm.weight").sharded);
}

}  // namespace rotary_problems_test
}  // namespace trainyard::plan
