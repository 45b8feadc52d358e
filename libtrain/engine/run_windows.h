// What a run reads: the windows that it is trained with, and the windows that it is validated with.
#pragma once

#include "libtrain/base/error.h"
#include "libtrain/data/window_dataset.h"
#include "libtrain/engine/setup.h"
#include "libtrain/plan/data_use.h"

#include <cstdint>
#include <optional>
#include <string>

namespace trainyard::engine {

// InputError if the shards hold less than the run asks for, or no target that counts.
struct RunWindows {
  explicit RunWindows(const RunSetup& setup);

  data::WindowDataset training;
  std::optional<data::WindowDataset> validation;
};

// The error for data in which no target counts. `what` names the data; `hides` says that hidden tokens are the targets.
base::InputError nothing_counts(const std::string& what, bool hides);

plan::DataUse data_use_of(const RunSetup& setup);  // of the training split
// One line about a run that has read, or will have read, `samples` sequences after `steps` steps: "data: 4,320 windows
// of 129 tokens, with 98.2 % of the training tokens; in 500 steps each is read 3.7 times (epochs)".
std::string reading_text(const RunSetup& setup, std::int64_t steps, std::int64_t samples);

}  // namespace trainyard::engine
