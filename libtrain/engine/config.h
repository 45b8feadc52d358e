// RunConfig: what a user can say about a training run, with its defaults. One description gives flags, file keys and
// --print-config.
#pragma once

#include "libtrain/base/fields.h"
#include "libtrain/plan/parallel_layout.h"
#include "libtrain/plan/model_config.h"
#include "libtrain/plan/problems.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::engine {

// The cut is asked for: sequence and threads may be 0, as their help says (plan/parallel_layout.h). Setup makes a
// definite plan of it.
struct RunConfig : plan::ParallelLayout {
  RunConfig() { global_batch = 8, sequence = 0, threads = 0; }

  // what
  std::string model = "gpt2-micro";  // preset or TOML file
  std::int64_t lanes = 0;            // 0: nobody has said them (lanes_of_plan, checkpoint_lanes)
  std::string data;                  // folder of token shards
  std::string output;                // run folder
  std::string plan;                  // plan.json of partition-model, or auto_plan
  std::int64_t steps = 100;
  std::uint64_t seed = 1;
  std::string document_mask = "off";
  std::string objective = "auto";  // causal, masked, or what the model's attention is for (engine/masking.h)
  double mask_rate = 0;            // of tokens that a masked model has to find; 0: 0.15
  std::string mask_words = "off";
  // how
  std::string device = "auto";        // cpu, cuda, or auto: a GPU where there is one
  std::string communicator = "auto";  // between GPUs: nccl, mpi (through host memory), or auto
  std::string memory_limit;           // for example 4GB: bytes of one rank
  // optimizer
  double learning_rate = 1e-3;
  double start_learning_rate = 0, final_learning_rate = 0;
  std::string schedule = "cosine";
  std::int64_t warmup_steps = 0;
  std::int64_t decay_steps = 0;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
  std::string decay_embeddings = "off";
  double clip = 1.0;
  // keeping
  std::int64_t save_every = 0;
  int keep = 3;
  std::string resume = "auto";
  std::string init_from;
  std::string change;  // comma-separated names of identity fields that a resume may change
  std::int64_t stop_after = 0;
  std::int64_t validate_every = 0;
  std::int64_t validation_sequences = 0;  // 0: as RunSetup::validation_sequences says
  std::int64_t save_throttle = 0;         // bytes a second of background writing; 0: as fast as the disk takes it
  // watching
  std::string progress = "auto";
  double hang_timeout = 600;    // seconds
  double collective_delay = 0;  // seconds added to every collective, to see what overlap hides
  std::string trace;            // file (trace_file.h)
  std::string trace_steps;      // "3:6"; empty: all
  bool profile_step = false;    // RunResult::step_profile
  // from --plan
  std::optional<plan::ModelConfig> plan_model;        // while --model is not said elsewhere
  int plan_ranks = 0;                                 // 0: no plan
  std::int64_t plan_lanes = 0;                        // of the plan's model, whoever says the run's
  std::optional<plan::Plan> plan_as_read;             // with what it predicts, which may be another build's
  std::vector<std::string> of_plan;                   // names of the settings that the plan has said
  std::optional<plan::ModelConfig> checkpoint_model;  // of an evaluation, and of --init-from without --model
  std::int64_t checkpoint_mask = -1;                  // of an evaluation: the token that hid others in training
  bool lanes_of_plan = false;                         // `lanes` are those of plan_model: nobody has asked for them
  std::int64_t checkpoint_lanes = 0;                  // of the run's own checkpoints (restore.h); 0: there are none
  plan::LanesOf lanes_of;                             // where the lanes of these two come from
  bool auto_zero = false, auto_recompute = false;     // what --plan auto decides: what nobody has said
};

// The one description: names, groups, help with units.
std::vector<base::Field> fields_of(RunConfig& config);

inline constexpr const char* auto_plan = "auto";  // --plan: decided by each start for its ranks (auto_plan.h)

// Reads config.plan, when there is one, into the fields it decides, but for those that environment or flags have said:
// call it after them. InputError for a plan that is damaged or has problems.
void read_plan(std::vector<base::Field>& fields, RunConfig& config);

// Where nobody has said a model and config.init_from is there: checkpoint_model is that of the newest checkpoint in the
// run's folder, when it goes on by itself, else that of init_from (start_path.h). Call it last. InputError for one that
// is damaged, EnvironmentError for one that cannot be read.
void read_model_of_weights(const std::vector<base::Field>& fields, RunConfig& config);

// --print-config: base::print_fields, without the model where a checkpoint says it. Its name is none of a preset or a
// file, so that what is printed, read back, leaves it to the checkpoint again.
std::string print_config(std::vector<base::Field> fields, const RunConfig& config);

}  // namespace trainyard::engine
