// Restore: which checkpoint a run starts from, and its pieces into the store.
#pragma once

#include "libtrain/checkpoint/reader.h"
#include "libtrain/engine/config.h"
#include "libtrain/engine/setup.h"
#include "libtrain/engine/trainer.h"
#include "libtrain/engine/world.h"

#include <cstdint>
#include <string>

namespace trainyard::engine {

struct Start {
  std::string path;            // of the checkpoint; empty: initial values
  bool weights_only = false;   // --init-from
  std::int64_t step = 0;       // completed steps
};

// On rank 0: --resume auto takes the newest whole checkpoint of the run folder, loudly passing over damaged ones; a path must be whole; a different identity is refused
// unless --change names the fields. Removes stale partials. Says when dtype, instruction set, ranks or stage changed.
Start choose_start(const RunConfig& config, const RunSetup& setup, int ranks);

// Every rank reads its own pieces through the reader's one staging buffer; nothing is gathered on one rank. Collective.
void load_start(const Start& start, Trainer& trainer, const RunConfig& config, const RunSetup& setup);

std::string checkpoints_folder(const RunConfig& config);

}  // namespace trainyard::engine
