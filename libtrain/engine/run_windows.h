// What a run reads: the windows that it learns from, and those that it is validated with.
#pragma once

#include "libtrain/base/error.h"
#include "libtrain/data/window_dataset.h"
#include "libtrain/engine/config.h"
#include "libtrain/engine/setup.h"
#include "libtrain/plan/data_use.h"

#include <cstdint>
#include <optional>
#include <string>

namespace trainyard::engine {

// InputError where the shards hold less than the run asks for, or nothing that it could learn from.
struct RunWindows {
  RunWindows(const RunConfig& config, const RunSetup& setup);

  data::WindowDataset training;
  std::optional<data::WindowDataset> validation;
};

// Of text that teaches nothing: `what` is its name, `hides` says that hidden tokens are the targets.
base::InputError nothing_counts(const std::string& what, bool hides);

plan::DataUse data_use_of(const RunSetup& setup);  // of the training split
// One line of a run that has read `samples` sequences after `steps` steps, or will have: "data: 4,320 windows of 129
// tokens, with 98.2 % of the training tokens; in 500 steps each is read 3.7 times (epochs)".
std::string reading_text(const RunSetup& setup, std::int64_t steps, std::int64_t samples);

}  // namespace trainyard::engine
