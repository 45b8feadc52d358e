// RunConfig: the settings of a training run, with their defaults. One description gives flags, file keys and
// --print-config.
#pragma once

#include "libtrain/base/fields.h"
#include "libtrain/engine/learning_rate.h"
#include "libtrain/params/update_rule.h"
#include "libtrain/plan/parallel_layout.h"
#include "libtrain/plan/problems.h"
#include "libtrain/plan/spec/model_config.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::engine {

// What --plan auto decides at each start: what the user gave no value for.
struct Open {
  bool zero = true, recompute = true;
};

// What read_plan finds beside settings. Settings of the plan are settings of the run, unless the user gave others.
struct FromPlan {
  int ranks = 0;                           // 0: there is no plan
  std::optional<plan::ModelConfig> model;  // empty if --model is given elsewhere
  std::int64_t lanes = 0;                  // of the plan's model, whatever the run takes
  bool decides_lanes = false;              // `lanes` of the run come from `model`: the user gave none
  std::optional<plan::Plan> as_read;       // with its own predictions, which another build may have made
  std::vector<std::string> settings;       // names of the settings that come from the plan
  Open open{.zero = false, .recompute = false};
  std::string choice = {};  // on rank 0: what a search chose, as a sentence (auto_search.h)
};

// What a checkpoint decides that no setting says.
struct FromCheckpoint {
  std::optional<plan::ModelConfig> model;  // of an evaluation, or of --init-from without --model
  std::int64_t mask_token = -1;            // evaluation: the token that hid others in training
  std::int64_t lanes = 0;                  // lanes of the run's own checkpoints (restore.h); 0: there are none
  plan::LanesOf lanes_of;                  // source of the lanes of `model`, or of `lanes`
};

// The parallel layout as the user asked for it: sequence and threads may be 0, as their help says
// (plan/parallel_layout.h). Setup makes a definite plan of it.
struct RunConfig : plan::ParallelLayout, params::OptimizerSettings {
  RunConfig() { global_batch = 8, sequence = 0, threads = 0; }

  // run
  std::string model = "gpt2-micro";  // preset or TOML file
  std::int64_t lanes = 0;            // reduction lanes; 0: not given (from_plan, from_checkpoint)
  std::string adapter, adapter_on;   // plan::AdapterSettings
  double adapter_alpha = 0;
  std::string data;    // folders of token shards (data::sets_of)
  std::string output;  // run folder
  std::string plan;    // plan.json of partition-model, or auto_plan
  std::int64_t steps = 100;
  std::uint64_t seed = 1;
  std::string document_mask = "off";
  std::string objective = "auto";  // auto: follows from the model and the sets (engine/masking.h, tasks.h)
  double mask_rate = 0;            // share of the tokens that are hidden; 0: 0.15, or 0.35 of infilling
  std::string mask_words = "off";
  // parallelism and precision
  std::string device = "auto";        // cpu, cuda, or auto: a GPU where there is one
  std::string communicator = "auto";  // between GPUs: nccl, mpi (through host memory), or auto
  std::string machine = {};           // of a search of layouts (auto_search.h)
  std::string memory_limit;           // bytes of one rank, for example 4GB
  std::string host_memory;            // the same, of the machine of a GPU
  // optimizer
  double learning_rate = 1e-3;
  base::Amount start_learning_rate, final_learning_rate;  // percent: of learning_rate
  std::string schedule = "cosine";                        // schedule_text (learning_rate.h)
  base::Amount warmup_steps, decay_steps;                 // percent: of steps
  std::string decay_embeddings = "off";
  double clip = 1.0;
  std::string loss_scale = "auto";     // loss_scale_rule (loss_scale.h)
  std::string skip_outliers = "none";  // outlier_rule (outlier_steps.h)
  std::string groups;                  // parameter_groups (parameter_groups.h)
  double layer_decay = 1;
  // checkpoints
  std::int64_t save_every = 0;
  int keep = 3;
  std::string resume = "auto";
  std::string init_from;
  std::string change;  // comma-separated names of identity fields that a resume may change
  std::int64_t stop_after = 0;
  std::int64_t validate_every = 0;
  std::int64_t validation_sequences = 0;  // 0: RunSetup::validation_sequences has the default
  std::int64_t save_throttle = 0;         // bytes a second of background writing; 0: as fast as the disk takes it
  // monitoring
  std::string progress = "auto";
  double hang_timeout = 600;    // seconds
  double collective_delay = 0;  // seconds added to every collective, to see what overlap hides
  std::string trace;            // file (trace_file.h)
  std::string trace_steps;      // "3:6"; empty: all
  bool profile_step = false;    // fills RunResult::step_profile
  std::string offload_dir;      // comma-separated folders for what plan::Offload has on disk
  bool offload_auto = false;    // --offload auto: each start decides (auto_offload.h); `offload` is none
  bool recompute_auto = false;  // --recompute auto: the same (auto_plan.h)
  bool answers_only = false;    // only answers are learned
  double data_temperature = 0;  // weighs sets by size^(1 / X); 0: weights are given
  double max_epochs = 0;        // the most times that a set is read; 0: no limit
  double mask_span = 0;         // mean tokens of a hidden span, with an encoder; 0: 3, or 3.5 of infilling
  bool alternate_sets = false;  // all sequences of a step come from one set of a mixture
  FromPlan from_plan;
  FromCheckpoint from_checkpoint;
  std::vector<std::string> from_flags;  // names of settings that the command line gave (unread_settings.h)
};

// The one description: names, groups, help with units.
std::vector<base::Field> fields_of(RunConfig& config);

inline constexpr double most_mask_span = 64;      // as data::PoissonLengths
inline constexpr const char* auto_plan = "auto";  // value of --plan: each start decides for its ranks (auto_plan.h)

// Reads config.plan, if there is one, into the fields that it decides. Fields that the environment or flags have set
// stay: call this after them. InputError for a plan that is damaged or has problems.
void read_plan(std::vector<base::Field>& fields, RunConfig& config);

// Whether config.resume is the path of a checkpoint or a run.
bool resumes_named(const RunConfig& config);
// Returns whether the model is that of the checkpoint that config.init_from or config.resume names: the user gave no
// model.
bool has_model_of_weights(const std::vector<base::Field>& fields, const RunConfig& config);

// UsageError that names the given settings that the run's optimizer does not read, such as --beta1 of SGD. Call this
// after read_plan.
void require_settings_of_optimizer(const std::vector<base::Field>& fields, const RunConfig& config);

// The learning rates of the run, with every amount in its own unit: learning rates and steps. Samples of a ramp that
// counts tokens need config.sequence.
LearningRate learning_rate_of(const RunConfig& config);

// With --plan auto and --machine: the settings that a start searches (auto_search.h), because nothing gives them. Not a
// micro-batch and local accumulation, which may change results, and not what lies elsewhere, which --offload auto
// searches.
std::vector<std::string> searched_settings(std::vector<base::Field>& fields, const RunConfig& config);

// --print-config: base::print_fields, without the settings of other optimizers, and without the model if a checkpoint
// gives it. That model's name is no preset and no file. So the printed text, when read back, leaves the model to the
// checkpoint again.
std::string print_config(std::vector<base::Field> fields, const RunConfig& config);

}  // namespace trainyard::engine
