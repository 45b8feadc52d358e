// What is wrong with a model's settings of experts.
#pragma once

#include "libtrain/plan/spec/model_config.h"

#include <string>
#include <vector>

namespace trainyard::plan {

// Each message says what would work. The fields of the model must be in their ranges.
std::vector<std::string> expert_problems(const ModelConfig& model);

// Keys of a model description that have no effect with its other keys, each with what would make them count. Models of
// plans or checkpoints are not refused for such keys.
std::vector<std::string> unread_expert_keys(const ModelConfig& model);

// Why --expert-parallel `degree` is impossible with `data` data-parallel ranks, each of `tensor` tensor-parallel ranks;
// "": it is possible.
std::string expert_parallel_obstacle(const ModelConfig& model, int data, int tensor, int degree);
// "--expert-parallel 2 or --expert-parallel 6": the nearest degrees below and above that work.
std::string expert_parallel_flags(const ModelConfig& model, int data, int tensor, int degree);

}  // namespace trainyard::plan
