// Objective: what a model learns to say of a text. It follows from what its queries may see.
#pragma once

#include "libtrain/plan/model_config.h"

namespace trainyard::plan {

// causal: at every token the next one (Radford et al. 2019), which no query may have seen. masked: the tokens at places
// that were hidden, seen from both sides (Devlin et al. 2019, section 3.1).
enum class Objective { causal, masked };

inline Objective objective_of(const ModelConfig& model) {
  return model.attention.causal ? Objective::causal : Objective::masked;
}

inline const char* name_of(Objective objective) { return objective == Objective::causal ? "causal" : "masked"; }

}  // namespace trainyard::plan
