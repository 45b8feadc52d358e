// What the layers of a model compute of attention's square, for reports.
#pragma once

#include "libtrain/plan/plan.h"

#include <cstdint>
#include <string>

namespace trainyard::plan {

// "sliding in 5 layers: 250 of 2,080 blocks of 64 (12.0 %); dense in 1 layer", the layouts in the order of the layers;
// empty where every layer is dense. The sequence must be one that the model's layouts can have.
std::string attention_text(const ModelConfig& model, std::int64_t sequence);

// Of the lists of a rank (plan/attention_lists.h), of the stage that has most.
std::int64_t most_attention_list_bytes(const Plan& plan);

}  // namespace trainyard::plan
