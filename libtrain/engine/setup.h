// Setup: a configuration made definite: model with its vocabulary, batch plan, shapes, identity; everything wrong is
// found here, before anything is allocated.
#pragma once

#include "libtrain/data/masking.h"
#include "libtrain/data/shard_set.h"
#include "libtrain/data/window_dataset.h"
#include "libtrain/engine/config.h"
#include "libtrain/engine/trainer.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

namespace trainyard::engine {

struct RunSetup {
  plan::Plan plan;  // predicted; what runs, and what a checkpoint records
  StepSettings step;
  data::SetIndex index;
  data::DocumentMask mask = data::DocumentMask::off;
  std::optional<data::Masking> masking;  // of a model that sees both ways
  nlohmann::json identity;
  std::int64_t validation_sequences = 0;  // of a validation; 0 where the run has none
  int ranks_on_device = 1;                // of the job that compute on this rank's GPU
};

// Reads the model and the data index. Throws UsageError listing every problem, each with a hint; InputError (exit 3)
// when a rank does not fit the memory limit, naming the deficit and what would fit, or when model or plan have
// another vocabulary than the shards. `ranks` is the world, `threads` the team of a rank. config.device is cpu or cuda
// here (resolve_device).
RunSetup make_setup(const RunConfig& config, int ranks, int threads);

// A warning where the plan that was read predicts something else than this build does for its decisions.
void warn_of_edited_plan(const RunConfig& config);

// UsageError where --output is the folder of a shard set: the one that the run reads, or any with an index.json.
void require_output_beside_data(const RunConfig& config);
// UsageError where dropout would come to samples beyond those that its random numbers count, after `samples_seen` in
// `step` steps.
void require_counters(const plan::ModelConfig& model, const RunConfig& config, std::int64_t step,
                      std::int64_t samples_seen);

}  // namespace trainyard::engine
