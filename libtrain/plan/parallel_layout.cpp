// The description of a parallel layout.
#include "libtrain/plan/parallel_layout.h"

#include "libtrain/base/error.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/plan/grid/ranges.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>

namespace trainyard::plan {

namespace {

constexpr const char *run = "Run", *how = "Parallelism and precision";  // groups of --help

}  // namespace

const base::Choices<base::DType>& dtype_names() {
  static const auto all = [] {
    base::Choices<base::DType> names;
    for (const auto& t : base::dtype_traits)
      if (t.trains) names.emplace_back(t.name, t.dtype);
    return names;
  }();
  return all;
}

std::map<std::string, std::string> dtype_spellings() {
  std::map<std::string, std::string> spellings{{"bfloat16", "bf16"}, {"float32", "f32"}, {"fp32", "f32"}};
  for (const auto& t : base::dtype_traits)
    for (const char* other : t.spellings)
      if (t.trains && other != nullptr) spellings.emplace(other, t.name);
  return spellings;
}

const base::Choices<base::DeviceKind>& device_names() {
  static const base::Choices<base::DeviceKind> all{{"cpu", base::DeviceKind::cpu}, {"cuda", base::DeviceKind::cuda}};
  return all;
}

const base::Choices<PipelineSchedule>& schedule_names() {
  static const base::Choices<PipelineSchedule> all{{"naive", PipelineSchedule::naive},
                                                   {"gpipe", PipelineSchedule::gpipe},
                                                   {"1f1b", PipelineSchedule::one_f_one_b},
                                                   {"interleaved", PipelineSchedule::interleaved},
                                                   {"zero-bubble", PipelineSchedule::zero_bubble}};
  return all;
}

std::vector<base::Field> fields_of(ParallelLayout& c) {
  using T = base::FieldTrait;
  base::FieldVisitor v;
  std::string offload = offload_text(c.offload), recompute = recomputation_text(c.recompute);
  v("global-batch", c.global_batch, run,
    "sequences in a step, over all ranks; a ramp is 16:512/10e6tokens (or samples)", ranges::global_batch);
  v.is({T::identity});
  v("micro-batch", c.micro_batch, run, "sequences in a pass of one rank", ranges::micro_batch);
  v.is({T::evaluation, T::identity, T::of_checkpoint});
  v("sequence", c.sequence, run, "tokens in a sequence; 0: the model's context", {0, ranges::sequence.high});
  v.is({T::evaluation, T::identity, T::of_checkpoint});
  v("source-sequence", c.source_sequence, run, "tokens of a source; 0: as in a sequence", {0, ranges::sequence.high});
  v.is({T::evaluation, T::identity, T::of_checkpoint, T::later_in_plans});
  v("zero", c.zero, how,
    "ZeRO stage: ranks shard nothing (0), optimizer states (1), gradients too (2), weights too (3)", ranges::zero);
  v.is({T::evaluation, T::free_on_resume});
  v("zero-group", c.zero_group, how, "weights of ZeRO 3 over N ranks, node or 0: all", ranges::zero_group);
  v.is({T::evaluation, T::free_on_resume, T::later_in_plans, T::divides_ranks});
  v("dtype", c.dtype, how, "number format of weights and activations: f32, or bf16 or f16 with f32 master weights",
    dtype_names());
  v.spelled(dtype_spellings());
  v.is({T::evaluation, T::free_on_resume, T::of_checkpoint});
  v("local-accumulation", c.local_accumulation, how,
    "micro-batches whose gradients a rank adds before they are reduced over ranks", ranges::local_accumulation);
  v.formerly("fold");
  v.is({T::identity});
  v("reduction", c.reduction, how,
    "order of sums over ranks. ordered: the same bits on any layout; fast: the library's",
    base::Choices<Reduction>{{"ordered", Reduction::ordered}, {"fast", Reduction::fast}});
  v.is({T::identity});
  v("reduction-ranks-per-node", c.reduction_ranks_per_node, how, "ranks in a node, or node: hierarchical sums",
    ranges::reduction_ranks_per_node);
  v.is({T::free_on_resume, T::later_in_plans, T::divides_ranks});
  v("recompute", recompute, how, "activation recomputation (checkpointing): none, selective, full, full:0.5, or auto");
  v.is({T::free_on_resume});
  v("tensor-parallel", c.tensor, how,
    base::text("tensor-parallel ranks, which hold slices of each layer; divides $lanes"), ranges::tensor);
  v.formerly("tensor", {"tp"});
  v.is({T::evaluation, T::free_on_resume, T::later_in_plans, T::divides_ranks});
  v("sequence-parallel", c.sequence_parallel, how, "ranks split tokens of norms and residuals");
  v.is({T::evaluation, T::free_on_resume, T::later_in_plans});
  v("expert-parallel", c.expert_parallel, how, "data-parallel ranks with different experts", ranges::expert_parallel);
  v.also({"ep"});
  v.is({T::evaluation, T::free_on_resume, T::later_in_plans, T::divides_ranks});
  v("expert-ranks-per-node", c.expert_ranks_per_node, how, "ranks in a node: hierarchical all-to-all",
    ranges::expert_ranks_per_node);
  v.formerly("expert-node");
  v.is({T::evaluation, T::later_in_plans, T::divides_ranks, T::of_held_experts});
  v("expert-overlap-chunks", c.expert_overlap_chunks, how, "groups of experts: all-to-all overlaps work",
    ranges::expert_overlap_chunks);
  v.formerly("expert-chunks");
  v.is({T::evaluation, T::later_in_plans, T::of_held_experts});
  v("expert-capacity-buffer", c.expert_capacity_buffer, how,
    "without a capacity: tokens sent to a rank in one dispatch round; "
    "0: 1.25 times an even load",
    ranges::expert_capacity_buffer);
  v.formerly("expert-buffer");
  v.is({T::evaluation, T::later_in_plans, T::of_held_experts});
  v("pipeline-parallel", c.pipeline, how, "pipeline stages, each with consecutive layers", ranges::pipeline);
  v.formerly("pipeline", {"pp"});
  v.is({T::evaluation, T::free_on_resume, T::later_in_plans, T::divides_ranks});
  v("pipeline-schedule", c.pipeline_schedule, how,
    "order of forward and backward passes: naive, gpipe, 1f1b, "
    "interleaved or zero-bubble",
    schedule_names());
  v.is({T::evaluation});
  v("virtual-stages", c.virtual_stages, how, "virtual stages of each stage, for interleaved", ranges::virtual_stages);
  v.is({T::evaluation, T::later_in_plans});
  v("partition", c.partition, how,
    "where stages begin: uniform, parameters, flops, type:REGEX, or first layers as 0,3,6");
  v.is({T::evaluation, T::later_in_plans});
  v("accumulation-order", c.accumulation_order, how,
    "depth: by micro-batches; breadth: by layers; auto: breadth if offload needs it, else depth",
    base::Choices<AccumulationOrder>{{"auto", AccumulationOrder::automatic},
                                     {"depth", AccumulationOrder::depth},
                                     {"breadth", AccumulationOrder::breadth}});
  v.is({T::free_on_resume, T::later_in_plans});
  v("gathered-layers", c.gathered_layers, how, "layers gathered at once: ZeRO 3's prefetch", ranges::gathered_layers);
  v.formerly("layer-slots");
  v.is({T::evaluation});
  v("optimizer", c.optimizer, "Optimizer", "optimizer: " + base::listed(optimizer_names(), "or"),
    base::Words{optimizer_names()});
  v.is({T::later_in_plans});
  v("moment-dtype", c.moment_dtype, "Optimizer", "states of the optimizer: f32 or bf16",
    base::Choices<base::DType>{{"f32", base::DType::f32}, {"bf16", base::DType::bf16}});
  v.spelled(dtype_spellings());
  v.is({T::free_on_resume, T::later_in_plans});
  v("ema", c.ema, "Optimizer", "decay of an average of the weights; 0: none", {0, 0.9999999});
  v.is({T::identity, T::later_in_plans});
  v("label-smoothing", c.label_smoothing, "Optimizer", "share of targets for all tokens, as 0.1", {0, 0.9999999});
  v.is({T::identity, T::later_in_plans});
  v("master", c.master, "Optimizer", "masters of bf16 weights: f32 or remainder",
    base::Choices<MasterFormat>{{"f32", MasterFormat::f32}, {"remainder", MasterFormat::remainder}});
  v.is({T::free_on_resume, T::later_in_plans});
  v("gradient-sums", c.gradient_sums, "Optimizer", "sums of a step's gradients: f32 or bf16",
    base::Choices<base::DType>{{"f32", base::DType::f32}, {"bf16", base::DType::bf16}});
  v.spelled(dtype_spellings());
  v.is({T::free_on_resume, T::later_in_plans});
  v("offload", offload, how, "elsewhere: optimizer=host,parameters=disk:0.5; auto: the least that fits");
  v.is({T::free_on_resume, T::later_in_plans});
  v("threads", c.threads, how, "OpenMP threads of a rank; 0: OMP_NUM_THREADS, else its share of the cores",
    {0, ranges::threads.high});
  v.is({T::per_rank, T::evaluation, T::free_on_resume});
  auto fields = v.take();
  auto& global = base::field_named(fields, "global-batch", "a layout");
  global.kind = base::FieldKind::integer_or_text;
  global.get = [&c] { return global_batch_text(GlobalBatch{c.global_batch, c.batch_ramp}); };
  global.set = [&c, set = std::move(global.set)](const std::string& text, const std::string& spelled) {
    if (text.find(':') == std::string::npos) {
      set(text, spelled);
      c.batch_ramp = {};
      return;
    }
    const auto read = ramp_of_text(text, spelled);
    c.global_batch = read.end, c.batch_ramp = read.ramp;
  };
  const auto may_be_node = [&](const char* name, int& ranks) {
    auto& field = base::field_named(fields, name, "a layout");
    field.kind = base::FieldKind::integer_or_text;
    field.get = [&c, &ranks] { return ranks == c.of_a_node ? "node" : fmt::format("{}", ranks); };
    field.set = [&c, &ranks, set = std::move(field.set)](const std::string& text, const std::string& spelled) {
      if (text == "node") ranks = c.of_a_node;
      else try {
          set(text, spelled);
        } catch (const base::UsageError& e) {
          throw base::UsageError(std::string(e.what()) + "; it may also be node", e.hint());
        }
    };
  };
  may_be_node("zero-group", c.zero_group);
  may_be_node("reduction-ranks-per-node", c.reduction_ranks_per_node);
  auto& offloaded = base::field_named(fields, "offload", "a layout");
  offloaded.get = [&c] { return offload_text(c.offload); };
  offloaded.set = [&c](const std::string& text, const std::string& spelled) {
    c.offload = offload_of_text(text, spelled);
  };
  auto& recomputed = base::field_named(fields, "recompute", "a layout");
  recomputed.former_words = {{"full", "layers"}};
  recomputed.get = [&c] { return recomputation_text(c.recompute); };
  recomputed.set = [&c](const std::string& text, const std::string& spelled) {
    c.recompute = recomputation_of_text(text, spelled);
  };
  for (const char* name : {"tensor-parallel", "expert-parallel", "pipeline-parallel"}) {
    auto& degree = base::field_named(fields, name, "a layout");
    degree.set = [name, set = std::move(degree.set)](const std::string& text, const std::string& spelled) {
      if (text == "auto")
        throw base::UsageError(fmt::format("{} auto: it is not chosen automatically", spelled),
                               base::text("partition-model says what a model needs with {} 1, 2, 4, and which of "
                                          "these fit $device-memory",
                                          base::setting_name(name)));
      set(text, spelled);
    };
  }
  return fields;
}

}  // namespace trainyard::plan
