// The description of a run's settings.
#include "libtrain/engine/config.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/byte_size.h"
#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/system_error.h"
#include "libtrain/checkpoint/finder.h"
#include "libtrain/checkpoint/reader.h"
#include "libtrain/checkpoint/removed.h"
#include "libtrain/engine/learning_rate.h"
#include "libtrain/engine/run_folder.h"
#include "libtrain/engine/start_path.h"
#include "libtrain/plan/plan.h"
#include "libtrain/plan/ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace trainyard::engine {

namespace {

// What can be held in the numbers that are computed with: settings are 64-bit, AdamW is a sequence of f32 operations. A
// rate at which a run diverges is diagnosed, not forbidden.
constexpr base::Range<double> positive_f32{1e-37, 1e30}, f32_from_zero{0, 1e30}, decay_rate{0, 0.99999};
constexpr base::Range<std::int64_t> step_count{0, 1'000'000'000'000};

// Nobody has said a model, and there are weights that have one.
bool has_model_of_weights(const std::vector<base::Field>& fields, const RunConfig& c) {
  const auto model = std::find_if(fields.begin(), fields.end(), [](const auto& f) { return f.name == "model"; });
  return !c.init_from.empty() && model->source == base::from_default;
}

}  // namespace

std::vector<base::Field> fields_of(RunConfig& c) {
  namespace ranges = plan::ranges;
  base::FieldVisitor v;
  v("model", c.model, "What", "preset (below) or file (--help-model)");
  v("lanes", c.lanes, "What", "slices of shared sums; 0: the model's own", plan::ranges::lanes);
  v("data", c.data, "What", "folder of token shards (shard-data)");
  v("output", c.output, "What", "run folder: checkpoints, metrics, report");
  v("plan", c.plan, "What", "a plan.json, before flags; auto: fitting --zero");
  v("steps", c.steps, "What", "optimizer steps of the whole run", {1, step_count.high});
  v("seed", c.seed, "What", "of initial values, data order and dropout",
    {0, std::numeric_limits<std::uint64_t>::max()});
  v("document-mask", c.document_mask, "What", "on: tokens see only their own document; off",
    base::Words{{"off", "on"}});
  v("objective", c.objective, "What", "causal, masked, auto: as the model sees",
    base::Words{{"auto", "causal", "masked"}});
  v("mask-rate", c.mask_rate, "What", "of tokens that masked hides; 0: 0.15", {0, 1});
  v("mask-words", c.mask_words, "What", "on: masked hides whole words; off", base::Words{{"off", "on"}});
  v("device", c.device, "How", "cpu, cuda, auto: a GPU where there is one", base::Words{{"auto", "cpu", "cuda"}});
  v("communicator", c.communicator, "How", "between GPUs: nccl, mpi (by host) or auto",
    base::Words{{"auto", "nccl", "mpi"}});
  v("memory-limit", c.memory_limit, "How", "refuse to start when a rank needs more, e.g. 4GB", base::Bytes{});
  v("learning-rate", c.learning_rate, "Optimizer", "peak", positive_f32);
  v("start-learning-rate", c.start_learning_rate, "Optimizer", "that the warm-up rises from", f32_from_zero);
  v("final-learning-rate", c.final_learning_rate, "Optimizer", "that a decay ends with", f32_from_zero);
  v("schedule", c.schedule, "Optimizer", "constant linear cosine wsd* inverse-sqrt", base::Words{schedule_names()});
  v("warmup-steps", c.warmup_steps, "Optimizer", "linear warm-up", step_count);
  v("decay-steps", c.decay_steps, "Optimizer", "of linear, cosine and wsd*", step_count);
  v("beta1", c.beta1, "Optimizer", "AdamW", decay_rate);
  v("beta2", c.beta2, "Optimizer", "AdamW", decay_rate);
  v("epsilon", c.epsilon, "Optimizer", "AdamW", {1e-30, 1});
  v("weight-decay", c.weight_decay, "Optimizer", "AdamW, not on biases, norms and embeddings", {0, 1000});
  v("decay-embeddings", c.decay_embeddings, "Optimizer", "on: on embeddings, too; off", base::Words{{"off", "on"}});
  v("clip", c.clip, "Optimizer", "largest gradient norm; 0: no clipping", f32_from_zero);
  v("save-every", c.save_every, "Keeping", "steps between checkpoints; 0: only at the end", step_count);
  v("keep", c.keep, "Keeping", "checkpoints kept; 0: all", {0, 1'000'000});
  v("resume", c.resume, "Keeping", "auto: newest whole one; never; or a path");
  v("init-from", c.init_from, "Keeping", "checkpoint or run whose weights a new run takes");
  v("change", c.change, "Keeping", "identity fields that a resume may change: a,b,c");
  v("stop-after", c.stop_after, "Keeping", "save and exit 75 after this step; 0: never", step_count);
  v("validate-every", c.validate_every, "Keeping", "steps between validation losses; 0: never", step_count);
  v("validation-sequences", c.validation_sequences, "Keeping", "sequences of a validation", ranges::global_batch);
  v("save-throttle", c.save_throttle, "Keeping", "bytes/s of writing beside steps; 0: no limit", {0, base::most_bytes});
  v("progress", c.progress, "Watching", "auto, always or never", base::Words{{"auto", "always", "never"}});
  v("hang-timeout", c.hang_timeout, "Watching", "seconds a collective may be silent", {0.1, 1e7});
  v("collective-delay", c.collective_delay, "Watching", "seconds added to collectives, to test overlap", {0, 60});
  v("trace", c.trace, "Watching", "file of what each rank did when, for Perfetto");
  v("trace-steps", c.trace_steps, "Watching", "of these steps alone, e.g. 3:6");
  v("profile-step", c.profile_step, "Watching", "print where a step's time went, by kernel");
  auto fields = v.take();
  // Elsewhere the order of pipeline stages is a schedule, too.
  auto& rate = base::field_named(fields, "schedule", "a run");
  rate.set = [set = std::move(rate.set)](const std::string& text, const std::string& spelled) {
    for (const auto& [name, value] : plan::schedule_names())
      if (name == text)
        throw base::UsageError(
            fmt::format("{} {}: that is no schedule of the learning rate, but an order of stages", spelled, text),
            fmt::format("--pipeline-schedule {}", text));
    set(text, spelled);
  };
  // Those of the cut stand in their group before what a group ends with.
  for (auto& f : plan::fields_of(static_cast<plan::Cut&>(c))) {
    const auto before = std::find_if(fields.begin(), fields.end(), [&](const auto& g) {
      return g.name == (f.group == "What" ? "seed" : "memory-limit");
    });
    fields.insert(before, std::move(f));
  }
  return fields;
}

void read_plan(std::vector<base::Field>& fields, RunConfig& c) {
  if (c.plan.empty()) return;
  if (c.plan == auto_plan) {
    const auto open = [&](const char* name) {
      return base::field_named(fields, name, "--plan auto").source == base::from_default;
    };
    c.auto_zero = open("zero"), c.auto_recompute = open("recompute");
    return;
  }
  auto p = plan::plan_from_json(base::read_file(c.plan, base::largest_description), c.plan);
  if (p.gradient_dtype != base::DType::f32)
    throw base::InputError(
        fmt::format("{} plans {} gradients; train folds gradients in f32", c.plan, base::name_of(p.gradient_dtype)),
        "plan with --gradient-dtype f32");
  c.plan_as_read = p;
  const auto set = [&](const std::string& name, const std::string& value) {
    auto& field = base::field_named(fields, name, c.plan);
    if (field.source == base::from_environment || field.source == base::from_flag) return false;
    field.set(value, fmt::format("{}: {}", c.plan, name));
    field.source = base::from_plan;
    c.of_plan.push_back(name);
    return true;
  };
  auto cut = static_cast<plan::Cut&>(p);
  for (const auto& f : plan::fields_of(cut)) set(f.name, f.get());
  set("device", p.device == base::DeviceKind::cuda ? "cuda" : "cpu");
  if (set("model", p.model.name)) {
    c.plan_model = p.model;
    c.lanes_of_plan = set("lanes", fmt::format("{}", p.model.lanes));
  }
  c.plan_ranks = p.topology.world(), c.plan_lanes = p.model.lanes;
}

void read_model_of_weights(const std::vector<base::Field>& fields, RunConfig& c) {
  if (!has_model_of_weights(fields, c)) return;
  or_stop_unread(c, [&] {
    // A run that goes on needs the weights that it began with no more, so they may be gone. Which of its checkpoints is
    // taken is decided later (choose_start): all are of one model.
    std::vector<std::string> own;
    if (c.resume == "auto" && !c.output.empty())
      for (const auto& held : checkpoint::list(checkpoints_folder(c.output))) own.push_back(held.path);
    auto lanes = plan::Lanes::of_the_run;
    auto found = model_of_newest(own);
    if (!found && (c.resume == "auto" || c.resume == "never")) {
      lanes = plan::Lanes::open;
      found = checkpoint::looking_again({c.init_from}, [&] {
        const auto named = checkpoints_named("--init-from", c.init_from);
        return checkpoint::reading(named, [&] {
          auto newest = model_of_newest(named);
          if (!newest) checkpoint::read_state(named.front());  // says what is wrong with it
          return newest;
        });
      });
    }
    if (!found) return;
    c.checkpoint_model = found->model;
    c.lanes_of = {lanes, found->checkpoint};
  });
}

std::string print_config(std::vector<base::Field> fields, const RunConfig& c) {
  std::string above;
  const auto leave_out = [&](const char* name, const std::string& why) {
    std::erase_if(fields, [&](const auto& f) { return f.name == name; });
    above += fmt::format("# {}: {}\n", name, why);
  };
  if (has_model_of_weights(fields, c))
    leave_out("model", "that of the checkpoint of init-from" +
                           (c.checkpoint_model ? ", " + base::excerpt(c.checkpoint_model->name) : ""));
  if (c.auto_zero) leave_out("zero", "each start decides (plan = auto)");
  if (c.auto_recompute) leave_out("recompute", "each start decides (plan = auto)");
  return above + base::print_fields(fields);
}

}  // namespace trainyard::engine
