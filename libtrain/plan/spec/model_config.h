// ModelConfig: a transformer as data.
#pragma once

#include "libtrain/plan/spec/adapter_config.h"
#include "libtrain/plan/spec/attention_config.h"
#include "libtrain/plan/spec/expert_config.h"
#include "libtrain/plan/spec/rotary_config.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::plan {

enum class Norm { layer, rms };
// Where the norm of a branch is. pre: x + branch(norm(x)). post: norm(x + branch(x)) (Vaswani et al. 2017; Devlin et
// al. 2019). inside_post: x + norm(branch(x)) (OLMo et al. 2024, "2 OLMo 2 furious"). sandwich: x +
// norm(branch(norm(x))) (Ding et al. 2021, "CogView"; Gemma Team 2024, "Gemma 2"). All but post have a norm before the
// head.
enum class NormPosition { pre, post, inside_post, sandwich };
// relative: no token has a position; a learned bias of attention's scores depends on the distance of a key from a query
// (Raffel et al. 2020, section 2.1).
enum class Positions { learned, rotary, relative };
// What computes logits from the hidden states. linear: the table alone. masked: a linear layer, the activation and a
// norm before the table, and a bias for each token after it (Devlin et al. 2019, the head of a masked language model).
enum class HeadForm { linear, masked };
// relu_squared: So et al. 2021, "Primer". swiglu, geglu_tanh, geglu_erf: gated, f(gate) * up with f the sigmoid linear
// unit or a GELU (Shazeer 2020, "GLU variants improve transformer").
enum class Activation { gelu_tanh, gelu_erf, swiglu, relu, relu_squared, geglu_tanh, geglu_erf };
// Which linear layers have a bias: none, all, those of q, k and v, or those and attention's output.
enum class Biases { off, on, qkv, attention };
// RMS norms of queries and of keys before the rotation: of each head, with weights [head_dim] that all heads share
// (Yang et al. 2025, "Qwen3"), or of the whole width, with weights [width] (OLMo et al. 2024).
enum class QkNorm { none, head, width };
// Standard deviations of initial weights. fixed: 0.02, and 0.02 / sqrt(2 layers) for projections whose output is added
// to the hidden states (Radford et al. 2019). fan_in: 1 / sqrt(inputs), so that scores and branches begin with a
// variance of about 1, and 1 for the token table (Raffel et al. 2020, and its code).
enum class InitialValues { fixed, fan_in };

// GPT-2 (Radford et al. 2019): layer norm, learned positions, tanh GELU, biases, tied head, pre-norm.
// Llama (Touvron et al. 2023): RMS norm, rotary positions (half-split pairs), SwiGLU, grouped-query attention, no
// biases, untied head (llama-1b, of Llama 3.2: tied).
struct ModelConfig {
  std::string name = "custom";
  std::int64_t layers = 2;  // with those of an encoder
  std::int64_t hidden = 64;
  std::int64_t heads = 4;     // hidden % heads == 0, unless head_size is given
  std::int64_t kv_heads = 4;  // heads % kv_heads == 0
  std::int64_t ffn = 256;
  std::int64_t vocabulary = 0;  // 0: from the shards
  std::int64_t context = 128;   // longest sequence (rows of the learned positions)
  Norm norm = Norm::layer;
  NormPosition norm_position = NormPosition::pre;
  Positions positions = Positions::learned;
  bool embedding_norm = false;  // a norm of the sum of the embeddings, before their dropout
  std::int64_t segments = 0;    // rows of a segment table, of which all tokens use row 0; 0: no table
  Activation activation = Activation::gelu_tanh;
  HeadForm head = HeadForm::linear;
  Biases biases = Biases::on;
  bool tied = true;
  double dropout_embedding = 0, dropout_attention = 0, dropout_attention_residual = 0, dropout_ffn_residual = 0;
  double dropout_ffn = 0;         // of what the activation makes, inside the feed-forward part
  double dropout_final_norm = 0;  // of the output of a final norm: the head's and an encoder's
  InitialValues initial_values = InitialValues::fixed;
  std::vector<std::string> branches = {"attention", "ffn"};  // of a layer, in order (plan/blocks/branch_registry.h)
  // Reduction lanes: every sum over heads, over the feed-forward part's inner width and over the vocabulary is divided
  // into so many slices. Each slice is a product of its own, and a binary tree adds them. So tensor-parallel ranks that
  // hold some of the slices change no bit. Part of the numerics. 0: not decided yet (default_lanes).
  std::int64_t lanes = 1;
  double norm_epsilon = 1e-5;
  double rotary_base = 10000;
  AttentionConfig attention;
  ExpertConfig experts;
  RotaryConfig rotary;
  AdapterConfig adapter;
  std::int64_t head_size = 0;  // width of a head; 0: hidden / heads
  QkNorm qk_norm = QkNorm::none;
  double query_scale = 0;            // factor of attention's scores; 0: 1 / sqrt(head_dim)
  bool parallel_residual = false;    // all branches of a layer see its input: x + a(norm_a(x)) + f(norm_f(x))
  double norm_offset = 0;            // a norm multiplies by its weight plus this
  double embedding_scale = 1;        // factor of the token's embedding, rounded to the working dtype
  double head_scale = 1;             // factor of what the head's table multiplies, rounded to the working dtype
  double logit_softcap = 0;          // c: logits become c tanh(logits / c); 0: they stay
  std::int64_t position_offset = 0;  // first rows of the learned positions that no token uses
  std::int64_t relative_buckets = 32, relative_distance = 128;  // of relative positions (plan/spec/relative_buckets.h)
  // The first layers, if they are an encoder: they see a whole source sequence, and each of the other layers attends to
  // what they make of it (Vaswani et al. 2017). 0: all layers are a decoder, or with causal = false an encoder alone.
  std::int64_t encoder_layers = 0;
  std::int64_t decoder_layers = 0;  // the layers behind an encoder: layers = encoder_layers + decoder_layers
  int decoder_start = -1;  // token with which inputs of a decoder behind an encoder begin; -1: end of a document

  std::int64_t head_dim() const { return head_size > 0 ? head_size : hidden / heads; }
  std::int64_t query_width() const { return heads * head_dim(); }
  std::int64_t key_value_width() const { return kv_heads * head_dim(); }
  std::int64_t stored_vocabulary() const { return (vocabulary + 127) / 128 * 128; }
  bool operator==(const ModelConfig&) const = default;
};

}  // namespace trainyard::plan
