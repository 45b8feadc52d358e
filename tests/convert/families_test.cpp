// What a config.json says in each family: defaults of absent keys, null, keys that a family does not read, and what may
// not be written. Expected values are those of transformers 5.24, from its configurations and its models.
#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/checkpoint/hugging_face.h"
#include "libtrain/plan/spec/presets.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

using namespace trainyard;
using trainyard::testing::slurp;

namespace families_test {

using nlohmann::json;
using Windows = std::vector<std::int64_t>;

json golden(const std::string& name) {
  return base::parse_json<json>(slurp(std::string(GOLDEN) + "/" + name + "/config.json"), name);
}

// The golden config with other keys, and without some.
json changed(const std::string& name, const json& changes, const std::vector<const char*>& without = {}) {
  auto config = golden(name);
  for (const auto* key : without) config.erase(key);
  config.update(changes);
  return config;
}

plan::ModelConfig read(const json& config) { return checkpoint::model_of_config(config, "m", "config.json").model; }

std::string refusal(const json& config) {
  try {
    read(config);
    return "";
  } catch (const base::InputError& e) {
    return e.what();
  }
}

#define EXPECT_REFUSED(config, words) EXPECT_NE(refusal(config).find(words), std::string::npos) << refusal(config)

// A model that such a config.json describes, to be changed and written.
plan::ModelConfig model(const std::string& name, const json& changes = json::object()) {
  return read(changed(name, changes));
}

json written(const plan::ModelConfig& m, const char* type) {
  std::vector<std::string> left_out;
  return json(checkpoint::config_of(checkpoint::family_of(m, type), m, "float32", left_out));
}

// What the refusal of an export says; "" if it is accepted as a model of that type.
std::string refused_as(const plan::ModelConfig& m, const std::string& type) {
  try {
    const std::string found = checkpoint::family_of(m, type).model_type;
    return found == type ? "" : "written as " + found;
  } catch (const base::InputError& e) {
    return e.what();
  }
}

constexpr const char* of_llamas_kind[] = {"llama-2", "mistral", "qwen2", "qwen3",  "qwen3-moe",
                                          "mixtral", "olmo2",   "olmoe", "gemma2", "gemma3"};

TEST(Angles, APartOfAHeadRotatesInTwoFamiliesAlone) {
  for (const auto* name : of_llamas_kind) {
    SCOPED_TRACE(name);
    const auto one = golden(name);
    auto config = one;
    config["partial_rotary_factor"] = 0.5;
    EXPECT_REFUSED(config, "'partial_rotary_factor' is 0.5: in this family whole heads rotate");
    config["partial_rotary_factor"] = 1.0;
    EXPECT_EQ(read(config), read(one));
    config.erase("partial_rotary_factor");
    auto& angles = config["rope_parameters"];
    (angles.contains("full_attention") ? angles["full_attention"] : angles)["partial_rotary_factor"] = 0.5;
    EXPECT_REFUSED(config, "'partial_rotary_factor' is 0.5");
    auto m = read(one);
    m.rotary.fraction = 0.5;
    EXPECT_NE(refused_as(m, one["model_type"]), "");
  }
  EXPECT_EQ(read(changed("phi3", {{"partial_rotary_factor", 0.75}})).rotary.fraction, 0.5);  // the object counts more
  EXPECT_EQ(read(changed("phi3", {{"partial_rotary_factor", 0.5}}, {"rope_parameters"})).rotary.fraction, 0.5);
  EXPECT_EQ(written(model("phi3"), "phi3")["partial_rotary_factor"], 0.5);
  auto m = model("qwen2");
  m.rotary.fraction = 0.5;
  EXPECT_NE(refused_as(m, "qwen2").find("no qwen2 (rotary-fraction is \"0.5\", not \"1\")"), std::string::npos)
      << refused_as(m, "qwen2");
}

TEST(Angles, OfGptNeoXHaveNamesOfTheirOwn) {
  const auto older = [](const json& changes) { return changed("gpt-neox", changes, {"rope_parameters"}); };
  const auto m = read(older({{"rotary_pct", 0.5}, {"rotary_emb_base", 300}}));
  EXPECT_EQ(m.rotary_base, 300);
  EXPECT_EQ(m.rotary.fraction, 0.5);
  EXPECT_EQ(
      read(older({{"rotary_pct", 0.5}, {"rotary_emb_base", 300}, {"rope_theta", 300}, {"partial_rotary_factor", 0.5}})),
      m);
  EXPECT_REFUSED(older({{"rope_theta", 300}}), "'rope_theta' is 300, and 'rotary_emb_base' is 10000, which counts");
  EXPECT_REFUSED(older({{"partial_rotary_factor", 0.5}}), "'partial_rotary_factor' is 0.5, and 'rotary_pct' is 0.25");
}

TEST(Angles, TheOlderObjectReplacesTheNewer) {
  const json linear = {{"rope_type", "linear"}, {"factor", 4.0}},
             plain = {{"rope_type", "default"}, {"rope_theta", 50}};
  auto m = read(changed("llama-2", {{"rope_theta", 700}, {"rope_scaling", linear}, {"rope_parameters", plain}}));
  EXPECT_EQ(m.rotary_base, 700);
  EXPECT_EQ(m.rotary.factor, 4);
  for (const auto& nothing : {json(), json::object()}) {
    m = read(changed("llama-2", {{"rope_theta", 700}, {"rope_scaling", nothing}, {"rope_parameters", plain}}));
    EXPECT_EQ(m.rotary_base, 50);
    EXPECT_EQ(m.rotary.scaling, plan::RotaryScaling::none);
  }
  // In Gemma 3 it is merged into the angles of layers that see everything. The type that these have counts more than
  // the older name of a type.
  m = read(changed("gemma3", {{"rope_theta", 700}, {"rope_local_base_freq", 20}, {"rope_scaling", linear}},
                   {"rope_parameters"}));
  EXPECT_EQ(m.rotary_base, 700);
  EXPECT_EQ(m.rotary.local_base, 20);
  EXPECT_EQ(m.rotary.factor, 4);
  m = read(changed("gemma3", {{"rope_scaling", linear}}));
  EXPECT_EQ(m.rotary_base, 1000);
  EXPECT_EQ(m.rotary.local_base, 100);
  EXPECT_EQ(m.rotary.factor, 4);
  EXPECT_REFUSED(changed("gemma3", {{"rope_scaling", {{"type", "linear"}, {"factor", 8}}}}, {"rope_parameters"}),
                 "has a factor, but no type that uses it");
  EXPECT_REFUSED(changed("gemma3", {{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 77}}}}),
                 "'rope_parameters' has no full_attention and no sliding_attention");
  m = read(changed("gemma3",
                   {{"rope_local_base_freq", 20}, {"rope_parameters", {{"full_attention", {{"rope_theta", 5}}}}}}));
  EXPECT_EQ(m.rotary_base, 5);
  EXPECT_EQ(m.rotary.local_base, 20);
}

TEST(Angles, OfPhi3HaveNoScaling) {
  for (const char* type : {"linear", "yarn"})
    EXPECT_REFUSED(changed("phi3", {{"rope_scaling", {{"rope_type", type}, {"factor", 4.0}}}}),
                   "which this family does not have");
  auto m = model("phi3");
  m.rotary.scaling = plan::RotaryScaling::linear, m.rotary.factor = 2;
  EXPECT_NE(refused_as(m, "phi3"), "");
}

// YaRN of factor f multiplies cosines by 0.1 ln(f) + 1, or by a quotient of two such numbers.
TEST(Angles, FactorsOfYarn) {
  const auto yarn = [](const json& more) {
    json angles = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 5}};
    angles.update(more);
    return read(changed("llama-2", {{"max_position_embeddings", 20}, {"rope_scaling", angles}})).rotary;
  };
  const auto usual = yarn(json::object());
  EXPECT_EQ(usual.factor, 4);
  EXPECT_EQ(usual.attention_factor, 0);
  EXPECT_EQ(yarn({{"factor", nullptr}}), usual);  // 20 / 5
  EXPECT_EQ(yarn({{"mscale", 0.8}}), usual);
  EXPECT_EQ(yarn({{"mscale", 0.8}, {"mscale_all_dim", 0}}), usual);
  EXPECT_EQ(yarn({{"mscale", 1.0}, {"mscale_all_dim", 1.0}}).attention_factor, 1);
  EXPECT_NEAR(yarn({{"mscale", 0.8}, {"mscale_all_dim", 0.5}}).attention_factor, 1.1109035489 / 1.0693147181, 1e-9);
  EXPECT_EQ(yarn({{"mscale", 0.8}, {"mscale_all_dim", 0.5}, {"attention_factor", 1.7}}).attention_factor, 1.7);
  EXPECT_EQ(yarn({{"factor", 1.0}}), plan::RotaryConfig());
  EXPECT_EQ(model("llama-2", {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 1.0}}}}).rotary,
            plan::RotaryConfig());
}

TEST(Windows, AnAbsentKeyIsNoNull) {
  struct Case {
    const char* golden;
    json changes;
    Windows absent, null;
  };
  const json on = {{"use_sliding_window", true}, {"max_window_layers", 0}};
  for (const auto& c : {Case{"mistral", json::object(), {4096}, {0}},
                        {"mixtral", json::object(), {0}, {0}},
                        {"phi3", json::object(), {0}, {0}},
                        {"gemma2", json::object(), {4096, 0}, {0}},
                        {"gemma3", json::object(), {4096}, {0}},
                        {"qwen2", on, {4096}, {0}},
                        {"qwen3", on, {4096}, {0}},
                        {"qwen3-moe", on, {4096}, {0}}}) {
    SCOPED_TRACE(c.golden);
    const auto config = changed(c.golden, c.changes, {"sliding_window", "layer_types"});
    EXPECT_EQ(read(config).attention.window_tokens, c.absent);
    auto null = config;
    null["sliding_window"] = nullptr;
    EXPECT_EQ(read(null).attention.window_tokens, c.null);
    null["sliding_window"] = 0;
    EXPECT_REFUSED(null, "'sliding_window' is 0: here it is above 0");
  }
  EXPECT_EQ(read(changed("gemma3", json::object(), {"sliding_window"})).rotary.local_base, 100);
  EXPECT_EQ(read(changed("qwen2", {{"use_sliding_window", false}}, {"layer_types"})).attention.window_tokens,
            Windows{0});
  EXPECT_REFUSED(changed("qwen2", {{"use_sliding_window", false}}),
                 "'layer_types' has sliding_attention, and there is");
  EXPECT_EQ(read(changed("gemma3", {{"sliding_window_pattern", 2}}, {"layer_types"})).attention.window_tokens,
            (Windows{4, 0}));
  EXPECT_EQ(read(changed("gemma3", {{"_sliding_window_pattern", 2}}, {"layer_types"})).attention.window_tokens,
            Windows{4});
}

TEST(Windows, TypesOfLayersAreReadInSomeFamilies) {
  const json types = {"sliding_attention", "full_attention"};
  for (const char* name : {"mistral", "mixtral", "phi3"}) {
    SCOPED_TRACE(name);
    EXPECT_REFUSED(changed(name, {{"layer_types", types}, {"sliding_window", 4}}),
                   "'layer_types' has types other than sliding_attention, which all layers of this family have");
    EXPECT_REFUSED(changed(name, {{"layer_types", types}, {"sliding_window", nullptr}}), "other than full_attention");
    const json same = {"sliding_attention", "sliding_attention"};
    EXPECT_EQ(read(changed(name, {{"layer_types", same}, {"sliding_window", 4}})).attention.window_tokens, Windows{4});
  }
  const json turned = {"full_attention", "sliding_attention", "full_attention", "sliding_attention"};
  EXPECT_EQ(read(changed("gemma3", {{"layer_types", turned}})).attention.window_tokens, (Windows{0, 4}));
}

TEST(Windows, AGemmaWithoutAnyIsWrittenWithAWindowThatNoLayerHas) {
  for (const char* name : {"gemma2", "gemma3"}) {
    auto m = model(name);
    m.attention.window_tokens = {0}, m.rotary.local_base = 0;
    const auto config = written(m, golden(name)["model_type"].get<std::string>().c_str());
    EXPECT_EQ(config["sliding_window"], 4096) << name;
    for (const auto& type : config["layer_types"]) EXPECT_EQ(type, "full_attention");
    EXPECT_TRUE(checkpoint::computes_same(read(config), m)) << name;
  }
}

TEST(Angles, OfGemma3MayBeTheSameInAllLayers) {
  auto m = model("gemma3", {{"rope_parameters", nullptr}});
  m.rotary.local_base = 0;
  EXPECT_EQ(refused_as(m, "gemma3_text"), "");
  EXPECT_EQ(written(m, "gemma3_text")["rope_local_base_freq"], m.rotary_base);
  m.rotary.scaling = plan::RotaryScaling::linear, m.rotary.factor = 2;  // also in layers with a window
  EXPECT_NE(refused_as(m, "gemma3_text"), "");
}

TEST(Config, HeadsOfKeysThatAreAbsentOrNull) {
  for (const auto& [name, absent] : {std::pair{"mistral", 8},
                                     {"mixtral", 8},
                                     {"qwen2", 32},
                                     {"qwen3", 32},
                                     {"qwen3-moe", 4},
                                     {"gemma2", 4},
                                     {"gemma3", 4},
                                     {"llama-2", 4},
                                     {"phi3", 4},
                                     {"olmo2", 4},
                                     {"olmoe", 4}}) {
    SCOPED_TRACE(name);
    const auto heads = [](json config) {
      config["num_attention_heads"] = 4;
      return config;
    };
    const auto config = heads(changed(name, json::object(), {"num_key_value_heads"}));
    if (absent > 4) EXPECT_REFUSED(config, "kv-heads " + std::to_string(absent));
    else EXPECT_EQ(read(config).kv_heads, absent);
    EXPECT_EQ(read(heads(changed(name, {{"num_key_value_heads", nullptr}}))).kv_heads, 4);
  }
}

TEST(Config, Gemma3HasNoCapOfScores) {
  const auto one = model("gemma3", {{"final_logit_softcapping", 2.0}});
  EXPECT_EQ(model("gemma3", {{"attn_logit_softcapping", 1.0}, {"final_logit_softcapping", 2.0}}), one);
  EXPECT_EQ(one.logit_softcap, 2);
  EXPECT_EQ(one.attention.softcap, 0);
  auto m = one;
  m.attention.softcap = 1;
  EXPECT_NE(refused_as(m, "gemma3_text").find("no gemma3_text (attention-softcap is \"1\", not \"0\")"),
            std::string::npos)
      << refused_as(m, "gemma3_text");
  EXPECT_EQ(written(one, "gemma3_text")["attn_logit_softcapping"], nullptr);
  EXPECT_EQ(model("gemma2", {{"attn_logit_softcapping", 7.0}}).attention.softcap, 7);
}

TEST(Config, AScaleOfQueriesIsOneOverTheRootOfAWholeNumber) {
  for (const char* name : {"gemma2", "gemma3"}) {
    const auto type = golden(name)["model_type"].get<std::string>();
    auto m = model(name, {{"query_pre_attn_scalar", 7}});
    EXPECT_EQ(written(m, type.c_str())["query_pre_attn_scalar"].dump(), "7");
    for (const double scale : {0.3, 1e-9, 100.0}) {
      m.query_scale = scale;
      EXPECT_NE(refused_as(m, type), "") << scale;
    }
  }
}

TEST(Config, GatesOfGemmaAreUnderOneKey) {
  EXPECT_EQ(read(changed("gemma2", {{"hidden_act", "gelu"}}, {"hidden_activation"})).activation,
            plan::Activation::geglu_tanh);
  EXPECT_EQ(read(changed("gemma2", {{"hidden_activation", "gelu"}})).activation, plan::Activation::geglu_erf);
}

// Keys of published files that compute nothing in a forward pass: GPT-NeoX-20B, SmolLM2, Qwen2.5, Llama 2.
TEST(Config, PublishedKeysThatComputeNothing) {
  const json of_20b = {{"hidden_act", "gelu_fast"}, {"attention_probs_dropout_prob", 0}, {"hidden_dropout_prob", 0}};
  EXPECT_EQ(model("gpt-neox", of_20b), model("gpt-neox", {{"hidden_act", "gelu_new"}}));
  EXPECT_EQ(model("gpt-neox", of_20b).activation, plan::Activation::gelu_tanh);
  EXPECT_EQ(model("llama-2", {{"is_llama_config", true},
                              {"rope_interleaved", false},
                              {"transformers.js_config", {{"dtype", "q4"}}},
                              {"max_length", 4096},
                              {"temperature", 0.6},
                              {"top_p", 0.9}}),
            model("llama-2"));
  EXPECT_EQ(model("qwen2", {{"use_mrope", false}}), model("qwen2"));
  EXPECT_REFUSED(changed("llama-2", {{"rope_interleaved", true}}), "'rope_interleaved' is true");
}

}  // namespace families_test
