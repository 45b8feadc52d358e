// Pipeline stages that share cores: each is faster while others wait.
#pragma once

#include "libtrain/plan/schedule/simulate.h"

namespace trainyard::plan {

// How long the work of a simulated step takes where its stages share cores. `dedicated` has all stages, each with cores
// of its own, and no problem; `parts` is the number of parts of the model. There are ranks_of_core times as many
// threads as cores. As long as more stages compute than there are cores for, they get equal shares of them. Work keeps
// its order in a stage, and begins message_seconds after what it needs from another stage.
double shared_core_seconds(const Simulated& dedicated, int parts, double ranks_of_core, double message_seconds);

}  // namespace trainyard::plan
