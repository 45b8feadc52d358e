// The description of a cut.
#include "libtrain/plan/cut.h"

#include "libtrain/base/error.h"
#include "libtrain/plan/ranges.h"

#include <fmt/format.h>

#include <utility>

namespace trainyard::plan {

const base::Choices<base::DType>& dtype_names() {
  static const base::Choices<base::DType> all{{base::name_of(base::DType::f32), base::DType::f32},
                                              {base::name_of(base::DType::bf16), base::DType::bf16}};
  return all;
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

std::string recomputed_text(Recompute recompute) {
  if (recompute == Recompute::none) return {};
  return recompute == Recompute::selective ? "norms and activations recomputed" : "layers recomputed";
}

std::vector<base::Field> fields_of(Cut& c) {
  base::Choices<Recompute> recompute;
  for (const auto r : recomputations) recompute.emplace_back(name_of(r), r);
  base::FieldVisitor v;
  v("global-batch", c.global_batch, "What", "sequences a step", ranges::global_batch);
  v("micro-batch", c.micro_batch, "What", "sequences a micro-batch", ranges::micro_batch);
  v("sequence", c.sequence, "What", "tokens a sequence; 0: the model's context", {0, ranges::sequence.high});
  v("zero", c.zero, "How", "ZeRO stage 0, 1, 2 or 3", ranges::zero);
  v("dtype", c.dtype, "How", "working dtype f32 or bf16", dtype_names());
  v("fold", c.fold, "How", "micro-batches added locally before a reduction", ranges::fold);
  v("reduction", c.reduction, "How", "ordered (equal bits) or fast (library)",
    base::Choices<Reduction>{{"ordered", Reduction::ordered}, {"fast", Reduction::fast}});
  v("recompute", c.recompute, "How", "made again: none, selective or layers", recompute);
  v("tensor", c.tensor, "How", "ranks that share every layer; divides lanes", ranges::tensor);
  v("sequence-parallel", c.sequence_parallel, "How", "they share rows of norms and residuals, too");
  v("expert-parallel", c.expert_parallel, "How", "data ranks that share out the experts", ranges::expert_parallel);
  v("expert-node", c.expert_node, "How", "of these so many a node: rows go there first", ranges::expert_node);
  v("expert-chunks", c.expert_chunks, "How", "runs of experts whose rows cross apart", ranges::expert_chunks);
  v("expert-buffer", c.expert_buffer, "How", "rows to a rank in a round; 0: 1.25 even shares", ranges::expert_buffer);
  v("pipeline", c.pipeline, "How", "stages of neighbouring layers", ranges::pipeline);
  v("pipeline-schedule", c.pipeline_schedule, "How", "naive gpipe 1f1b interleaved zero-bubble", schedule_names());
  v("virtual-stages", c.virtual_stages, "How", "chunks a stage has, for interleaved", ranges::virtual_stages);
  v("partition", c.partition, "How", "uniform parameters flops type:REGEX 0,3,6");
  v("layer-slots", c.layer_slots, "How", "layer units in flight", ranges::layer_slots);
  v("threads", c.threads, "How", "OpenMP team; 0: OMP_NUM_THREADS, or its share", {0, ranges::threads.high});
  auto fields = v.take();
  for (const char* name : {"tensor", "expert-parallel", "pipeline"}) {
    auto& degree = base::field_named(fields, name, "a cut");
    degree.set = [name, set = std::move(degree.set)](const std::string& text, const std::string& spelled) {
      if (text == "auto")
        throw base::UsageError(fmt::format("{} auto: it is not chosen automatically", spelled),
                               fmt::format("partition-model says what a model needs with --{} 1, 2, 4, and which of "
                                           "these fit --device-memory",
                                           name));
      set(text, spelled);
    };
  }
  return fields;
}

}  // namespace trainyard::plan
