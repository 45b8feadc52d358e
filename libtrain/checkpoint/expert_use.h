// ExpertUse: how many tokens chose each expert of a model, as an evaluation reports it.
#pragma once

#include "libtrain/plan/spec/model_config.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

struct LayerUse {
  std::int64_t layer = 0;             // index among the model's layers, from 0
  std::vector<std::int64_t> choices;  // of each expert, before dropping
  bool operator==(const LayerUse&) const = default;
};
struct ExpertUse {
  std::int64_t step = 0;         // of the evaluated checkpoint
  std::vector<LayerUse> layers;  // layers with experts, ascending
  bool operator==(const ExpertUse&) const = default;
};

// Reads what `train --evaluate --json` prints: an object a line, whose keys are `step` and `experts` among others. The
// choices of several lines are added. InputError, beginning with `where`, for a text that is something else, for lines
// of different steps or layers, and for an evaluation of a model without experts.
ExpertUse expert_use_from_text(const std::string& text, const std::string& where);

// InputError, beginning with `where`, unless it is the use of the experts of this model.
void require_use_of(const plan::ModelConfig& model, const ExpertUse& use, const std::string& where);

}  // namespace trainyard::checkpoint
