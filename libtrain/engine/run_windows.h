// What a run reads: the windows that it learns from, and those that it is validated with.
#pragma once

#include "libtrain/data/window_dataset.h"
#include "libtrain/engine/config.h"
#include "libtrain/engine/setup.h"

#include <optional>

namespace trainyard::engine {

// InputError where the shards hold less than the run asks for.
struct RunWindows {
  RunWindows(const RunConfig& config, const RunSetup& setup);

  data::WindowDataset training;
  std::optional<data::WindowDataset> validation;
};

}  // namespace trainyard::engine
