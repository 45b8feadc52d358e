// Restore: which checkpoint a run starts from, and its shards into the store.
#pragma once

#include "libtrain/checkpoint/reader.h"
#include "libtrain/engine/config.h"
#include "libtrain/engine/setup.h"
#include "libtrain/engine/trainer.h"
#include "libtrain/engine/world.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::engine {

struct Start {
  std::string path;                                // of the checkpoint; empty: initial values
  bool weights_only = false;                       // --init-from
  std::int64_t step = 0;                           // completed steps
  std::int64_t samples_seen = 0, tokens_seen = 0;  // what they have consumed
  bool own = false;                                // it is OUTPUT/checkpoints/step-STEP
  bool newest = false;                             // and no later one lies there: --resume auto would take it too
};

// Whether the run folder is held and may be mended, or is only looked at (--dry-run): then nothing in it changes.
enum class RunFolder { held, looked_at };

// On rank 0, which holds the run folder: --resume auto takes the newest checkpoint of the run folder whose manifest,
// sizes and metadata are right, loudly passing over damaged ones and silently those in `damaged`; one that cannot be
// read is not damaged, and EnvironmentError; a run folder with checkpoints of which none is left is refused, and so is
// one that is not new but has none (require_unused). A path, also that of --init-from, may be the folder of a run,
// whose newest whole checkpoint is meant (start_path.h). A different identity is refused unless --change names the
// fields. Removes stale partials, and makes a view anew that is missing from the run's own checkpoint. Says when dtype,
// instruction set, build, ranks or stage changed. Payloads are not read here, except those of a checkpoint after which
// nothing is left to do.
Start choose_start(const RunConfig& config, const RunSetup& setup, int ranks, const std::vector<std::string>& damaged,
                   RunFolder folder = RunFolder::held);

// The lanes of the checkpoints that the run would go on from, which are all of one model, and the newest that says
// them; 0 where there are none, or none whose description is whole: choose_start tells of those. What cannot be read is
// EnvironmentError here as there.
struct LanesOfRun {
  std::int64_t lanes = 0;
  std::string checkpoint;
};
LanesOfRun lanes_of_run(const RunConfig& config);
void take_lanes(RunConfig& config, const LanesOfRun& of_run);  // as those that the run has

// Brings `start` into the store: initial values, or this rank's own shards, checked block by block as they are read
// through the reader's one staging buffer; nothing is gathered on one rank. When any rank finds damage all throw
// InputError (exit 3) alike, EnvironmentError (exit 4) where one merely cannot read, and weights are undefined until
// the next call. Collective.
void load_start(const Start& start, Trainer& trainer, World& world, const RunConfig& config);

}  // namespace trainyard::engine
