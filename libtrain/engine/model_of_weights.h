// The model of a run whose user gives a checkpoint to begin with, and no model.
#pragma once

#include "libtrain/base/fields.h"
#include "libtrain/engine/config.h"

#include <vector>

namespace trainyard::engine {

// Sets from_checkpoint.model if has_model_of_weights. A run that resumes by itself takes the model of the newest
// checkpoint in its folder. Otherwise the model of init_from or resume is taken (start_path.h). Call it last.
// InputError for a damaged checkpoint, EnvironmentError for one that cannot be read.
void read_model_of_weights(const std::vector<base::Field>& fields, RunConfig& config);

}  // namespace trainyard::engine
