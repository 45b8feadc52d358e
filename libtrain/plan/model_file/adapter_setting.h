// The settings that give a model low-rank adapters.
#pragma once

#include "libtrain/plan/spec/model_config.h"

#include <string>

namespace trainyard::plan {

struct AdapterSettings {
  std::string adapter;  // "lora:16": the rank; empty: the model's own
  std::string on;       // "q,k,v,o"; empty: the model's own
  double alpha = 0;     // 0: the model's own
};

// "lora:16" gives 16. UsageError that begins with the setting's name for anything else.
std::int64_t adapter_rank_of_text(const std::string& text);
// Changes what the settings give. UsageError for text that is none, and for `on` or `alpha` of a model without
// adapters.
void take_adapter(const AdapterSettings& settings, ModelConfig& model);

}  // namespace trainyard::plan
