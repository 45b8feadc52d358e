// ParallelLayout: all decisions about how a model is trained on ranks, apart from the ranks themselves. A plan has one,
// and so have the settings of a run. It is described once.
#pragma once

#include "libtrain/base/dtype.h"
#include "libtrain/base/fields.h"
#include "libtrain/plan/grid/batch.h"
#include "libtrain/plan/grid/micro_shape.h"
#include "libtrain/plan/schedule/pipeline.h"
#include "libtrain/plan/spec/master_format.h"
#include "libtrain/plan/spec/offload.h"
#include "libtrain/plan/spec/optimizer_kind.h"
#include "libtrain/plan/spec/recomputation.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::plan {

struct ParallelLayout {
  int zero = 0;
  std::int64_t micro_batch = 1, global_batch = 1;  // sequences
  std::int64_t sequence = 1;                       // tokens; in settings 0 means the model's context
  std::int64_t source_sequence =
      0;  // tokens of an encoder's sequence; 0: no encoder, in settings as many as `sequence`
  std::int64_t local_accumulation = 1;  // micro-batches added on a rank before a reduction
  Reduction reduction = Reduction::ordered;
  Recomputation recompute = {};
  base::DType dtype = base::DType::f32;
  int gathered_layers = 2;         // layers whose flat groups are gathered at once
  int threads = 1;                 // of each rank; in settings 0 means its share of the cores
  int tensor = 1;                  // tensor-parallel ranks, which share every layer
  bool sequence_parallel = false;  // these ranks also divide the rows of the hidden states
  int expert_parallel = 1;         // replicas with different experts of each layer (plan/spec/expert_config.h)
  int expert_ranks_per_node = 1;   // how many of these are neighbours on a node (plan/cost/expert_nodes.h)
  int expert_overlap_chunks = 1;   // runs of a rank's experts: rows of one run travel while another is computed
  std::int64_t expert_capacity_buffer = 0;  // rows of a dispatch round; 0: as plan/blocks/expert_rounds.h says
  int pipeline = 1;                         // pipeline stages
  PipelineSchedule pipeline_schedule = PipelineSchedule::one_f_one_b;
  int virtual_stages = 1;                       // in each pipeline stage
  std::string partition = "flops";              // where stages begin (plan/schedule/partition.h)
  std::string optimizer = default_optimizer;    // name of an OptimizerKind
  base::DType moment_dtype = base::DType::f32;  // of the optimizer's states: f32 or bf16
  BatchRamp batch_ramp = {};                    // how the batch grows to global_batch
  MasterFormat master = MasterFormat::f32;      // of weights in bf16
  Offload offload = {};                         // which states lie on disk
  AccumulationOrder accumulation_order = AccumulationOrder::automatic;
  base::DType gradient_sums = base::DType::f32;  // what the sums of a step are rounded to: f32 or bf16
  // Data-parallel ranks among which the weights of ZeRO 3 are sharded (plan/grid/zero_groups.h); 0: all; of_a_node: as
  // many as a node has, which the program that starts the ranks finds out.
  int zero_group = 0;
  // Data-parallel ranks of a node that add their gradients before nodes do (plan/grid/reduction_nodes.h); 1: all ranks
  // reduce at once; of_a_node: as above.
  int reduction_ranks_per_node = 1;
  static constexpr int of_a_node = -1;
  double ema = 0;              // decay of a moving average of the weights; 0: there is none
  double label_smoothing = 0;  // share of each target that all tokens get alike; 0: none
};

// Names, help texts with units, and ranges.
std::vector<base::Field> fields_of(ParallelLayout& layout);

const base::Choices<base::DType>& dtype_names();
std::map<std::string, std::string> dtype_spellings();  // other spellings of these names: "fp16" is "f16"
const base::Choices<base::DeviceKind>& device_names();
const base::Choices<PipelineSchedule>& schedule_names();  // the schedules that train can follow

}  // namespace trainyard::plan
