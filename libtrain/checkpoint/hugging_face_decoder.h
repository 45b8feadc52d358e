// What families of causal decoders share: the keys of their config.json, and tables of their tensors.
#pragma once

#include "libtrain/checkpoint/hugging_face_keys.h"

#include <string>
#include <vector>

namespace trainyard::checkpoint {

// Takes layers, widths, heads, vocabulary, context, norm epsilon and dropout of attention, under the names that all
// families since Llama use. Sets what they have in common: RMS norms, rotary positions, SwiGLU, no biases.
void take_decoder(ConfigKeys& keys, plan::ModelConfig& model);
// The same of an export.
nlohmann::ordered_json decoder_config(const plan::ModelConfig& model);

// Takes rotary angles: "rope_theta" and "rope_scaling", or in newer files both in "rope_parameters"; with
// "partial_rotary_factor" beside them or among them. `where` is the file.
struct UsualAngles {
  double base, fraction = 1;  // where the file says nothing
};
void take_rotary(ConfigKeys& keys, plan::ModelConfig& model, const std::string& where, UsualAngles usual);
// "rope_theta" and "rope_scaling", in the older form, which all versions of transformers read.
void put_rotary(nlohmann::ordered_json& config, const plan::ModelConfig& model);

// Takes "sliding_window" and "layer_types". Without "layer_types", `usual_types` says which layers have the window.
enum class UsualWindows { all, none, every_other, five_of_six };  // every_other: the first, the third, ...
void take_windows(ConfigKeys& keys, plan::ModelConfig& model, UsualWindows usual_types);
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
