// Setup: makes a configuration definite: model with its vocabulary, batch plan, shapes, identity. It finds everything
// that is wrong before anything is allocated.
#pragma once

#include "libtrain/data/masking.h"
#include "libtrain/data/shard_set.h"
#include "libtrain/data/window_dataset.h"
#include "libtrain/engine/config.h"
#include "libtrain/engine/run_sets.h"
#include "libtrain/engine/set_windows.h"
#include "libtrain/engine/trainer.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace trainyard::engine {

// What a run is, decided once at a start (resolve.h) and never changed afterwards. make_setup leaves the device of
// `step` and `ranks_on_device` as they are; resolve sets them.
struct RunSetup {
  RunConfig config;     // the settings
  plan::Plan plan;      // predicted; what runs, and what a checkpoint records
  plan::LanesOf lanes;  // where the model's reduction lanes come from
  StepSettings step;
  data::SetIndex index;  // of the first set
  data::DocumentMask mask = data::DocumentMask::off;
  std::optional<data::Masking> masking;           // of a masked model
  std::optional<data::Denoising> denoising = {};  // of texts that a model with an encoder restores
  nlohmann::json identity;                        // identity_json.h
  std::int64_t validation_sequences = 0;          // sequences of one validation, of all sets; 0: the run has none
  int ranks_on_device = 1;                        // ranks of the job that compute on this rank's GPU
  std::string choices = {};       // what auto took, on rank 0: a line for each sentence (auto_plan.h, auto_offload.h)
  std::vector<RunSet> sets = {};  // of --data
};

// How it reads its sets.
SetReading reading_of(const RunSetup& setup);

// Reads the model and the data index; of pairs it counts the rows. `ranks` is the size of the world, `threads` the team
// size of a rank. config.device must be cpu or cuda already (agree_on_device). UsageError lists every problem, each
// with a hint. InputError (exit 3) if a rank does not fit the memory limit, with the deficit and what would fit. Also
// InputError if model or plan have another vocabulary than the shards.
RunSetup make_setup(const RunConfig& config, int ranks, int threads);

// The plan of the settings, without the limit of memory. Its decisions may have problems, and nothing of it is
// predicted: a search changes the layout first (auto_search.h). Throws as make_setup does for the model and the data.
plan::Plan plan_to_search(const RunConfig& config, int ranks, int threads);

// The same run in the layout that `config` has, which differs from setup.config in ZeRO stage, recomputation, offload
// and memory limit alone. Throws as make_setup does.
RunSetup with_layout(RunSetup setup, const RunConfig& config);

// Warns if the plan that was read predicts something else than this build predicts for the same decisions.
void warn_of_edited_plan(const RunSetup& setup);

// UsageError if --output is the folder of a shard set: the set that the run reads, or any folder with an index.json.
void require_output_beside_data(const RunConfig& config);
// UsageError if dropout would reach samples beyond those that its random numbers can count. The first `step` steps
// consumed `samples_seen` samples.
void require_counters(const plan::ModelConfig& model, const RunConfig& config, std::int64_t step,
                      std::int64_t samples_seen);

}  // namespace trainyard::engine
