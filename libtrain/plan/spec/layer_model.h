// A model as one of its layers sees it: its branches, and how many experts it has.
#pragma once

#include "libtrain/plan/grid/expert_share.h"
#include "libtrain/plan/spec/model_config.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

inline bool has_experts(const ModelConfig& model) { return !model.experts.count.empty(); }
bool layer_has_experts(const ModelConfig& model, std::int64_t layer);
// The number of layers with experts among the first `layers`.
std::int64_t expert_layers(const ModelConfig& model, std::int64_t layers);
inline std::int64_t expert_layers(const ModelConfig& model) { return expert_layers(model, model.layers); }

// The number of a layer in its tower: in the encoder, or behind it.
inline std::int64_t layer_in_tower(const ModelConfig& model, std::int64_t layer) {
  return layer < model.encoder_layers ? layer : layer - model.encoder_layers;
}

// The model as a layer sees it. A layer of an encoder sees later keys, too; a layer behind one has the branch
// "cross-attention" behind "attention". What layers take in turn, they take in each tower from its first layer on. Its
// attention has only this layer's layout. It has a file's blocks only if that layout is a file's, and then per_head is
// as the file has it. A layer without experts sees none. In a layer with experts the branch "experts" replaces "ffn",
// and experts.count is this layer's number. Its rotary base is the local one where its attention has a window of
// tokens.
ModelConfig layer_model(const ModelConfig& model, std::int64_t layer);
inline std::int64_t expert_count(const ModelConfig& of_layer) { return of_layer.experts.count.at(0); }
// Of these experts, those that a rank holds: how many, and the first.
inline std::int64_t held_experts(const ModelConfig& of_layer, const ExpertShare& share) {
  return expert_count(of_layer) / share.parts;
}
inline std::int64_t first_held_expert(const ModelConfig& of_layer, const ExpertShare& share) {
  return share.part * held_experts(of_layer, share);
}
inline std::int64_t expert_width(const ModelConfig& model) {
  return model.experts.ffn > 0 ? model.experts.ffn : model.ffn;
}

// How many successive layers see the same model, beginning with `layer` and ending before `end`.
std::int64_t alike_layers(const ModelConfig& model, std::int64_t layer, std::int64_t end);

// The model whose feed-forward part is the one beside the experts: that of `shared` experts, or "residual".
ModelConfig model_beside_experts(const ModelConfig& of_layer);

}  // namespace trainyard::plan
