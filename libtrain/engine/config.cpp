// The description of a run's settings.
#include "libtrain/engine/config.h"

#include "libtrain/base/byte_size.h"
#include "libtrain/base/environment.h"
#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/data/mixture.h"
#include "libtrain/engine/loss_scale.h"
#include "libtrain/engine/outlier_steps.h"
#include "libtrain/engine/parameter_groups.h"
#include "libtrain/plan/auto_setting.h"
#include "libtrain/plan/grid/ranges.h"
#include "libtrain/plan/plan.h"
#include "libtrain/plan/plan_json.h"
#include "libtrain/plan/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

namespace trainyard::engine {

namespace {

// Ranges that the numbers of the computation can hold: settings are 64-bit, an update is a sequence of f32 operations.
// A rate at which a run diverges is diagnosed, not forbidden.
constexpr base::Range<double> positive_f32{1e-37, 1e30}, f32_from_zero{0, 1e30}, decay_rate{0, 0.99999};
constexpr base::Range<std::int64_t> step_count{0, 1'000'000'000'000};

// True for a setting that only other optimizers read.
bool is_of_another(const base::Field& f, const plan::OptimizerKind& optimizer) {
  return plan::is_of_an_optimizer(f.name) && !optimizer.reads(f.name);
}

}  // namespace

bool resumes_named(const RunConfig& c) { return c.resume != "auto" && c.resume != "never"; }

bool has_model_of_weights(const std::vector<base::Field>& fields, const RunConfig& c) {
  const auto model = std::find_if(fields.begin(), fields.end(), [](const auto& f) { return f.name == "model"; });
  return (!c.init_from.empty() || resumes_named(c)) && model->source == base::from_default;
}

namespace {

// Checks a text where it is given, so that the message of `parse`, which begins with the setting's name, names the file
// or the variable instead.
void check_when_set(std::vector<base::Field>& fields, const std::string& name,
                    std::function<void(const std::string& text)> parse) {
  auto& field = base::field_named(fields, name, "a run");
  field.set = [name, parse = std::move(parse), set = std::move(field.set)](const std::string& text,
                                                                           const std::string& spelled) {
    try {
      parse(text);
    } catch (const base::UsageError& e) {
      const std::string message = e.what();
      throw base::UsageError(spelled + message.substr(base::setting_name(name).size()), e.hint());
    }
    set(text, spelled);
  };
}

}  // namespace

std::vector<base::Field> fields_of(RunConfig& c) {
  namespace ranges = plan::ranges;
  constexpr const char *run = "Run", *how = "Parallelism and precision", *optimizer = "Optimizer",
                       *checkpoints = "Checkpoints", *monitoring = "Monitoring";
  using T = base::FieldTrait;
  base::FieldVisitor v;
  v("model", c.model, run, base::text("preset, or a TOML file ($help-model)"));
  v.is({T::per_rank, T::evaluation, T::of_checkpoint});
  v("lanes", c.lanes, run, "reduction lanes of sums; 0: the model's own", plan::ranges::lanes);
  v("adapter", c.adapter, run, "lora:16 trains adapters beside frozen weights", base::MaybeEmpty{});
  v("adapter-on", c.adapter_on, run, "layers with adapters: q,k,v,o,gate,up,down [q,v]", base::MaybeEmpty{});
  v("adapter-alpha", c.adapter_alpha, run, "outputs times X / rank; 0: the model's, or 1", {0, 1e6});
  v("data", c.data, run, "folder of shard-data; a mixture: a:0.7,b:0.3");
  v.is({T::per_rank, T::evaluation, T::of_checkpoint});
  v("data-temperature", c.data_temperature, run, "weights of sets: size^(1/X); 0: as given", {0, 1000});
  v("alternate-sets", c.alternate_sets, run, "a step reads one set of a mixture");
  v.is({T::identity});
  v("max-epochs", c.max_epochs, run, "most times that a run reads a set; 0: no limit", {0, 1e9});
  v.is({T::free_on_resume});
  v("output", c.output, run, "run folder: checkpoints, metrics, report");
  v("plan", c.plan, run,
    base::text("plan.json of partition-model; flags override it. auto: the lowest $zero that fits, or by $machine"));
  v.is({T::per_rank, T::evaluation});
  v("steps", c.steps, run, "optimizer steps of the run, resumes included", {1, step_count.high});
  v.is({T::identity});
  v("seed", c.seed, run, "seed of weights, data order and dropout", {0, std::numeric_limits<std::uint64_t>::max()});
  v.is({T::identity});
  v("document-mask", c.document_mask, run, "on: a token attends to its own document only", base::Words{{"off", "on"}});
  v.is({T::evaluation, T::identity, T::of_checkpoint});
  v("answers-only", c.answers_only, run, "only what the set marks as answers");
  v.is({T::evaluation, T::identity, T::of_checkpoint});
  v("objective", c.objective, run,
    "what is learned: causal, masked; with an encoder: spans, infilling, infilling-permuted",
    base::Words{{"auto", "causal", "masked", "spans", "infilling", "infilling-permuted"}});
  v.is({T::evaluation, T::identity, T::of_checkpoint});
  v("mask-rate", c.mask_rate, run, "share that is hidden; 0: 0.15, infilling 0.35", {0, 1});
  v.is({T::evaluation, T::identity, T::of_checkpoint});
  v("mask-span", c.mask_span, run, "mean tokens of a span; 0: 3, infilling 3.5", {0, most_mask_span});
  v.is({T::evaluation, T::identity, T::of_checkpoint});
  v("mask-words", c.mask_words, run, "masked objective: on hides whole words", base::Words{{"off", "on"}});
  v.is({T::evaluation, T::identity, T::of_checkpoint});
  v("device", c.device, how, "cpu, cuda, or auto: a GPU if there is one", base::Words{{"auto", "cpu", "cuda"}});
  v.is({T::evaluation, T::free_on_resume});
  v("communicator", c.communicator, how, "between GPUs: nccl, mpi, or auto", base::Words{{"auto", "nccl", "mpi"}});
  v.is({T::evaluation});
  v("offload-dir", c.offload_dir, how, base::text("folders for $offload; /a:3,/b:1 shares 3 to 1"));
  v.is({T::per_rank});
  v("machine", c.machine, how, base::text("$plan auto: fastest there (name, TOML, profile)"));
  v("memory-limit", c.memory_limit, how, "refuse to start if a rank needs more, such as 4GB", base::Bytes{});
  v.is({T::per_rank, T::evaluation});
  v("host-memory", c.host_memory, how, "the same, of the memory of a GPU's host", base::Bytes{});
  v.is({T::per_rank});
  v("learning-rate", c.learning_rate, optimizer, "peak learning rate", positive_f32);
  v.also({"lr"});
  v.is({T::identity});
  v("start-learning-rate", c.start_learning_rate, optimizer, "rate at the start of warm-up, or 4% of peak",
    base::Amounts{f32_from_zero});
  v.is({T::identity});
  v("final-learning-rate", c.final_learning_rate, optimizer, "rate at the end of decay, or 10% of peak",
    base::Amounts{f32_from_zero});
  v.is({T::identity});
  v("lr-schedule", c.schedule, optimizer,
    "learning rate over the steps: constant, linear, cosine, polynomial:POWER, one-cycle, "
    "cosine-restarts:STEPS,FACTOR, "
    "inverse-sqrt, wsd (warm-up, stable, decay), wsd-cosine, wsd-exponential or wsd-minus-sqrt",
    base::Words{schedule_names()});
  v.formerly("schedule");
  v.is({T::identity});
  constexpr base::Amounts steps{{0, static_cast<double>(step_count.high)}, true, true};
  v("warmup-steps", c.warmup_steps, optimizer, base::text("steps of warm-up; 2%: of $steps; 9000samples"), steps);
  v.is({T::identity});
  v("decay-steps", c.decay_steps, optimizer, "steps of decay, or 20%, or 9000samples; 0: as the schedule says", steps);
  v.is({T::identity});
  v("beta1", c.beta1, optimizer, "Adam, LAMB, Lion, Muon: first moment's decay", decay_rate);
  v("beta2", c.beta2, optimizer, "the same: decay of the second moment", decay_rate);
  v("epsilon", c.epsilon, optimizer, "added to sqrt(second moment)", {1e-30, 1});
  v("momentum", c.momentum, optimizer, "SGD, Muon: b = momentum * b + gradient", decay_rate);
  v("nesterov", c.nesterov, optimizer, "SGD, Muon: a step is gradient + momentum * b",
    base::Choices<bool>{{"off", false}, {"on", true}});
  v("beta2-decay", c.beta2_decay, optimizer, "Adafactor: in step t, beta2 is 1 - t^-X", {0.1, 2});
  v("scale-parameter", c.scale_parameter, optimizer, "Adafactor: steps grow with a weight's size",
    base::Choices<bool>{{"off", false}, {"on", true}});
  v("weight-decay", c.weight_decay, optimizer,
    "weight decay, of all but biases, norms and embeddings; Adam and SGD add it to gradients", {0, 1000});
  v("decay-embeddings", c.decay_embeddings, optimizer, "on: weight decay of embeddings, too",
    base::Words{{"off", "on"}});
  v.is({T::identity});
  v("clip", c.clip, optimizer, "largest norm of all gradients; 0: no clipping", f32_from_zero);
  v.is({T::identity});
  v("loss-scale", c.loss_scale, optimizer,
    "factor of gradients against underflow: dynamic:65536,2000,2 (first, window, hysteresis), static:N, none; "
    "auto: dynamic for fp16");
  v.is({T::free_on_resume});
  v("skip-outliers", c.skip_outliers, optimizer,
    "skip a step far above the median of the last ones: norm:10,loss:2 (factors), window:128; none");
  v.is({T::identity});
  v("group", c.groups, optimizer,
    "parameters by name: 'PATTERN:learning-rate-scale=X:weight-decay=X' or 'PATTERN:frozen'; may be repeated",
    base::MaybeEmpty{});
  v.is({T::identity});
  v("layer-decay", c.layer_decay, optimizer, "a layer's rate is X times that of the next", {1e-3, 1});
  v.is({T::identity});
  v("save-every", c.save_every, checkpoints, "steps between checkpoints; 0: one at the end", step_count);
  v.is({T::free_on_resume});
  v("keep", c.keep, checkpoints, "newest checkpoints that are kept; 0: all", {0, 1'000'000});
  v.is({T::free_on_resume});
  v("resume", c.resume, checkpoints,
    "auto: go on from the newest whole checkpoint; never; or the path of a checkpoint");
  v("init-from", c.init_from, checkpoints, "checkpoint or run whose weights a run begins with");
  v("change", c.change, checkpoints, "settings that this resume may change, as a,b,c");
  v("stop-after", c.stop_after, checkpoints,
    "save after this step and end with exit code 75 (0 if it is done already); 0: never", step_count);
  v("validate-every", c.validate_every, checkpoints, "steps between validation losses; 0: never", step_count);
  v("validation-sequences", c.validation_sequences, checkpoints, "sequences in a validation; 0: 64, or fewer",
    {0, ranges::global_batch.high});
  v("save-throttle", c.save_throttle, checkpoints,
    "most bytes a second that a save writes while steps go on; 0: no limit", {0, base::most_bytes});
  v.is({T::free_on_resume});
  v("progress", c.progress, monitoring, "progress lines: auto, always or never",
    base::Words{{"auto", "always", "never"}});
  v.is({T::per_rank, T::evaluation});
  v("hang-timeout", c.hang_timeout, monitoring, "seconds without progress until exit 6", {0.1, 1e7});
  v.is({T::evaluation});
  v("collective-delay", c.collective_delay, monitoring, "seconds added to collectives, to test overlap", {0, 60});
  v.is({T::evaluation});
  v("trace", c.trace, monitoring, "file for a trace: what each rank did when, for Perfetto and inspect --timeline");
  v("trace-steps", c.trace_steps, monitoring, "steps to trace, for example 3:6; not given: all");
  v("profile-step", c.profile_step, monitoring, "print where a step's time went, by kernel");
  auto fields = v.take();
  // Other trainers call the order of pipeline stages a schedule, too.
  auto& rate = base::field_named(fields, "lr-schedule", "a run");
  rate.set = [&c, set = std::move(rate.set)](const std::string& text, const std::string& spelled) {
    for (const auto& [name, value] : plan::schedule_names())
      if (name == text)
        throw base::UsageError(
            fmt::format("{} {}: that is a pipeline schedule, not a learning-rate schedule", spelled, text),
            base::text("$pipeline-schedule {}", text));
    const auto colon = text.find(':');
    set(text.substr(0, colon), spelled);
    c.schedule =
        schedule_text(schedule_of(colon == std::string::npos ? c.schedule : c.schedule + text.substr(colon), spelled));
  };
  base::field_named(fields, "data", "a run").joined = data::joined_sets;
  auto& groups = base::field_named(fields, "group", "a run");
  groups.joined = joined_groups;
  groups.tables = group_of_tables;
  check_when_set(fields, "loss-scale", [](const auto& text) { loss_scale_rule(text, base::DType::f32); });
  check_when_set(fields, "skip-outliers", [](const auto& text) { outlier_rule(text); });
  check_when_set(fields, "group", [](const auto& text) { parameter_groups(text); });
  // Fields of the parallel layout come before `seed` in the group Run, before `learning-rate` in the optimizer's, and
  // before `memory-limit` in the other group.
  for (auto& f : plan::fields_of(static_cast<plan::ParallelLayout&>(c))) {
    const auto* next = f.group == run ? "seed" : f.group == optimizer ? "learning-rate" : "memory-limit";
    const auto before = std::find_if(fields.begin(), fields.end(), [&](const auto& g) { return g.name == next; });
    fields.insert(before, std::move(f));
  }
  plan::let_be_auto(fields, "offload", c.offload_auto);
  plan::let_be_auto(fields, "recompute", c.recompute_auto);
  return fields;
}

void read_plan(std::vector<base::Field>& fields, RunConfig& c) {
  if (c.plan.empty()) return;
  if (c.plan == auto_plan) {
    const auto is_open = [&](const char* name) {
      return base::field_named(fields, name, base::text("$plan auto")).source == base::from_default;
    };
    c.from_plan.open = {.zero = is_open("zero"), .recompute = is_open("recompute")};
    return;
  }
  auto p = plan::plan_from_json(base::read_file(c.plan, base::largest_description), c.plan);
  if (p.gradient_dtype != base::DType::f32)
    throw base::InputError(
        fmt::format("{} plans {} gradients; train adds gradients in f32", c.plan, base::name_of(p.gradient_dtype)),
        base::text("plan with $gradient-dtype f32"));
  c.from_plan.as_read = p;
  const auto set = [&](const std::string& name, const std::string& value, const char* key = nullptr) {
    auto& field = base::field_named(fields, name, c.plan);
    if (field.source == base::from_environment || field.source == base::from_flag) return false;
    field.set(value, fmt::format("{}: {}", c.plan, key == nullptr ? name : key));
    field.source = base::from_plan;
    c.from_plan.settings.push_back(name);
    return true;
  };
  auto layout = static_cast<plan::ParallelLayout&>(p);
  for (const auto& f : plan::fields_of(layout)) set(f.name, f.get());
  const std::string device = p.device == base::DeviceKind::cuda ? "cuda" : "cpu";
  set("device", device);
  if (p.device_memory > 0 && p.device_memory < base::least_memory)
    throw base::InputError(
        fmt::format("{}: device_memory {} is less than {} bytes", c.plan, p.device_memory, base::least_memory),
        "0 is no limit; partition-model writes what a rank has");
  if (p.device_memory > 0 && c.memory_limit.empty() && (c.device == device || c.device == "auto"))
    set("memory-limit", fmt::format("{}", p.device_memory), "device_memory");
  if (set("model", p.model.name)) {
    c.from_plan.model = p.model;
    c.from_plan.decides_lanes = set("lanes", fmt::format("{}", p.model.lanes));
  }
  c.from_plan.ranks = p.topology.world(), c.from_plan.lanes = p.model.lanes;
}

namespace {

// Where the user finds the value that is to go.
std::string how_to_leave_out(const base::Field& f) {
  if (f.source == base::from_environment) return fmt::format("unset {}", base::variable_of(f.name));
  const auto name = base::setting_name(f.name);
  return f.source == base::from_flag ? fmt::format("leave {} out", name)
                                     : fmt::format("leave {} out of {}", f.name, f.source);
}

}  // namespace

void require_settings_of_optimizer(const std::vector<base::Field>& fields, const RunConfig& c) {
  const auto& kind = plan::optimizer_kind(c.optimizer);
  base::Complaints wrong;
  for (const auto& f : fields) {
    if (f.source == base::from_default || !is_of_another(f, kind)) continue;
    std::vector<std::string> readers;
    for (const auto& name : plan::optimizer_names())
      if (plan::optimizer_kind(name).reads(f.name)) readers.push_back(name);
    const auto name = base::setting_name(f.name);
    const auto usual = std::find(readers.begin(), readers.end(), plan::default_optimizer);
    const auto other = usual == readers.end() ? readers.front() : *usual;
    wrong.add(base::text("{} is a setting of {}, and $optimizer is {}", name, base::listed(readers, "and"), kind.name),
              base::text("{}, or $optimizer {}", how_to_leave_out(f), other));
  }
  wrong.raise();
}

namespace {

// Learning rates: percent of the peak.
double rate_of(const base::Amount& amount, double peak) {
  return amount.unit == base::Amount::Unit::percent ? peak * amount.number / 100 : amount.number;
}

// The first steps that consume so many samples together.
std::int64_t steps_of_samples(double samples, const RunConfig& c) {
  const plan::BatchSizes sizes({c.global_batch, c.batch_ramp.in_samples(std::max<std::int64_t>(1, c.sequence))});
  std::int64_t low = 0, high = step_count.high;
  while (low < high) {
    const auto middle = low + (high - low) / 2;
    if (sizes.within(middle, static_cast<std::int64_t>(samples) - 1)) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Steps that hold so much: the next whole number, unless only rounding is above the one before.
std::int64_t steps_of(const base::Amount& amount, const RunConfig& c) {
  const auto up = [](double steps) { return static_cast<std::int64_t>(std::ceil(steps * (1 - 1e-15))); };
  switch (amount.unit) {
    case base::Amount::Unit::percent: return up(static_cast<double>(c.steps) * amount.number / 100);
    case base::Amount::Unit::samples: return steps_of_samples(amount.number, c);
    case base::Amount::Unit::own: break;
  }
  return static_cast<std::int64_t>(amount.number);
}

}  // namespace

LearningRate learning_rate_of(const RunConfig& c) {
  auto rate = schedule_of(c.schedule);
  rate.peak = c.learning_rate;
  rate.start = rate_of(c.start_learning_rate, c.learning_rate);
  rate.final = rate_of(c.final_learning_rate, c.learning_rate);
  rate.warmup_steps = steps_of(c.warmup_steps, c), rate.decay_steps = steps_of(c.decay_steps, c);
  rate.total_steps = c.steps;
  return rate;
}

std::vector<std::string> searched_settings(std::vector<base::Field>& fields, const RunConfig& c) {
  std::vector<std::string> out;
  if (c.plan != auto_plan || c.machine.empty()) return out;
  const auto kept = {"micro-batch", "local-accumulation", "offload"};
  for (const auto& setting : plan::search_settings())
    if (std::none_of(kept.begin(), kept.end(), [&](std::string_view name) { return name == setting.name; }) &&
        base::field_named(fields, setting.name, "settings").source == base::from_default)
      out.emplace_back(setting.name);
  return out;
}

std::string print_config(std::vector<base::Field> fields, const RunConfig& c) {
  std::string above;
  const auto searched = searched_settings(fields, c);
  const auto leave_out = [&](const char* name, const std::string& why) {
    if (std::erase_if(fields, [&](const auto& f) { return f.name == name; }) > 0)
      above += fmt::format("# {}: {}\n", name, why);
  };
  if (has_model_of_weights(fields, c))
    leave_out("model",
              fmt::format("the model of the checkpoint that {} names", resumes_named(c) ? "resume" : "init-from") +
                  (c.from_checkpoint.model ? ", " + base::excerpt(c.from_checkpoint.model->name) : ""));
  if (c.from_plan.open.zero) leave_out("zero", "each start decides (plan = auto)");
  std::erase_if(fields, [&](const auto& f) { return is_of_another(f, plan::optimizer_kind(c.optimizer)); });
  if (c.from_plan.open.recompute) leave_out("recompute", "each start decides (plan = auto)");
  for (const auto& name : searched)
    leave_out(name.c_str(), fmt::format("each start searches (plan = auto, machine = {})", base::one_line(c.machine)));
  return above + base::print_fields(fields);
}

}  // namespace trainyard::engine
