// Objective: what a model learns to predict. It follows from what the model's queries may see.
#pragma once

#include "libtrain/plan/spec/model_config.h"

namespace trainyard::plan {

// causal: predict the next token at every token (Radford et al. 2019); no query may have seen it. masked: predict the
// hidden tokens from both sides (Devlin et al. 2019, section 3.1).
enum class Objective { causal, masked };

inline Objective objective_of(const ModelConfig& model) {
  return model.attention.causal ? Objective::causal : Objective::masked;
}

// Tokens that name the hidden spans of a text, where a tokenizer has none of its own (data/denoising.h); T5 has as
// many.
inline constexpr std::int64_t usual_sentinels = 100;

inline const char* name_of(Objective objective) { return objective == Objective::causal ? "causal" : "masked"; }

}  // namespace trainyard::plan
