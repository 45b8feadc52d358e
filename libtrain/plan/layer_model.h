// A model as one of its layers sees it: which branches it has, how many experts.
#pragma once

#include "libtrain/plan/model_config.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

inline bool has_experts(const ModelConfig& model) { return !model.experts.count.empty(); }
bool layer_has_experts(const ModelConfig& model, std::int64_t layer);
// Layers that have experts, among the first `layers`.
std::int64_t expert_layers(const ModelConfig& model, std::int64_t layers);
inline std::int64_t expert_layers(const ModelConfig& model) { return expert_layers(model, model.layers); }

// Its attention has its own layout alone: what a file says only where that is a file's, and then per_head as the file
// has it. In a layer without experts there are none; in one that has them the branch "experts" stands where "ffn"
// stood, and experts.count is the number of this layer.
ModelConfig layer_model(const ModelConfig& model, std::int64_t layer);
inline std::int64_t expert_count(const ModelConfig& of_layer) { return of_layer.experts.count.at(0); }
// Of these, those that are looked at (ExpertConfig::held): how many, and the first.
inline std::int64_t held_experts(const ModelConfig& of_layer) {
  return expert_count(of_layer) / of_layer.experts.held.parts;
}
inline std::int64_t first_held_expert(const ModelConfig& of_layer) {
  return of_layer.experts.held.part * held_experts(of_layer);
}
inline std::int64_t expert_width(const ModelConfig& model) {
  return model.experts.ffn > 0 ? model.experts.ffn : model.ffn;
}

// How many layers from `layer` on, itself included and up to `end`, see the same model.
std::int64_t alike_layers(const ModelConfig& model, std::int64_t layer, std::int64_t end);

// The model whose feed-forward part is that beside the experts: of `shared` experts, or of "residual".
ModelConfig model_beside_experts(const ModelConfig& of_layer);

}  // namespace trainyard::plan
