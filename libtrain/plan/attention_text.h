// Text for reports: how much of the attention square the layers of a model compute.
#pragma once

#include "libtrain/plan/plan.h"

#include <cstdint>
#include <string>

namespace trainyard::plan {

// "sliding in 5 layers: 250 of 2,080 blocks of 64 (12.0 %); dense in 1 layer", the layouts in the order of the layers,
// then "a window of 4,096 tokens in 2 layers; scores capped at 50". Empty if every layer is dense and sees all. The
// model's layouts must allow the sequence.
std::string attention_text(const ModelConfig& model, std::int64_t sequence);

// Bytes of the attention lists of a rank (plan/cost/attention_lists.h), in the pipeline stage that needs most.
std::int64_t most_attention_list_bytes(const Plan& plan);

}  // namespace trainyard::plan
