// Restore: chooses the checkpoint that a run starts from, and loads its shards into the store.
#pragma once

#include "libtrain/checkpoint/reader.h"
#include "libtrain/engine/config.h"
#include "libtrain/engine/setup.h"
#include "libtrain/engine/trainer.h"
#include "libtrain/engine/world.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::engine {

struct Start {
  std::string path;                                            // the checkpoint; empty: initial values
  bool weights_only = false;                                   // --init-from
  std::int64_t step = 0;                                       // completed steps
  std::int64_t samples_seen = 0, tokens_seen = 0;              // consumed by these steps
  std::int64_t skipped_steps = 0;                              // of them, steps that changed nothing (NonFinitePolicy)
  std::optional<checkpoint::StoredLossScale> loss_scale = {};  // of a run that scaled its loss
  bool own = false;                                            // path is OUTPUT/checkpoints/step-STEP
  bool newest = false;  // own, and no later checkpoint lies there: --resume auto would take it, too
  // Own checkpoints after `step` that --resume auto found damaged just now, and skipped.
  std::vector<std::string> damaged = {};
  std::optional<checkpoint::StoredOutlierWindow> outlier_window = {};  // of a run that skipped outliers
};

// held: this run holds the run folder and may mend it. looked_at: it only looks (--dry-run), and nothing in it changes.
enum class RunFolder { held, looked_at };

// Chooses where a run starts. Called on rank 0, which holds the run folder.
// --resume auto takes the newest checkpoint of the run folder whose manifest, sizes and metadata are right. It skips
// damaged ones with a warning, and those in `damaged` silently. A checkpoint that cannot be read is not damaged:
// EnvironmentError. It refuses a run folder whose checkpoints are all damaged, and one that is not new but has none
// (require_unused).
// A path, also in --init-from, may be the folder of a run, whose newest whole checkpoint is meant (start_path.h).
// A different identity is refused unless --change names the fields. Stale partial checkpoints are removed, and a view
// that is missing from the run's own checkpoint is written again. Changes of dtype, instruction set, build, ranks or
// ZeRO stage are reported. Payloads are not read here, except when no step is left to do after the checkpoint.
Start choose_start(const RunSetup& setup, const std::vector<std::string>& damaged, RunFolder folder = RunFolder::held);

// The lanes of the checkpoints that the run would continue from (they are all of one model), and the newest checkpoint
// that records them. 0 if there are none, or none with a whole description; choose_start reports those.
// EnvironmentError if a checkpoint cannot be read, as in choose_start.
struct LanesOfRun {
  std::int64_t lanes = 0;
  std::string checkpoint;
};
LanesOfRun lanes_of_run(const RunConfig& config);
void take_lanes(RunConfig& config, const LanesOfRun& of_run);  // `config` gets the lanes of the run

// Loads `start` into the store: initial values, or this rank's own shards. Shards are checked block by block while they
// are read through the reader's one staging buffer; no rank gathers the whole model. If any rank finds damage, all
// ranks throw InputError (exit 3). If a rank merely cannot read, they throw EnvironmentError (exit 4). Weights are then
// undefined until the next call. Collective. Returns where the weights of the run come from, for provenance, also in
// later starts: weights_from ("CHECKPOINT, step N" of --init-from), and hugging_face if they were imported before
// (checkpoint/companions.h). Empty or null: initial values.
nlohmann::json load_start(const Start& start, Trainer& trainer, World& world, const RunSetup& setup);

}  // namespace trainyard::engine
