// What families of causal decoders share: the keys of their config.json, and tables of their tensors.
#pragma once

#include "libtrain/checkpoint/hugging_face_keys.h"

#include <string>
#include <vector>

namespace trainyard::checkpoint {

// Takes layers, widths, heads, vocabulary, context, norm epsilon and dropout of attention, under the names that all
// families since Llama use. Sets what they have in common: RMS norms, rotary positions, SwiGLU, no biases. A file
// without "num_key_value_heads" has `usual_kv_heads`; 0, or null in the file: as many as heads.
void take_decoder(ConfigKeys& keys, plan::ModelConfig& model, std::int64_t usual_kv_heads = 0);
// The same of an export.
nlohmann::ordered_json decoder_config(const plan::ModelConfig& model);

// Takes rotary angles: "rope_theta" and "rope_scaling", or in newer files both in "rope_parameters"; with
// "partial_rotary_factor" beside them or among them. As in transformers, "rope_scaling" replaces "rope_parameters", and
// what is in the object counts more than what is beside it. `where` is the file.
struct UsualAngles {
  double base, fraction = 1;  // where the file says nothing
  bool of_parts = false;      // a part of each head may rotate; transformers reads no such part in other families
  bool scaled = true;         // transformers scales the angles of this family
};
void take_rotary(ConfigKeys& keys, plan::ModelConfig& model, const std::string& where, UsualAngles usual);
// "rope_theta" and "rope_scaling", in the older form, which all versions of transformers read. No part of a head.
void put_rotary(nlohmann::ordered_json& config, const plan::ModelConfig& model);

// The tokens of "sliding_window": `usual` where the key is absent, 0 (no window) where it is null.
std::int64_t take_window(ConfigKeys& keys, std::int64_t usual);
// Gives the window to the layers that "layer_types" names; without it, to all but each `full_each`-th, or to all if
// that is 0.
void take_layer_types(ConfigKeys& keys, plan::ModelConfig& model, std::int64_t window, std::int64_t full_each);
// Takes "sliding_window" for all layers. Transformers does not read "layer_types" in such a family, so other types are
// an objection.
void take_same_window(ConfigKeys& keys, plan::ModelConfig& model, std::int64_t usual);
// Which layers see all tokens, and which have a window.
void put_layer_types(nlohmann::ordered_json& config, const plan::ModelConfig& model);
// The window of the first layer that has one; null if none has.
nlohmann::ordered_json window_of(const plan::ModelConfig& model);

// Takes "attention_bias": biases of q, k, v and of attention's output.
void take_attention_biases(ConfigKeys& keys, plan::ModelConfig& model);
bool has_attention_biases(const plan::ModelConfig& model);

// The usual size of heads of a family whose files may leave "head_dim" out.
void take_usual_head(ConfigKeys& keys, plan::ModelConfig& model, std::int64_t usual);

// Takes an activation under `key`: silu, or a GELU that gates; a GELU or a ReLU that does not.
void take_gated_activation(ConfigKeys& keys, plan::ModelConfig& model, const char* key, const char* usual);
std::string gate_name(const plan::ModelConfig& model);

// Which norms a layer of the family has, and how its tensors call them.
struct DecoderNorms {
  const char *before_attention, *after_attention, *before_ffn, *after_ffn;  // null: there is none
};
// The tensors of such a family: attention with separate q, k and v, their norms if there are any, and `ffn`.
std::vector<ForeignRule> decoder_rules(const DecoderNorms& norms, const std::vector<ForeignRule>& ffn);
std::vector<ForeignRule> gated_ffn_rules();

}  // namespace trainyard::checkpoint
