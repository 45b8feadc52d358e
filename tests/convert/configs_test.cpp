// Imports of models in other forms than transformers writes today, and of models that this library cannot compute: keys
// of config.json, names and types of tensors.
#include "tests/convert/golden_model.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

using namespace trainyard;
using safetensors_sample::floats;
using trainyard::testing::expect_refused, trainyard::testing::Scratch;
using trainyard::testing::Loaded, trainyard::testing::import, trainyard::testing::refusal;

namespace configs_test {

std::map<std::string, std::uint64_t> fingerprints(const checkpoint::Manifest& manifest) {
  std::map<std::string, std::uint64_t> all;
  for (const auto& [path, t] : manifest.tensors) all[path] = t.fingerprint;
  return all;
}

std::map<std::string, std::uint64_t> fingerprints_of(const Loaded& model) {
  Scratch scratch;
  model.write(scratch.path + "/model");
  return fingerprints(import(scratch.path + "/model", scratch.path + "/imported").manifest);
}

TEST(Import, OlderConfigsSayTheSame) {
  const Loaded model("llama-3");
  auto older = model;
  for (const char* key : {"rope_parameters", "head_dim", "attention_bias", "mlp_bias"}) older.config.erase(key);
  older.config["rope_theta"] = 500000;
  older.config["rope_scaling"] = nullptr;
  Scratch scratch;
  model.write(scratch.path + "/a/model");
  older.write(scratch.path + "/b/model");
  const auto a = import(scratch.path + "/a/model", scratch.path + "/a/imported"),
             b = import(scratch.path + "/b/model", scratch.path + "/b/imported");
  EXPECT_EQ(a.manifest.state.model, b.manifest.state.model);
  EXPECT_EQ(a.manifest.state.model.rotary_base, 500000);
  EXPECT_TRUE(a.notes.empty() && b.notes.empty());
  // null means absent, and a key with the usual value is accepted.
  auto usual = model;
  usual.config["rope_parameters"].update({{"type", nullptr}, {"factor", 1}, {"partial_rotary_factor", 1.0}});
  usual.config["rope_scaling"] = nullptr;
  usual.config.update({{"partial_rotary_factor", 1}, {"nothing_known", nullptr}});
  usual.config["auto_map"] = {{"AutoModelForCausalLM", "modeling.Model"}};  // as in Phi-3-mini-4k
  usual.config.update({{"sliding_window", 4096}, {"layer_types", {"full_attention", "full_attention"}}});
  usual.write(scratch.path + "/d/model");
  const auto d = import(scratch.path + "/d/model", scratch.path + "/d/imported");
  EXPECT_EQ(d.manifest.state.model, a.manifest.state.model);
  EXPECT_TRUE(d.notes.empty());
  auto official = Loaded("gpt2");
  official.config.update({{"n_special", 0}, {"predict_special_tokens", true}});
  official.write(scratch.path + "/e/model");
  EXPECT_TRUE(import(scratch.path + "/e/model", scratch.path + "/e/imported").notes.empty());
}

// A key may change what a model computes, so one that is not known is refused, unless the user says that it does not.
TEST(Import, UnknownKeysAreRefusedByName) {
  Loaded model("llama-3");
  model.config["sliding_windows"] = 7;
  model.config["rotary_sector"] = 1;
  expect_refused(model, "2 keys are not known here: rotary_sector,sliding_windows");
  Scratch scratch;
  model.write(scratch.path + "/model");
  checkpoint::ImportOptions o;
  o.ignored_keys = {"rotary_sector"};
  EXPECT_THROW(checkpoint::import_model(scratch.path + "/model", scratch.path + "/imported", o), base::InputError);
  const auto refuse = [&](const std::string& key, const std::string& words) {
    auto more = o;
    more.ignored_keys = {"rotary_sector", "sliding_windows", key};
    try {
      checkpoint::import_model(scratch.path + "/model", scratch.path + "/imported", more);
      ADD_FAILURE() << key;
    } catch (const base::UsageError& e) {
      EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
    }
  };
  refuse("another", "--ignore-keys \"another\" has no effect: " + scratch.path + "/model/config.json has no such key");
  refuse("hidden_act", "config.json is known here");
  o.ignored_keys = {"rotary_sector", "sliding_windows"};
  EXPECT_EQ(fingerprints(checkpoint::import_model(scratch.path + "/model", scratch.path + "/imported", o).manifest),
            fingerprints_of(Loaded("llama-3")));
}

TEST(Import, ATiedHeadMayBeThereTwiceIfItIsTheSame) {
  const Loaded model("gpt2");
  auto twice = model;
  twice.tensors.push_back(twice.at("transformer.wte.weight"));
  twice.tensors.back().name = "lm_head.weight";
  EXPECT_EQ(fingerprints_of(twice), fingerprints_of(model));
  auto other = twice;
  other.tensors.back().bytes[100] ^= 1;
  expect_refused(other, "ties the head to transformer.wte.weight (F32), but lm_head.weight (F32) holds other values");
  auto narrow = twice;  // a table with values that bf16 can hold, and the head in bf16
  auto &table = narrow.at("transformer.wte.weight"), &head = narrow.tensors.back();
  head.dtype = "BF16", head.bytes.clear();
  for (std::size_t i = 0; i < table.bytes.size(); i += 4) {
    table.bytes[i] = table.bytes[i + 1] = '\0';
    head.bytes += table.bytes.substr(i + 2, 2);
  }
  EXPECT_EQ(refusal(narrow), "");
  head.bytes[1] ^= 1;
  expect_refused(narrow, "lm_head.weight (BF16) holds other values");
  other.config["tie_word_embeddings"] = false;
  EXPECT_EQ(refusal(other), "");
}

TEST(Import, ATiedModelMayHaveItsTableUnderTheNameOfTheHead) {
  for (const auto& [name, table, head] : {std::tuple{"llama-3-tied", "model.embed_tokens.weight", "lm_head.weight"},
                                          std::tuple{"gpt2", "transformer.wte.weight", "lm_head.weight"}}) {
    const Loaded model(name);
    auto other = model;
    other.at(table).name = head;
    EXPECT_EQ(fingerprints_of(other), fingerprints_of(model)) << name;
    other.config["tie_word_embeddings"] = false;
    expect_refused(other, std::string("1 missing: ") + table);
  }
}

TEST(Import, RefusesByNameWhatItCannotCompute) {
  const auto refuse = [](const char* golden, const char* key, const nlohmann::json& value, const std::string& words) {
    Loaded m(golden);
    m.config[key] = value;
    expect_refused(m, words);
  };
  for (const char* type : {"dynamic", "longrope", "su"}) {
    refuse("llama-3", "rope_scaling", {{"rope_type", type}, {"factor", 8.0}}, "of type \"" + std::string(type) + "\"");
    refuse("llama-3", "rope_scaling", {{"type", type}, {"factor", 8.0}}, "of type \"" + std::string(type) + "\"");
    refuse("llama-3", "rope_parameters", {{"rope_type", type}, {"rope_theta", 1e4}}, type);
  }
  refuse("llama-3", "model_type", "falcon", "model_type \"falcon\" is not supported");
  refuse("llama-3", "hidden_act", "relu", "'hidden_act' is \"relu\"");
  refuse("llama-3", "mlp_bias", true, "'mlp_bias' is true and 'attention_bias' is false");
  refuse("llama-3", "head_dim", 8, "q_proj.weight is [16, 16], config.json makes it [32, 16]");
  refuse("llama-3", "quantization_config", {{"bits", 4}}, "quantized weights");
  refuse("llama-3", "num_key_value_heads", 3, "is not a multiple of kv-heads 3");
  refuse("llama-3", "num_attention_heads", 0, "heads");
  refuse("llama-3", "hidden_size", -16, "hidden");
  refuse("llama-3", "hidden_size", "wide", "'hidden_size' must be a whole number");
  refuse("llama-3", "vocab_size", 1e300, "vocab_size");
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    refuse("llama-3", key, {{"full_attention", {{"rope_type", "yarn"}, {"factor", 8}}}},
           "has the key \"full_attention\"");
    refuse("llama-3", key, {{"rope_type", "default"}, {"low_freq_factor", 1}}, "has the key \"low_freq_factor\"");
    refuse("llama-3", key, {{"rope_type", "default"}, {"factor", 8}}, "has a factor, but no type that uses it");
    refuse("llama-3", key, {{"rope_type", "linear"}, {"factor", 2}, {"low_freq_factor", 1}}, "\"low_freq_factor\"");
    for (const char* type : {"linear", "llama3", "yarn"}) {
      const auto said = "'" + std::string(key) + "' has ";
      refuse("llama-3", key, {{"rope_type", type}}, said + "no factor");
      refuse("llama-3", key, {{"rope_type", type}, {"factor", 0.5}}, said + "the factor 0.5");
    }
    refuse("llama-3", key, {{"rope_type", "linear"}, {"factor", nullptr}}, "' has no factor");
    refuse("llama-3", key, {{"rope_type", "yarn"}, {"factor", 2}, {"truncate", nullptr}}, "has truncate false");
    refuse("llama-3", key, {{"rope_theta", 1}}, "'rope_theta' is 1: here it is 1.001 or more");
    refuse("llama-3", key, {{"rope_type", "yarn"}, {"factor", 2}, {"truncate", false}}, "has truncate false");
  }
  refuse("llama-3", "sliding_window", 4096, "'sliding_window'");
  refuse("llama-3", "layer_types", {"full_attention", "sliding_attention"}, "'layer_types' has types other than");
  refuse("gpt2", "activation_function", "tanh", "'activation_function' is \"tanh\"");
  refuse("gpt2", "scale_attn_weights", false, "'scale_attn_weights' is false");
  refuse("gpt2", "scale_attn_by_inverse_layer_idx", true, "'scale_attn_by_inverse_layer_idx' is true");
  refuse("gpt2", "add_cross_attention", true, "'add_cross_attention' is true");
  refuse("gpt2", "n_embd", std::int64_t{1} << 62, "hidden");
  refuse("bert", "hidden_act", "silu", "'hidden_act' is \"silu\"");
  refuse("bert", "position_embedding_type", "relative_key", "'position_embedding_type' is \"relative_key\"");
  refuse("bert", "is_decoder", true, "'is_decoder' is true");
  refuse("bert", "add_cross_attention", true, "'add_cross_attention' is true");
  refuse("bert", "tie_word_embeddings", false, "'tie_word_embeddings' is false");
  refuse("bert", "type_vocab_size", 0, "'type_vocab_size' is 0");
  refuse("bert", "type_vocab_size", 3, "token_type_embeddings.weight is [2, 12], config.json makes it [3, 12]");
  refuse("qwen2", "layer_types", {"full_attention", "chunked_attention", "full_attention"},
         "'layer_types' is no list of");
  refuse("qwen2", "layer_types", {"full_attention"}, "'layer_types' is no list of");
  refuse("mistral", "rms_norm_eps", "small", "'rms_norm_eps' must be a number");
  refuse("mistral", "rms_norm_eps", 0.0, "'rms_norm_eps' is 0: here it is from 1e-12 to 1");
  refuse("mixtral", "num_experts_per_tok", 1, "'num_experts_per_tok' is 1, and a Mixtral divides its weight");
  refuse("qwen3-moe", "num_experts_per_tok", 1, "'num_experts_per_tok' is 1, and 'norm_topk_prob' divides its");
  refuse("mixtral", "router_jitter_noise", 0.1, "'router_jitter_noise' is not 0");
  refuse("qwen3-moe", "mlp_only_layers", {1}, "layer 1 would be another here");
  refuse("qwen3-moe", "decoder_sparse_step", 0, "'decoder_sparse_step' is 0");
  refuse("olmoe", "clip_qkv", 8.0, "'clip_qkv': bounds of queries");
  refuse("phi3", "rope_parameters", {{"rope_type", "longrope"}, {"long_factor", {1.0}}}, "of type \"longrope\"");
  refuse("gpt-neox", "attention_bias", false, "'attention_bias' is false");
  refuse("gemma2", "query_pre_attn_scalar", 0, "'query_pre_attn_scalar' is 0");
  refuse("gemma2", "use_bidirectional_attention", true, "'use_bidirectional_attention' is true");
  refuse("gemma3", "rope_parameters",
         {{"full_attention", {{"rope_theta", 1e6}}}, {"sliding_attention", {{"rope_type", "linear"}, {"factor", 2}}}},
         "scales the angles of sliding_attention");
  refuse("roberta", "hidden_act", "gelu_new", "the head has gelu");
  refuse("roberta", "pad_token_id", 30, "'pad_token_id' is 30 of 22 positions");
  Loaded nan("llama-3");
  nan.config["rms_norm_eps"] = -77;
  Scratch scratch;
  nan.write(scratch.path + "/model");
  auto text = trainyard::testing::slurp(scratch.path + "/model/config.json");
  for (const char* number : {"NaN", "Infinity", "-Infinity"}) {
    auto of_python = text;
    of_python.replace(of_python.find("-77"), 3, number);
    trainyard::testing::spit(scratch.path + "/model/config.json", of_python);
    try {
      import(scratch.path + "/model", scratch.path + "/imported");
      ADD_FAILURE() << number;
    } catch (const base::InputError& e) {
      EXPECT_NE(std::string(e.what()).find(std::string("begins ") + number + ", and JSON has no such"),
                std::string::npos)
          << e.what();
    }
  }
  Loaded none("gpt2");
  none.config.erase("n_head");
  expect_refused(none, "'n_head' is missing");
}

TEST(Import, FilesWithoutPrefixAndWithBuffersAreTheSameModel) {
  for (const auto& [name, prefix] :
       {std::pair<const char*, std::string>{"gpt2", "transformer."}, {"llama-2", "model."}, {"bert", "bert."}}) {
    const Loaded model(name);
    auto older = model;
    for (auto& t : older.tensors)
      if (t.name.starts_with(prefix)) t.name.erase(0, prefix.size());
    if (prefix == "transformer.") {
      older.tensors.push_back({"h.0.attn.bias", "BOOL", {1, 1, 2, 2}, std::string("\1\0\1\1", 4)});
      older.tensors.push_back({"h.1.attn.masked_bias", "F32", {}, floats({-1e4f})});
    } else if (prefix == "model.") {
      older.tensors.push_back({"layers.1.self_attn.rotary_emb.inv_freq", "F32", {2}, floats({1, 2})});
    }
    EXPECT_EQ(fingerprints_of(older), fingerprints_of(model)) << name;
  }
}

// As the first BERTs were saved: norms with gamma and beta, positions in a buffer, and further weights of pre-training.
TEST(Import, OlderBertsAreTheSameModel) {
  const Loaded model("bert");
  auto older = model;
  const auto end = [](std::string& name, const std::string& now, const std::string& then) {
    if (name.ends_with(now)) name.replace(name.size() - now.size(), now.size(), then);
  };
  for (auto& t : older.tensors) {
    end(t.name, "LayerNorm.weight", "LayerNorm.gamma");
    end(t.name, "LayerNorm.bias", "LayerNorm.beta");
  }
  older.tensors.push_back({"bert.embeddings.position_ids", "I64", {1, 1}, std::string(8, '\0')});
  EXPECT_EQ(fingerprints_of(older), fingerprints_of(model));
  older.config.update({{"position_embedding_type", "absolute"}, {"pooler_type", "first_token_transform"}});
  older.config.erase("layer_norm_eps");
  older.tensors.push_back({"bert.pooler.dense.weight", "F32", {1}, floats({1})});
  older.tensors.push_back({"cls.seq_relationship.bias", "F32", {2}, floats({1, 2})});
  Scratch scratch;
  older.write(scratch.path + "/model");
  const auto r = import(scratch.path + "/model", scratch.path + "/imported");
  EXPECT_EQ(fingerprints(r.manifest), fingerprints_of(model));
  EXPECT_EQ(r.manifest.state.model.norm_epsilon, 1e-12);
  ASSERT_EQ(r.notes.size(), 1u);
  EXPECT_NE(r.notes[0].find("left out: bert.pooler.dense.weight, cls.seq_relationship.bias"), std::string::npos)
      << r.notes[0];
  older.tensors.push_back({"bert.embeddings.LayerNorm.weight", "F32", {12}, floats(std::vector<float>(12, 1.0f))});
  expect_refused(older, "1 unknown: \"bert.embeddings.LayerNorm.gamma\"");
  // Without the head it is not a masked model.
  auto encoder = model;
  std::erase_if(encoder.tensors, [](const auto& t) { return t.name.starts_with("cls."); });
  expect_refused(encoder, "5 missing: cls.predictions.transform.dense.weight");
}

TEST(Import, ABertsHeadMayBeThereTwiceIfItIsTheSame) {
  const Loaded model("bert");
  auto twice = model;
  twice.tensors.push_back(twice.at("bert.embeddings.word_embeddings.weight"));
  twice.tensors.back().name = "cls.predictions.decoder.weight";
  twice.tensors.push_back(twice.at("cls.predictions.bias"));
  twice.tensors.back().name = "cls.predictions.decoder.bias";
  EXPECT_EQ(fingerprints_of(twice), fingerprints_of(model));
  auto other = twice;
  other.at("cls.predictions.decoder.bias").bytes[7] ^= 1;
  expect_refused(other, "ties the head to cls.predictions.bias (F32), but cls.predictions.decoder.bias (F32) holds");
  other = twice;
  other.at("cls.predictions.decoder.weight").bytes[77] ^= 1;
  expect_refused(other, "but cls.predictions.decoder.weight (F32) holds other values");
}

TEST(Import, ListsTensorsThatAreMissingUnknownOrOtherwise) {
  const Loaded model("gpt2");
  const std::string layer = "transformer.h.1.";
  auto m = model;
  m.remove(layer + "ln_1.bias");
  m.remove("transformer.wpe.weight");
  expect_refused(m, "2 missing: transformer.wpe.weight, " + layer + "ln_1.bias");
  m = model;
  m.tensors.push_back({"score.weight", "F32", {1}, floats({1})});
  m.tensors.push_back({"transformer.h.2.ln_1.bias", "F32", {1}, floats({1})});
  expect_refused(m, "2 unknown: \"score.weight\", \"transformer.h.2.ln_1.bias\"");
  m = model;
  std::swap(m.at(layer + "mlp.c_fc.weight").shape[0], m.at(layer + "mlp.c_fc.weight").shape[1]);
  expect_refused(m, "1 of another shape: " + layer + "mlp.c_fc.weight is [48, 12], config.json makes it [12, 48]");
  m = model;
  m.at(layer + "ln_2.weight") = {layer + "ln_2.weight", "I8", {12}, std::string(12, 'x')};
  expect_refused(m, layer + "ln_2.weight is I8");
  m = model;
  m.config["n_layer"] = 5000;
  expect_refused(m, " more");
  m = Loaded("llama-2");
  m.remove("lm_head.weight");
  expect_refused(m, "1 missing: lm_head.weight");
}

}  // namespace configs_test
