// T5 and mT5 in the format of transformers: published configurations, what files may hold twice, and what is refused.
// Expected values are of the published config.json of each model, and of transformers 5.24.
#include "libtrain/plan/spec/presets.h"
#include "tests/convert/golden_model.h"

#include <gtest/gtest.h>

#include <string>

using namespace trainyard;
using safetensors_sample::Tensor;
using trainyard::testing::expect_refused, trainyard::testing::Loaded, trainyard::testing::Scratch;

namespace t5_test {

using nlohmann::json;

plan::ModelConfig read(const json& config) { return checkpoint::model_of_config(config, "m", "config.json").model; }

std::string refusal_of(const json& config) {
  try {
    read(config);
    return "";
  } catch (const base::InputError& e) {
    return e.what();
  }
}

TEST(T5, AbsentKeysHaveTheDefaultsOfTransformers) {
  const auto m = read({{"model_type", "t5"}, {"vocab_size", 32128}});
  EXPECT_EQ(m.hidden, 512);
  EXPECT_EQ(m.heads, 8);
  EXPECT_EQ(m.head_dim(), 64);
  EXPECT_EQ(m.ffn, 2048);
  EXPECT_EQ(m.encoder_layers, 6);
  EXPECT_EQ(m.decoder_layers, 6);
  EXPECT_EQ(m.relative_buckets, 32);
  EXPECT_EQ(m.relative_distance, 128);
  EXPECT_EQ(m.activation, plan::Activation::relu);
  EXPECT_EQ(m.norm_epsilon, 1e-6);
  EXPECT_EQ(m.dropout_ffn, 0.1);
  EXPECT_EQ(m.dropout_final_norm, 0.1);
  EXPECT_EQ(m.decoder_start, 0);
  EXPECT_TRUE(m.tied);
  const auto multilingual = read({{"model_type", "mt5"}, {"vocab_size", 250112}});
  EXPECT_EQ(multilingual.activation, plan::Activation::geglu_tanh);
  EXPECT_FALSE(multilingual.tied);
}

// The keys of the published files that say what is computed.
TEST(T5, PresetsAreThePublishedModels) {
  struct Published {
    const char *preset, *type, *projection;
    std::int64_t hidden, head, ffn, layers, heads, vocabulary;
    bool tied;
  };
  for (const auto& p : {Published{"t5-small", "t5", "relu", 512, 64, 2048, 6, 8, 32128, true},
                        {"t5-base", "t5", "relu", 768, 64, 3072, 12, 12, 32128, true},
                        {"t5-large", "t5", "relu", 1024, 64, 4096, 24, 16, 32128, true},
                        {"t5-3b", "t5", "relu", 1024, 128, 16384, 24, 32, 32128, true},
                        {"t5-11b", "t5", "relu", 1024, 128, 65536, 24, 128, 32128, true},
                        {"t5-v1.1-small", "t5", "gated-gelu", 512, 64, 1024, 8, 6, 32128, false},
                        {"t5-v1.1-base", "t5", "gated-gelu", 768, 64, 2048, 12, 12, 32128, false},
                        {"t5-v1.1-large", "t5", "gated-gelu", 1024, 64, 2816, 24, 16, 32128, false},
                        {"t5-v1.1-xl", "t5", "gated-gelu", 2048, 64, 5120, 24, 32, 32128, false},
                        {"t5-v1.1-xxl", "t5", "gated-gelu", 4096, 64, 10240, 24, 64, 32128, false},
                        {"mt5-small", "mt5", "gated-gelu", 512, 64, 1024, 8, 6, 250112, false},
                        {"mt5-base", "mt5", "gated-gelu", 768, 64, 2048, 12, 12, 250112, false},
                        {"mt5-large", "mt5", "gated-gelu", 1024, 64, 2816, 24, 16, 250112, false},
                        {"mt5-xl", "mt5", "gated-gelu", 2048, 64, 5120, 24, 32, 250112, false},
                        {"mt5-xxl", "mt5", "gated-gelu", 4096, 64, 10240, 24, 64, 250112, false}}) {
    SCOPED_TRACE(p.preset);
    const auto m = read({{"architectures", {"T5ForConditionalGeneration"}},
                         {"d_ff", p.ffn},
                         {"d_kv", p.head},
                         {"d_model", p.hidden},
                         {"decoder_start_token_id", 0},
                         {"dropout_rate", 0.1},
                         {"eos_token_id", 1},
                         {"feed_forward_proj", p.projection},
                         {"initializer_factor", 1.0},
                         {"is_encoder_decoder", true},
                         {"layer_norm_epsilon", 1e-6},
                         {"model_type", p.type},
                         {"n_positions", 512},
                         {"num_decoder_layers", p.layers},
                         {"num_heads", p.heads},
                         {"num_layers", p.layers},
                         {"output_past", true},
                         {"pad_token_id", 0},
                         {"relative_attention_num_buckets", 32},
                         {"task_specific_params", {{"summarization", {{"num_beams", 4}}}}},
                         {"tie_word_embeddings", p.tied},
                         {"use_cache", true},
                         {"vocab_size", p.vocabulary}});
    auto ours = plan::preset(p.preset);
    EXPECT_EQ(plan::published_vocabulary(p.preset), p.vocabulary);
    ours.vocabulary = p.vocabulary;
    EXPECT_TRUE(checkpoint::computes_same(m, ours));
    EXPECT_STREQ(checkpoint::family_of(ours, p.type).model_type, p.type);
  }
}

TEST(T5, TheScaleOfTheHeadSaysWhetherWordsAreTied) {
  json config{{"model_type", "t5"}, {"vocab_size", 100}, {"d_model", 64}, {"d_kv", 16}, {"num_heads", 4}};
  EXPECT_EQ(read(config).head_scale, 0.125);
  config["tie_word_embeddings"] = false;
  EXPECT_FALSE(read(config).tied);
  EXPECT_EQ(read(config).head_scale, 1);
  config.update({{"tie_word_embeddings", true}, {"scale_decoder_outputs", false}});  // as version 5 writes it
  EXPECT_FALSE(read(config).tied);
  EXPECT_EQ(read(config).head_scale, 1);
  auto m = read(config);
  m.tied = true;
  EXPECT_THROW(checkpoint::family_of(m), base::InputError);  // its head would be scaled
}

TEST(T5, WhatIsNotComputedIsRefused) {
  const json usual{{"model_type", "t5"}, {"vocab_size", 100}};
  const auto refused = [&](const json& changes, const std::string& words) {
    auto config = usual;
    config.update(changes);
    EXPECT_NE(refusal_of(config).find(words), std::string::npos) << refusal_of(config);
  };
  EXPECT_EQ(refusal_of(usual), "");
  refused({{"model_type", "umt5"}}, "model_type \"umt5\" is not supported: unlike t5, each of its layers has a table");
  refused({{"model_type", "longt5"}},
          "model_type \"longt5\" is not supported: unlike t5, its encoder attends to blocks");
  refused({{"feed_forward_proj", "gated-relu"}}, "'feed_forward_proj' is \"gated-relu\": relu,");
  refused({{"feed_forward_proj", "gated-gelu"}, {"is_gated_act", false}}, "'is_gated_act' is false");
  refused({{"dense_act_fn", "silu"}}, "'dense_act_fn' is \"silu\", and 'feed_forward_proj' relu");
  refused({{"num_decoder_layers", 0}}, "'num_layers' is 6 and 'num_decoder_layers' 0: both parts have layers");
  refused({{"decoder_start_token_id", 100}}, "'decoder_start_token_id' is 100 of 100 tokens");
  refused({{"is_encoder_decoder", false}}, "'is_encoder_decoder' is false");
  refused({{"relative_attention_num_buckets", 7}}, "relative-buckets 7 is not an even number");
  refused({{"relative_positions", true}}, "1 key is not known here: relative_positions");
}

// Files may hold the table of tokens under its other names, too, and an unused bias.
TEST(T5, FilesMayHoldTheTableSeveralTimes) {
  for (const char* name : {"t5", "t5-v1.1"}) {
    SCOPED_TRACE(name);
    Scratch scratch;
    const Loaded plain(name);
    plain.write(scratch.path + "/plain");
    const auto want = trainyard::testing::import(scratch.path + "/plain", scratch.path + "/want");
    auto more = plain;
    for (const char* copy : {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}) {
      more.tensors.push_back(Tensor(more.at("shared.weight")));
      more.tensors.back().name = copy;
    }
    auto bias = more.at("decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight");
    bias.name = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight";
    more.tensors.push_back(bias);
    more.write(scratch.path + "/more");
    const auto found = trainyard::testing::import(scratch.path + "/more", scratch.path + "/found");
    ASSERT_EQ(found.notes.size(), 1u);
    EXPECT_NE(found.notes[0].find("EncDecAttention.relative_attention_bias"), std::string::npos);
    for (const auto& [path, tensor] : want.manifest.tensors)
      EXPECT_EQ(found.manifest.tensors.at(path).fingerprint, tensor.fingerprint) << path;
    auto alone = more;  // one of the copies is enough
    alone.remove("shared.weight");
    alone.write(scratch.path + "/alone");
    EXPECT_EQ(trainyard::testing::import(scratch.path + "/alone", scratch.path + "/again").manifest.tensors.size(),
              want.manifest.tensors.size());
    auto other = more;
    other.at("decoder.embed_tokens.weight").bytes[5] ^= 1;
    expect_refused(other, "shared.weight and decoder.embed_tokens.weight hold other values, and a t5 has one table");
  }
}

TEST(T5, TensorsOfAnotherModelAreRefused) {
  auto short_of_a_layer = Loaded("t5");
  short_of_a_layer.remove("decoder.block.2.layer.1.EncDecAttention.o.weight");
  expect_refused(short_of_a_layer, "1 missing: decoder.block.2.layer.1.EncDecAttention.o.weight");
  auto gated = Loaded("t5");
  gated.config["feed_forward_proj"] = "gated-gelu", gated.config["is_gated_act"] = true;
  gated.config["dense_act_fn"] = "gelu_new";
  expect_refused(gated, "encoder.block.0.layer.1.DenseReluDense.wi_0.weight");
  auto wider = Loaded("mt5");
  wider.config["relative_attention_num_buckets"] = 16, wider.config["relative_attention_max_distance"] = 40;
  expect_refused(wider, "relative_attention_bias.weight is [8, 4]");
}

}  // namespace t5_test
