// What is wrong with the experts of a model.
#pragma once

#include "libtrain/plan/model_config.h"

#include <string>
#include <vector>

namespace trainyard::plan {

// Each with what would work. The fields of the model are in their ranges.
std::vector<std::string> expert_problems(const ModelConfig& model);

// Keys of a description that mean nothing beside its other ones, each with what would read them. A model that exists,
// of a plan or a checkpoint, is not refused for them.
std::vector<std::string> unread_expert_keys(const ModelConfig& model);

// What keeps `degree` of `data` data-parallel ranks, each of `tensor` ranks that share every layer, from sharing out
// the experts of every layer; "": nothing does.
std::string expert_parallel_obstacle(const ModelConfig& model, int data, int tensor, int degree);
// "--expert-parallel 2 or --expert-parallel 6": the nearest below and above that work.
std::string expert_parallel_flags(const ModelConfig& model, int data, int tensor, int degree);

}  // namespace trainyard::plan
