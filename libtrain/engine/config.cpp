// The description of a run's settings.
#include "libtrain/engine/config.h"

#include "libtrain/base/error.h"
#include "libtrain/base/read_file.h"
#include "libtrain/io/atomic_file.h"
#include "libtrain/plan/plan.h"

#include <fmt/format.h>

namespace trainyard::engine {

std::vector<base::Field> fields_of(RunConfig& c) {
  base::FieldVisitor v;
  v("model", c.model, "What", "preset or TOML file of the model");
  v("data", c.data, "What", "folder of token shards (shard-data)");
  v("output", c.output, "What", "run folder: checkpoints, metrics, report");
  v("plan", c.plan, "What", "plan.json of partition-model: its values come before flags");
  v("steps", c.steps, "What", "optimizer steps of the whole run");
  v("global-batch", c.global_batch, "What", "sequences a step");
  v("micro-batch", c.micro_batch, "What", "sequences a micro-batch");
  v("sequence", c.sequence, "What", "tokens a sequence; 0: the model's context");
  v("seed", c.seed, "What", "of initial values, data order and dropout");
  v("document-mask", c.document_mask, "What", "on: tokens see only their own document; off");
  v("device", c.device, "How", "cpu, cuda, or auto: a GPU where this build and machine have one");
  v("communicator", c.communicator, "How", "between GPUs: nccl, mpi (through host memory), or auto: nccl with a GPU for each rank");
  v("zero", c.zero, "How", "ZeRO stage 0, 1, 2 or 3");
  v("dtype", c.dtype, "How", "working dtype f32 or bf16");
  v("fold", c.fold, "How", "micro-batches added locally before a reduction");
  v("reduction", c.reduction, "How", "ordered (equal bits on every cut) or fast (the library's order)");
  v("recompute", c.recompute, "How", "none, or layers: save layer inputs only and run forward again");
  v("layer-slots", c.layer_slots, "How", "layer units in flight (gathered weights, unit gradients)");
  v("threads", c.threads, "How", "OpenMP team of a rank; 0: the cores it may use, shared among the ranks of the node");
  v("memory-limit", c.memory_limit, "How", "refuse to start when a rank is predicted to need more, e.g. 4GB");
  v("learning-rate", c.learning_rate, "Optimizer", "peak");
  v("final-learning-rate", c.final_learning_rate, "Optimizer", "at the last step");
  v("schedule", c.schedule, "Optimizer", "constant, linear, cosine, wsd, inverse-sqrt");
  v("warmup-steps", c.warmup_steps, "Optimizer", "linear warm-up");
  v("decay-steps", c.decay_steps, "Optimizer", "of wsd");
  v("beta1", c.beta1, "Optimizer", "AdamW");
  v("beta2", c.beta2, "Optimizer", "AdamW");
  v("epsilon", c.epsilon, "Optimizer", "AdamW");
  v("weight-decay", c.weight_decay, "Optimizer", "AdamW, not on biases, norms and embeddings");
  v("clip", c.clip, "Optimizer", "largest gradient norm; 0: no clipping");
  v("save-every", c.save_every, "Keeping", "steps between checkpoints; 0: only at the end");
  v("keep", c.keep, "Keeping", "checkpoints kept");
  v("resume", c.resume, "Keeping", "auto: the newest whole checkpoint of the run; never; or a path");
  v("init-from", c.init_from, "Keeping", "checkpoint whose weights start a new run");
  v("change", c.change, "Keeping", "identity fields that a resume may change, comma-separated");
  v("stop-after", c.stop_after, "Keeping", "stop with a checkpoint and exit 75 after this step of the run; 0: never");
  v("validate-every", c.validate_every, "Keeping", "steps between validation losses; 0: never");
  v("validation-sequences", c.validation_sequences, "Keeping", "sequences of a validation");
  v("save-throttle", c.save_throttle, "Keeping", "bytes a second of background writing; 0: no limit");
  v("progress", c.progress, "Watching", "auto, always or never");
  v("hang-timeout", c.hang_timeout, "Watching", "seconds before a silent collective ends the job");
  v("collective-delay", c.collective_delay, "Watching", "seconds added to every collective, to see what overlap hides");
  return v.take();
}

void read_plan(std::vector<base::Field>& fields, RunConfig& c) {
  if (c.plan.empty()) return;
  const auto p = plan::plan_from_json(io::read_file(c.plan, base::largest_description), c.plan);
  const auto set = [&](const char* name, const std::string& value) {
    auto& field = base::field_named(fields, name, c.plan);
    field.set(value);
    field.source = "plan";
  };
  set("zero", fmt::format("{}", p.zero));
  set("micro-batch", fmt::format("{}", p.micro_batch));
  set("global-batch", fmt::format("{}", p.global_batch));
  set("sequence", fmt::format("{}", p.sequence));
  set("fold", fmt::format("{}", p.fold));
  set("threads", fmt::format("{}", p.threads));
  set("layer-slots", fmt::format("{}", p.layer_slots));
  set("dtype", base::name_of(p.dtype));
  set("reduction", p.reduction == plan::Reduction::fast ? "fast" : "ordered");
  set("recompute", p.recompute == plan::Recompute::layers ? "layers" : "none");
  set("model", p.model.name);
  set("device", p.device == base::DeviceKind::cuda ? "cuda" : "cpu");
  c.plan_model = p.model;
  c.plan_ranks = p.topology.world();
  if (p.gradient_dtype != base::DType::f32)
    throw base::InputError(fmt::format("{} plans {} gradients; train folds gradients in f32", c.plan, base::name_of(p.gradient_dtype)), "plan with --gradient-dtype f32");
}

}  // namespace trainyard::engine
