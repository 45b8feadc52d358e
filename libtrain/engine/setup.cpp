// From settings to a definite run.
#include "libtrain/engine/setup.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/byte_size.h"
#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/log.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/engine/identity.h"
#include "libtrain/engine/identity_json.h"
#include "libtrain/engine/masking.h"
#include "libtrain/engine/offload.h"
#include "libtrain/engine/trace_file.h"
#include "libtrain/io/layout_file.h"
#include "libtrain/plan/data_use.h"
#include "libtrain/plan/model_file/adapter_setting.h"
#include "libtrain/plan/model_file/load_model.h"
#include "libtrain/plan/model_file/model_problems.h"
#include "libtrain/plan/prediction.h"
#include "libtrain/plan/problems.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/lanes.h"
#include "libtrain/plan/spec/limits.h"
#include "libtrain/plan/spec/objective.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

namespace trainyard::engine {

namespace {

base::DeviceKind device_kind(const RunConfig& c) {
  return c.device == "cuda" ? base::DeviceKind::cuda : base::DeviceKind::cpu;
}

plan::ModelConfig named_model(const RunConfig& c) {
  auto model = c.from_checkpoint.model ? *c.from_checkpoint.model
               : c.from_plan.model     ? *c.from_plan.model
                                       : plan::load_model(c.model, io::read_layout_file);
  const auto was = model.adapter;
  plan::take_adapter({c.adapter, c.adapter_on, c.adapter_alpha}, model);
  const auto& from = c.from_checkpoint;
  const bool begins = from.model && from.lanes_of.lanes == plan::Lanes::open;
  if (begins && was.rank > 0 && (was.rank != model.adapter.rank || was.on != model.adapter.on))
    throw base::UsageError(
        base::text("{} has adapters of rank {} on {}, and $adapter and $adapter-on say rank {} on {}",
                   from.lanes_of.checkpoint, was.rank, fmt::join(was.on, ", "), model.adapter.rank,
                   fmt::join(model.adapter.on, ", ")),
        base::text("leave $adapter and $adapter-on out to train these adapters on; or merge them into their weights "
                   "first (reshard-checkpoint --merge {} MERGED), and begin with MERGED",
                   from.lanes_of.checkpoint));
  return model;
}

// InputError if a model has other tokens than the data, or if a plan was made for another vocabulary: its sizes would
// be the sizes of another run.
void take_vocabulary(const RunConfig& c, const TokensOfModel& tokens, plan::ModelConfig& model) {
  if (!c.from_checkpoint.model && c.from_plan.model) {
    auto most = model;
    // A plan leaves room for a mask token, or for sentinels.
    most.vocabulary = tokens.vocabulary + (plan::has_encoder(model) ? plan::usual_sentinels
                                           : tokens.mask_token < 0  ? 0
                                                                    : 1);
    // Rows up to the next multiple of 128 are stored anyway.
    if (model.vocabulary < tokens.vocabulary || model.vocabulary > most.stored_vocabulary())
      throw base::InputError(
          fmt::format("plan {} is for a vocabulary of {}, {}", c.plan, model.vocabulary, tokens.text),
          base::text("plan again with partition-model --vocabulary {} (or $data, which reads it from the shards); if "
                     "the larger vocabulary is meant, name the model's file with $model",
                     tokens.vocabulary));
    return;
  }
  if (model.vocabulary == 0) model.vocabulary = tokens.vocabulary;
  if (model.vocabulary < tokens.vocabulary)
    throw base::InputError(
        fmt::format("model {} has a vocabulary of {}, {}",
                    c.from_checkpoint.model ? base::excerpt(model.name) : c.model, model.vocabulary, tokens.text),
        c.from_checkpoint.model
            ? "make the shards with the tokenizer of that model, and end documents with a token that it has "
              "(shard-data --end-of-document)"
            : fmt::format("leave the vocabulary out of the model: it comes from the shards{}",
                          tokens.mask_token < 0 ? "" : fmt::format("; or give {}", tokens.vocabulary)));
}

// How many sequences a validation has. Without --validation-sequences: whole micro-batches of what is there, at most 64
// sequences or one micro-batch.
std::int64_t validation_sequences_of(const RunConfig& c, const RunSet& set, const SetReading& reading) {
  constexpr std::int64_t usual = 64;
  if (c.validate_every == 0 || !has_split(set, set.index.validation)) return 0;
  const auto there = set.validation_use.windows;
  if (c.validation_sequences > there)
    throw base::InputError(
        base::text("the validation split of {} holds {} sequences, $validation-sequences asks for {}", text_of(set),
                   there, c.validation_sequences),
        base::text("lower $validation-sequences, or make shards with a larger $validation"));
  if (c.validation_sequences > 0) return c.validation_sequences;
  if (there == 0)
    throw base::InputError(set.task == Task::pairs
                               ? fmt::format("the validation split of {} holds no pair that fits", text_of(set))
                               : fmt::format("the validation split of {} holds no window of {} tokens", text_of(set),
                                             tokens_of_text(set, reading) + 1),
                           base::text("a shorter $sequence, shards with a larger $validation, or no $validate-every"));
  const auto micro_batches = std::min(there, std::max(usual, c.micro_batch)) / c.micro_batch;
  if (micro_batches == 0)
    throw base::InputError(
        base::text("the validation split of {} holds {} sequences, and $micro-batch is {}", text_of(set), there,
                   c.micro_batch),
        base::text("lower $micro-batch, make shards with a larger $validation, or leave out $validate-every"));
  return micro_batches * c.micro_batch;
}

// Whether the model must be known to tell the steps of the warm-up: a ramp in tokens has samples of its sequence.
bool warms_up_by_tokens(const RunConfig& c) {
  return c.sequence == 0 && c.batch_ramp.grows() && c.batch_ramp.unit == plan::BatchRamp::Unit::tokens &&
         c.warmup_steps.unit == base::Amount::Unit::samples;
}

// Does `text` name the setting, and not only a longer word that has its name in it?
bool names_setting(const std::string& text, const std::string& name) {
  const auto spelled = base::setting_name(name);
  const auto continues = [](char c) { return c == '-' || (c >= 'a' && c <= 'z'); };
  for (auto at = text.find(spelled); at != std::string::npos; at = text.find(spelled, at + 1)) {
    const auto end = at + spelled.size();
    if ((at == 0 || !continues(text[at - 1])) && (end == text.size() || !continues(text[end]))) return true;
  }
  return false;
}

// The problems of a schedule. Where one names a number that the user gave as percent or samples, it says so.
void add_problems(const LearningRate& rate, const RunConfig& c, base::Complaints& wrong) {
  for (auto& problem : problems(rate)) {
    auto message = std::move(problem.message);
    const auto said = message;
    const auto explain = [&](const char* name, const base::Amount& amount, auto value) {
      if (amount.unit != base::Amount::Unit::own && names_setting(said, name))
        message += fmt::format("; {} {} is {}", base::setting_name(name), base::text_of(amount), value);
    };
    explain("warmup-steps", c.warmup_steps, rate.warmup_steps);
    explain("decay-steps", c.decay_steps, rate.decay_steps);
    explain("start-learning-rate", c.start_learning_rate, rate.start);
    explain("final-learning-rate", c.final_learning_rate, rate.final);
    wrong.add(std::move(message), std::move(problem.hint));
  }
}

// Checks settings against one another, which the description of each alone cannot do. Reads nothing.
void check_together(const RunConfig& c, int ranks, base::Complaints& wrong) {
  if (c.data.empty())
    wrong.add(base::text("$data is missing"), base::text("name the folder that shard-data made: $data FOLDER"));
  if (c.output.empty())
    wrong.add(base::text("$output is missing"), base::text("name a folder for the run: $output FOLDER"));
  if (c.from_plan.ranks > 0 && c.from_plan.ranks != ranks)
    wrong.add(fmt::format("plan {} is for {} ranks, this job has {}", c.plan, c.from_plan.ranks, ranks),
              fmt::format("ask for as many, or make another plan with partition-model --ranks {}", ranks));
  if (c.decay_embeddings == "on" && c.weight_decay == 0)
    wrong.add(base::text("$decay-embeddings on means nothing where $weight-decay is 0"),
              base::text("leave $decay-embeddings out, or $weight-decay 0.01"));
  if (c.communicator == "nccl" && c.device == "cpu")
    wrong.add(base::text("$communicator nccl needs $device cuda"),
              base::text("$device cuda, or leave $communicator out"));
  const auto micro = std::max<std::int64_t>(1, c.micro_batch);
  if (c.validate_every > 0 && c.validation_sequences % micro != 0)
    wrong.add(base::text("$validation-sequences {} must be a multiple of $micro-batch {}", c.validation_sequences,
                         c.micro_batch),
              base::text("$validation-sequences {}", (c.validation_sequences / micro + 1) * micro));
  if (!c.init_from.empty() && resumes_named(c))
    wrong.add(base::text("$init-from starts a new run, and $resume PATH continues one: they do not go together"),
              "leave one of them out");
  if (!c.trace_steps.empty() && c.trace.empty())
    wrong.add(base::text("$trace-steps needs $trace"), base::text("add $trace FILE, or leave $trace-steps out"));
  wrong.attempt([&] { trace_steps(c.trace_steps); });
  wrong.attempt([&] { loss_scale_rule(c.loss_scale, c.dtype); });
  wrong.attempt([&] { outlier_rule(c.skip_outliers); });
  wrong.attempt([&] { parameter_groups(c.groups); });
  if (c.profile_step && c.device == "cuda")
    wrong.add(base::text("$profile-step times kernels on a CPU: a call of a GPU kernel returns before the kernel ends"),
              base::text("$device cpu; for a GPU use $trace, or NVIDIA's profiler"));
  for (const auto& [name, decay] :
       {std::pair("beta1", c.beta1), std::pair("beta2", c.beta2), std::pair("momentum", c.momentum)})
    if (base::is_narrow(c.moment_dtype) && plan::optimizer_kind(c.optimizer).reads(name) &&
        decay > plan::most_decay_of_bf16_states)
      wrong.add(
          base::text("{} {} is too near 1 for $moment-dtype bf16: an average in bf16 could not fall",
                     base::setting_name(name), decay),
          base::text("at most {} {}, or $moment-dtype f32", base::setting_name(name), plan::most_decay_of_bf16_states));
  if (c.batch_ramp.grows() && c.decay_steps.unit == base::Amount::Unit::samples)
    wrong.add(base::text("$decay-steps {} has no fixed number of steps while $global-batch grows",
                         base::text_of(c.decay_steps)),
              base::text("$decay-steps in steps, or in percent of $steps"));
  if (!warms_up_by_tokens(c)) add_problems(learning_rate_of(c), c, wrong);
}

// Decides the reduction lanes, which belong to the numerics of a run, and returns where they come from. The first of
// these counts: --lanes or the model's file; the lanes that the run has, even if a new plan has others; the plan; the
// model's default. A model that cannot have the lanes of the run has another shape, which choose_start will report.
plan::LanesOf decide_lanes(const RunConfig& c, plan::ModelConfig& model) {
  const bool lanes_are_given = c.lanes > 0 && !c.from_plan.decides_lanes;
  if (lanes_are_given) {
    model.lanes = c.lanes;
  } else if (c.from_checkpoint.lanes > 0 && (c.from_plan.model || model.lanes == 0)) {
    auto of_run = model;
    of_run.lanes = c.from_checkpoint.lanes;
    if (plan::problems(of_run).empty()) {
      model = std::move(of_run);
      return c.from_checkpoint.lanes_of;
    }
  }
  if (model.lanes == 0) model.lanes = plan::default_lanes(model, device_kind(c));
  return c.from_checkpoint.model && !lanes_are_given ? c.from_checkpoint.lanes_of : plan::LanesOf();
}

// Bytes that a rank may use; 0: no limit is given.
std::int64_t limit_of(const RunConfig& c) {
  return c.memory_limit.empty() ? 0 : base::parse_bytes(c.memory_limit, base::setting_name("memory-limit"));
}

// Makes the parallel layout definite, so that what partition-model refuses, and nothing else, is refused here.
plan::Plan plan_of(const RunConfig& c, plan::ModelConfig model, int ranks, int threads) {
  plan::Plan p;
  const plan::ParallelLayout& layout = c;
  static_cast<plan::ParallelLayout&>(p) = layout;
  p.model = std::move(model);
  p.topology = plan::topology_of(layout, ranks);
  if (p.sequence == 0) p.sequence = p.model.context;
  if (p.source_sequence == 0 && plan::has_encoder(p.model)) p.source_sequence = p.sequence;
  p.threads = threads;
  p.device = device_kind(c);
  p.device_memory = limit_of(c);
  return p;
}

// Throws the problems. The hint says that flags override a plan's file, or that another plan may help. It names the
// plan's settings among the problems, because the user did not type them.
void refuse(const std::vector<plan::Problem>& problems, base::ExitCode code, const RunConfig& c) {
  if (problems.empty()) return;
  auto [message, hint] = plan::as_one(problems);
  if (c.from_plan.ranks > 0) {
    std::string given;
    for (const auto& name : c.from_plan.settings)
      if (std::any_of(problems.begin(), problems.end(), [&](const auto& p) { return names_setting(p.message, name); }))
        given += (given.empty() ? "" : ", ") + base::setting_name(name);
    hint += fmt::format("{}{}; or make another plan with partition-model", hint.empty() ? "" : "; ",
                        given.empty() ? fmt::format("flags override {}", c.plan)
                                      : fmt::format("{} sets {}, and flags override it", c.plan, given));
  }
  throw base::Error(code, message, hint);
}

std::vector<plan::OffloadFolder> offload_folders(const RunConfig& c, const plan::Plan& p) {
  auto folders = plan::offload_folders(c.offload_dir, base::setting_name("offload-dir"));
  if (!p.offload.uses(plan::Place::disk)) return {};
  if (c.offload_dir.empty())
    throw base::UsageError(base::text("$offload {} has no folder", plan::offload_text(p.offload)),
                           base::text("name folders on local disks: $offload-dir /local/nvme,/scratch/me"));
  require_several_folders(folders);
  return folders;
}

void predict_within_limit(RunSetup& s) {
  plan::predict(s.plan);
  refuse(plan::memory_problems(s.plan, "memory-limit"), base::ExitCode::input_refused, s.config);
  const auto& host = s.config.host_memory;
  refuse(
      plan::host_memory_problems(s.plan, host.empty() ? 0 : base::parse_bytes(host, base::setting_name("host-memory"))),
      base::ExitCode::input_refused, s.config);
}

}  // namespace

void warn_of_edited_plan(const RunSetup& setup) {
  const auto& c = setup.config;
  if (!c.from_plan.as_read) return;
  if (const auto edited = plan::edited_text(*c.from_plan.as_read, c.plan); !edited.empty())
    base::log_warning("{}", edited);
}

void require_output_beside_data(const RunConfig& c) {
  std::error_code error;
  const auto is_a_set = [&] {
    for (const auto& set : data::sets_of(c.data, base::setting_name("data")))
      if (std::filesystem::equivalent(set.folder, c.output, error)) return true;
    return base::file_size(c.output + "/index.json") >= 0;
  };
  if (c.output.empty() || !is_a_set()) return;
  throw base::UsageError(base::text("$output {} is the folder of a shard set", c.output),
                         "choose another folder for the run");
}

void require_counters(const plan::ModelConfig& model, const RunConfig& c, std::int64_t step,
                      std::int64_t samples_seen) {
  if ((!plan::drops_rows(model) && !plan::draws_for_gates(model)) || step >= c.steps) return;
  const auto ramp = c.batch_ramp.in_samples(c.sequence == 0 ? model.context : c.sequence);
  if (plan::BatchSizes({c.global_batch, ramp}, step, samples_seen).within(c.steps, plan::most_samples_with_dropout))
    return;
  throw base::UsageError(
      base::text("{}$steps {} of $global-batch {} are more than {} samples, and dropout has random numbers for no more",
                 step == 0 ? "" : fmt::format("after step {} and {} samples, ", step, samples_seen), c.steps,
                 plan::global_batch_text({c.global_batch, c.batch_ramp}), plan::most_samples_with_dropout),
      base::text("fewer $steps, or a model without dropout on the embedding and the branches"));
}

SetReading reading_of(const RunSetup& s) {
  return {.sequence = s.plan.sequence,
          .source_sequence = s.plan.source_sequence,
          .mask = s.mask,
          .answers_only = s.config.answers_only,
          .seed = s.config.seed,
          .masking = s.masking,
          .denoising = s.denoising,
          .start = s.plan.model.decoder_start >= 0 ? s.plan.model.decoder_start : s.index.end_of_document};
}

RunSetup make_setup(const RunConfig& asked, int ranks, int threads) {
  RunSetup s;
  s.config = asked;
  const auto& c = s.config;
  base::Complaints wrong;
  base::check_fields(fields_of(s.config), wrong);
  if (wrong.list().empty()) check_together(c, ranks, wrong);
  wrong.raise();
  s.sets = read_sets(c);
  s.index = s.sets.front().index;
  const auto validates = [](const RunSet& set) { return has_split(set, set.index.validation); };
  if (c.validate_every > 0 && std::none_of(s.sets.begin(), s.sets.end(), validates))
    throw base::InputError(
        base::text("{} has no validation split, which $validate-every needs", base::one_line(c.data)),
        base::text("make the shards with shard-data --validation 0.1, or of a text with few empty lines with "
                   "shard-data --split lines; or leave out $validate-every"));
  auto model = named_model(c);
  require_objective(c, model);
  take_tasks(c, model, s.sets);
  require_answers(c, model, s.sets);
  auto of_first = c;  // all sets have its tokens
  of_first.data = s.sets.front().folder;
  const auto tokens = tokens_of_model(of_first, s.index, model, main_task(s.sets));
  take_vocabulary(c, tokens, model);
  s.lanes = decide_lanes(c, model);
  s.plan = plan_of(c, model, ranks, threads);
  require_packed(c, s.plan.sequence, s.sets);
  refuse(plan::decision_problems(s.plan, s.lanes), base::ExitCode::usage, c);
  s.step.offload_folders = offload_folders(c, s.plan);
  auto of_sequence = c;
  of_sequence.sequence = s.plan.sequence;
  s.step.learning_rate = learning_rate_of(of_sequence);
  add_problems(s.step.learning_rate, c, wrong);
  wrong.raise();
  static_cast<params::OptimizerSettings&>(s.step) = static_cast<const params::OptimizerSettings&>(c);
  s.step.loss_scale = loss_scale_rule(c.loss_scale, s.plan.dtype);
  if (s.step.loss_scale.scales()) s.step.non_finite = NonFinitePolicy::skip;
  s.step.outliers = outlier_rule(c.skip_outliers);
  s.step.average_decay = c.ema;
  s.step.parameters = {parameter_groups(c.groups), c.layer_decay};
  require_matches(s.step.parameters, s.plan.model);
  s.step.clip = c.clip, s.step.seed = c.seed, s.step.decay_embeddings = c.decay_embeddings == "on";
  s.mask = c.document_mask == "on" ? data::DocumentMask::on : data::DocumentMask::off;
  if (corrupts(main_task(s.sets))) s.denoising = denoising_of(of_first, s.index, main_task(s.sets));
  else if (tokens.mask_token >= 0) s.masking = masking_of(of_first, s.index, tokens.mask_token);
  const auto reading = reading_of(s);
  if (!is_evaluation(c)) take_uses(s.sets, reading, c.validate_every > 0);  // an evaluation counts the split it reads
  for (auto& set : s.sets) {
    set.validation_sequences = validation_sequences_of(c, set, reading);
    s.validation_sequences += set.validation_sequences;
  }
  s.identity = identity_of(c, s.plan, s.index, s.masking, main_task(s.sets));
  if (tokens.mask_token >= 0) s.identity["mask_token"] = tokens.mask_token;
  s.identity["data"] = data_identity(s.sets);
  s.step.losses_of_sequences = s.sets.size() > 1;
  require_known_fields(s.identity, split_names(c.change));
  predict_within_limit(s);
  return s;
}

plan::Plan plan_to_search(const RunConfig& asked, int ranks, int threads) {
  auto c = asked;
  c.memory_limit.clear();
  base::Complaints wrong;
  base::check_fields(fields_of(c), wrong);
  if (wrong.list().empty()) check_together(c, ranks, wrong);
  wrong.raise();
  auto sets = read_sets(c);
  auto model = named_model(c);
  require_objective(c, model);
  take_tasks(c, model, sets);
  auto of_first = c;
  of_first.data = sets.front().folder;
  take_vocabulary(c, tokens_of_model(of_first, sets.front().index, model, main_task(sets)), model);
  decide_lanes(c, model);
  return plan_of(c, model, ranks, threads);
}

RunSetup with_layout(RunSetup s, const RunConfig& config) {
  s.config.zero = config.zero, s.config.recompute = config.recompute, s.config.memory_limit = config.memory_limit;
  s.plan.zero = config.zero, s.plan.recompute = config.recompute;
  s.config.offload = s.plan.offload = config.offload, s.config.offload_auto = config.offload_auto;
  s.config.recompute_auto = config.recompute_auto;
  s.plan.device_memory = limit_of(config);
  refuse(plan::decision_problems(s.plan, s.lanes), base::ExitCode::usage, config);
  s.step.offload_folders = offload_folders(config, s.plan);
  predict_within_limit(s);
  return s;
}

}  // namespace trainyard::engine
