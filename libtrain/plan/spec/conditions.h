// Conditions of a model that decide what a block has. A block's description (plan/blocks) and the block itself (model)
// ask the same function, so that the two cannot differ.
#pragma once

#include "libtrain/plan/spec/model_config.h"
#include "libtrain/plan/spec/relative_buckets.h"

#include <string_view>

namespace trainyard::plan {

inline bool is_gated(const ModelConfig& m) {  // gate and up, not up alone
  return m.activation == Activation::swiglu || m.activation == Activation::geglu_tanh ||
         m.activation == Activation::geglu_erf;
}
inline bool has_biases(const ModelConfig& m) { return m.biases == Biases::on; }  // of all linear layers
inline bool has_qkv_biases(const ModelConfig& m) { return m.biases != Biases::off; }
inline bool has_output_bias(const ModelConfig& m) {  // of attention
  return m.biases == Biases::on || m.biases == Biases::attention;
}
inline bool is_rotary(const ModelConfig& m) { return m.positions == Positions::rotary; }
inline bool has_position_table(const ModelConfig& m) { return m.positions == Positions::learned; }
inline bool has_relative_positions(const ModelConfig& m) { return m.positions == Positions::relative; }
// The table of relative positions that all layers of a tower use. The model is as a layer sees it
// (plan/spec/layer_model.h).
inline constexpr const char *encoder_relative_positions = "encoder.relative_positions",
                            *decoder_relative_positions = "decoder.relative_positions";
inline const char* relative_positions_flat_group(const ModelConfig& of_layer) {
  return of_layer.attention.causal ? decoder_relative_positions : encoder_relative_positions;
}
inline RelativeBucketRule relative_bucket_rule(const ModelConfig& of_layer) {
  return {of_layer.relative_buckets, of_layer.relative_distance, !of_layer.attention.causal};
}
inline bool has_segment_table(const ModelConfig& m) { return m.segments > 0; }
// An encoder, whose output the layers of a decoder attend to.
inline bool has_encoder(const ModelConfig& m) { return m.encoder_layers > 0; }
inline constexpr const char* cross_attention_branch = "cross-attention";  // of the layers behind an encoder
inline bool is_in_encoder(const ModelConfig& m, std::int64_t layer) { return layer < m.encoder_layers; }
inline bool is_post_norm(const ModelConfig& m) { return m.norm_position == NormPosition::post; }
// A norm reads the hidden states before each branch, or the branch's output before it is added to them.
inline bool has_norm_before(const ModelConfig& m) {
  return m.norm_position == NormPosition::pre || m.norm_position == NormPosition::sandwich;
}
inline bool has_norm_behind(const ModelConfig& m) {
  return m.norm_position == NormPosition::inside_post || m.norm_position == NormPosition::sandwich;
}
inline bool is_parallel(const ModelConfig& m) { return m.parallel_residual && m.branches.size() > 1; }
inline bool has_final_norm(const ModelConfig& m) { return !is_post_norm(m); }  // before the head's product
// A dense layer, GELU and a norm before the head's product, and a bias of the vocabulary where the model has biases.
inline bool has_masked_head(const ModelConfig& m) { return m.head == HeadForm::masked; }
inline bool has_vocabulary_bias(const ModelConfig& m) { return has_masked_head(m) && has_biases(m); }
inline bool drops_final_norms(const ModelConfig& m) { return m.dropout_final_norm > 0; }
inline bool scales_head(const ModelConfig& m) { return m.head_scale != 1; }
inline bool has_fan_in_values(const ModelConfig& m) { return m.initial_values == InitialValues::fan_in; }
inline bool subtracts_mean(const ModelConfig& m) { return m.norm == Norm::layer; }  // else the norm only scales
// Queries and keys have norms, over each head or over the width of all heads.
inline bool norms_queries_and_keys(const ModelConfig& m) { return m.qk_norm != QkNorm::none; }
inline bool norms_heads(const ModelConfig& m) { return m.qk_norm == QkNorm::head; }
inline bool norms_width(const ModelConfig& m) { return m.qk_norm == QkNorm::width; }
// The model has low-rank adapters, and all other parameters are frozen.
inline bool has_adapter(const ModelConfig& m) { return m.adapter.rank > 0; }
inline bool has_adapter_on(const ModelConfig& m, std::string_view target) {
  return has_adapter(m) && m.adapter.is_on(target);
}
inline bool jitters_gate(const ModelConfig& m) { return m.experts.noise == GateNoise::jitter; }

}  // namespace trainyard::plan
