// Plan: how a model is laid out on ranks and what that costs, as data that train follows (plan/plan_json.h).
#pragma once

#include "libtrain/base/index.h"
#include "libtrain/plan/cost/memory.h"
#include "libtrain/plan/cost/traffic.h"
#include "libtrain/plan/grid/topology.h"
#include "libtrain/plan/parallel_layout.h"
#include "libtrain/plan/predicted_step.h"
#include "libtrain/plan/schedule/schedule.h"
#include "libtrain/plan/schedule/stages.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::plan {

// What each of the ranks [first_rank, last_rank] sends in one step. The same holds for `runs` runs of ranks of equal
// length, whose first ranks are `stride` apart. Ranks differ if the last accumulation step is uneven.
struct RankTraffic {
  int first_rank = 0, last_rank = 0;
  int runs = 1, stride = 0;
  std::vector<Traffic> operations;
  bool has(int rank) const {
    const int behind = rank - first_rank, length = last_rank - first_rank;
    return behind >= 0 && (runs == 1 ? behind <= length : behind / stride < runs && behind % stride <= length);
  }
  int end() const { return last_rank + (runs - 1) * stride + 1; }  // after the last rank of all runs
  bool operator==(const RankTraffic&) const = default;
};

// Of a rank: bytes that its files on disk have, and that a step reads from them and writes to them.
struct DiskBytes {
  std::int64_t space = 0, read = 0, written = 0;
  bool operator==(const DiskBytes&) const = default;
};

struct Plan : ParallelLayout {
  // decided, beside the ParallelLayout
  ModelConfig model;
  Topology topology = Topology({{Axis::data, 1}});
  base::DType gradient_dtype = base::DType::f32;
  base::DeviceKind device = base::DeviceKind::cpu;
  std::int64_t device_memory = 0;  // bytes of one rank; 0: not stated
  // predicted
  Stages stages;                                       // what --partition makes of the model
  std::int64_t parameters = 0, active_parameters = 0;  // active: parameters that a token passes
  MemoryBytes memory;                                  // of a rank of the stage that needs most
  std::vector<MemoryBytes> stage_memory;               // of a rank of each stage
  std::vector<RankTraffic> traffic;
  double flops = 0;    // of a step, summed over all ranks
  DiskBytes disk;      // of a rank of the stage that has most on disk, in the largest step
  LinkBytes link;      // of a GPU's rank of the stage that copies most, because of $offload, in the largest step
  PredictedStep step;  // only with a machine (plan/step_time.h)
  // Of a program that is predicted and not run, and therefore not in the plan's file.
  AttentionKernels attention = AttentionKernels::fused;

  Lengths lengths() const { return {sequence, source_sequence}; }
  // Of the largest step.
  BatchPlan batch() const {
    return {global_batch, micro_batch, local_accumulation, topology.size(Axis::data), batch_ramp.in_samples(sequence)};
  }
  // In a step that is divided like this, do all micro-batches pass a layer before the next layer? By itself they do
  // where weights lie elsewhere, and gradients whose sums would else be complete only in the last accumulation step.
  bool breadth_first(const BatchPlan& of) const {
    const bool helps = offload.parameters.place != Place::device ||
                       (offload.gradients.place != Place::device && zero >= 2 && batch().accumulation_steps() > 1);
    const bool by_itself = accumulation_order == AccumulationOrder::automatic && helps &&
                           (pipeline == 1 || pipeline_schedule == PipelineSchedule::gpipe);
    return (accumulation_order == AccumulationOrder::breadth || by_itself) && of.places() > 1;
  }
  int stage_of(int rank) const { return topology.coordinate(rank, Axis::pipe); }
  const MemoryBytes& memory_of(int rank) const { return base::at(stage_memory, stage_of(rank)); }
  // The first rank's share of each layer's experts. Other ranks have other experts, of the same sizes.
  ExpertShare experts() const {
    return {expert_parallel * tensor, 0, tensor, expert_overlap_chunks, expert_ranks_per_node};
  }
  // The parts refer to this plan. part_of_stage is the part of the stage's first rank; other ranks have other experts,
  // of the same sizes.
  ModelPart part_of_stage(int stage) const { return part_of(model, stages, stage).with_experts(experts()); }
  ModelPart part_of_rank(int rank) const {
    auto share = expert_share(topology, rank);
    share.chunks = expert_overlap_chunks;
    return part_of(model, stages, stage_of(rank)).with_experts(share);
  }
  StateShape states() const {
    return {zero,
            dtype,
            gradient_dtype,
            batch(),
            gathered_layers,
            topology,
            &optimizer_kind(optimizer, moment_dtype, ema > 0),
            master,
            offload,
            breadth_first(batch()),
            device,
            gradient_sums};
  }
  MicroShape micro() const {
    const bool apart = pipeline_schedule == PipelineSchedule::zero_bubble;
    return {{.batch = micro_batch, .sequence = sequence},
            {.dtype = dtype,
             .threads = threads,
             .device = device,
             .tensor = tensor,
             .sequence_parallel = sequence_parallel,
             .weight_gradients = apart ? WeightGradients::apart : WeightGradients::with_inputs,
             .experts = experts(),
             .expert_capacity_buffer = expert_capacity_buffer,
             .attention = attention,
             .label_smoothing = label_smoothing > 0},
            source_sequence};
  }
};

// A topology of `ranks` ranks for the layout. If their number does not fit, it has fewer axes; plan/problems.h refuses
// it then.
Topology topology_of(const ParallelLayout& layout, int ranks);
// The ranks of a node for Topology::with_experts; 1 if the layout's ranks are not whole nodes, which is refused later.
int expert_node_of(const ParallelLayout& layout);
// The ranks of a zero group for Topology::with_zero_groups; 1 if there are no such groups, or a layout that is refused
// later.
int zero_group_of(const ParallelLayout& layout, int data_ranks);
// The ranks of a node for Topology::with_reduction_nodes; 1 likewise.
int reduction_node_of(const ParallelLayout& layout, int data_ranks);

// The decisions of a plan that are single values, in the order of its file.
std::vector<base::Field> fields_of(Plan& plan);

// The stages that --partition makes of the model. UsageError as in partition().
Stages stages_of(const Plan& plan);

// What each layer of the model recomputes. Reads plan.stages.
std::vector<Recompute> recompute_of_layers(const Plan& plan);

// For each chunk of a stage: the micro-batches of a rank between forward and the end of backward at one time. A
// micro-batch is in flight longest in the stage's first chunk.
std::vector<int> slots_of_stage(const Plan& plan, int stage);

// How a stage works on a step that is divided as `batch` says.
Pipeline pipeline_of(const Plan& plan, int stage, const BatchPlan& batch);

// The actions of a rank in a step, by the plan's schedule: in the largest step, or in a step that is divided as `batch`
// says.
std::vector<Action> actions(const Plan& plan, int rank);
std::vector<Action> actions(const Plan& plan, int rank, const BatchPlan& batch);

// Memory of a rank of the stage, and of a rank of the stage that needs most. Both read decisions, and plan.stages.
MemoryBytes memory_of_stage(const Plan& plan, int stage);
MemoryBytes largest_memory(const Plan& plan);
// What a rank has on its GPU's host, of the stage that has most there. It may be another stage than that of
// largest_memory.
std::int64_t most_on_host(const Plan& plan);

// Every call of one rank in the largest step: of the groups of flat groups, then among the tensor-parallel ranks of its
// replica, then messages to and from other stages.
std::vector<SizedCalls> all_step_calls(const Plan& plan, int rank);
// What it sends in a step of `sequences`.
std::vector<Traffic> traffic_of_step(const Plan& plan, int rank, std::int64_t sequences);
// Calls of one rank in one validation over `sequences`.
std::vector<Traffic> all_validation_traffic(const Plan& plan, int rank, std::int64_t sequences);

// Fills everything predicted. The plan must be free of the problems that `decision_problems` names. Checks only what is
// cheap and could not be computed: std::logic_error for a plan without lanes or with lanes that tensor-parallel ranks
// cannot divide, with sizes or degrees below 1, with a ZeRO stage that does not exist, or with the topology of another
// layout.
void predict(Plan& plan);

// " in 2 pipeline stages (1f1b) of 4 replicas of 2 tensor-parallel ranks (4 lanes, sequence parallelism), experts over
// 4 ranks (2 a node)", to follow the number of ranks; "" if each rank is a replica.
std::string sharing_text(const Plan& plan);
// "global batch 16 to 512 by 16 over 9,766 samples, 512 from step 38 on; memory, traffic and FLOPs are those of 512";
// "" if the batch does not grow.
// A run goes on after `completed` steps, which have consumed `samples`.
std::string ramp_text(const Plan& plan, std::int64_t completed = 0, std::int64_t samples = 0);
// "512"; with an encoder "512 source and 114 target".
std::string lengths_text(const Plan& plan);
std::string schedule_text(const Plan& plan);  // "1f1b"; "one-stage" for one stage with the default schedule

}  // namespace trainyard::plan
