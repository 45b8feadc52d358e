// StepTime: how long a step of a plan takes on a machine, and what takes it.
#pragma once

#include "libtrain/plan/machine/machine.h"
#include "libtrain/plan/measured_blocks.h"
#include "libtrain/plan/plan.h"
#include "libtrain/plan/schedule/simulate.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace trainyard::plan {

// What other programs do differently, and no plan says. The defaults are what train does.
struct Execution {
  AttentionKernels attention = AttentionKernels::fused;
  bool overlap = true;               // gathers and reductions go on beside passes
  bool whole_recomputation = false;  // full recomputation repeats a layer's last product, too, which nothing reads
  bool rings = false;  // sums go in rings, those of tensor-parallel ranks in the activations' dtype; a flat group is
                       // sent in one call
};
// The words of --assume: unfused-attention, no-overlap, whole-recomputation, rings. UsageError for other words.
Execution execution_of_text(const std::string& text, const std::string& spelled);

// Of a rank of the stage that computes longest. The parts add up to `seconds`.
struct StepTime {
  double seconds = 0;
  int stage = 0;
  double products = 0, attention = 0, kernels = 0;  // matrix products; fused attention; what only moves bytes
  double tensor = 0, experts = 0;                   // collectives inside of layers
  double idle = 0;                                  // waiting for other stages, and messages
  double data = 0;                                  // gathers and reductions that nothing hides
  double update = 0;                                // of the optimizer, where nothing hides it
  double moving = 0;                                // of what lies elsewhere, where nothing hides it
};

// The parts of a StepTime, in the order of tables: keys in files, names for people.
struct StepTimePart {
  const char* key;
  const char* name;
  double StepTime::*seconds;
};
inline constexpr std::array step_time_parts = {
    StepTimePart{"products", "matrix products", &StepTime::products},
    StepTimePart{"attention", "fused attention", &StepTime::attention},
    StepTimePart{"kernels", "other kernels", &StepTime::kernels},
    StepTimePart{"tensor_parallel", "tensor-parallel calls", &StepTime::tensor},
    StepTimePart{"expert_parallel", "expert-parallel calls", &StepTime::experts},
    StepTimePart{"idle", "waiting for stages", &StepTime::idle},
    StepTimePart{"data_parallel", "data-parallel calls", &StepTime::data},
    StepTimePart{"update", "optimizer", &StepTime::update},
    StepTimePart{"offload", "offload", &StepTime::moving}};

// Predicts step times of plans of one model on one machine, and remembers what blocks take. Not thread-safe.
//
// Kernels and collectives of a rank run one after the other. The action lists of all stages are simulated with these
// times (plan/schedule/simulate.h). Gathers of weights, reductions of gradients, and what lies elsewhere overlap with
// passes as far as the engine's order lets them.
class StepTimer {
 public:
  // The model may be a part of a plan that lives shorter.
  StepTimer(ModelConfig model, Machine machine, Execution execution = {});
  const Machine& machine() const { return machine_; }

  // plan.stages is set; nothing else predicted is read. InputError, if the machine lacks a rate that the plan needs.
  StepTime time(const Plan& plan);
  // The same InputError, before anything is timed. It knows nothing of rates that $offload needs.
  void require_rates(const Plan& plan) const;
  // No step of the plan is shorter. at_least takes a fraction of the time. passes is nearer: what the passes of all
  // stages take, with the waiting for one another.
  double at_least(const Plan& plan);
  double passes(const Plan& plan);
  // A validation over so many sequences: forward passes alone, with the gathers of weights as in a step.
  double validation(const Plan& plan, std::int64_t sequences);
  // The passes of all micro-batches on all stages. It ends where only the calls, the update and the moves at the end of
  // time() follow. Takes time and memory in proportion to micro-batches times parts of plan.stages.
  Simulated run(const Plan& plan);

 private:
  // Of one micro-batch in one block on one rank, in two sums of the same seconds: by pass, and by what takes them.
  struct BlockSeconds {
    double forward = 0, inputs = 0, weights = 0;
    double products = 0, attention = 0, kernels = 0, tensor = 0, experts = 0;
    double all() const { return forward + inputs + weights; }
    void add(const BlockSeconds& other, double times = 1);
  };
  using OfRecomputations = std::array<BlockSeconds, recomputations.size()>;
  // tensor, sequence_parallel, micro-batch, expert-parallel, ranks a node, overlap chunks, weight gradients apart,
  // whether a rank adds gradients to sums
  using ShapeKey = std::tuple<int, bool, std::int64_t, int, int, int, bool, bool>;
  static ShapeKey key_of(const Plan& plan, const Machine& machine);

  const std::vector<OfRecomputations>& blocks(const Plan& plan);  // of each kind of block, in this plan
  std::vector<BlockSeconds> parts(const Plan& plan);              // of each part of plan.stages
  BlockSeconds block_seconds(const Plan& plan, const Segment& segment, Recompute recompute) const;
  // Of a block as the machine measured it; nullopt: it did not.
  struct MeasuredPasses {
    double forward = 0, all = 0;
    std::optional<double> weights;  // weight gradients apart
  };
  std::optional<MeasuredPasses> measured(const Plan& plan, const Segment& segment, Recompute recompute,
                                         BlockCalls calls) const;
  void take_measured(const Plan& plan, const Segment& segment, Recompute recompute, BlockSeconds& block) const;
  void take_measured_calls(const Plan& plan, const Segment& segment, Recompute recompute, BlockSeconds& block) const;
  void add_sums(const Plan& plan, const Segment& segment, BlockSeconds& block) const;
  BlockSeconds computing(const MicroShape& shape, const Segment& segment, Recompute recompute) const;
  // Of a step's calls, what comes before the first forward of the first layer, and behind its last backward.
  struct Edges {
    double first = 0, last = 0;
  };
  Edges edges(const Plan& plan);
  double exposed_data(const Plan& plan, int stage, double forward, double backward, double passes);
  double run_seconds(const Plan& plan, const std::vector<BlockSeconds>& parts);
  double message(const Plan& plan) const;  // seconds, from stage to stage
  double run_stages(const Plan& plan, const std::vector<BlockSeconds>& parts);
  Simulated simulated(const Plan& plan, const std::vector<BlockSeconds>& parts, std::int64_t micros) const;

  ModelConfig model_;
  Machine machine_;
  Execution execution_;
  std::vector<Segment> kinds_;        // one block of each kind of block, with the model as it sees it
  std::vector<std::size_t> kind_of_;  // for each item of the model
  std::map<ShapeKey, std::vector<OfRecomputations>> known_;
  // By what else the stages' lists depend on: the order, boundaries, recomputation, micro-batches, ranks of a stage.
  using RunKey = std::tuple<ShapeKey, PipelineSchedule, Boundaries, double, double, std::int64_t, int>;
  std::map<RunKey, double> runs_;
  base::DType dtype_ = base::DType::f32;  // of what is known
  Lengths lengths_ = 0;
};

// Predictions are intervals: all rates of a machine may be this much higher or lower together. Nine of ten published
// step times lie inside (tests/plan/step_time_test.cpp). A measured machine that changed its speed by more has a longer
// interval. So has one whose ranks share cores: who waits gets its core back only after a turn of others, so steps took
// up to a quarter longer (bench/RESULTS.md), and not shorter.
inline constexpr double rates_within = 1.15, shared_cores_slower = 1.25;
struct StepInterval {
  StepTime median;
  double low = 0, high = 0;  // seconds
};
// By how much a save delays the steps, which come `between` seconds before the next one: for the copy of a rank's
// states, and for what is not yet written of the copy before. 0 where the machine's disks are not known, apart from the
// copy.
double save_seconds(const Plan& plan, const Machine& machine, double between);
StepInterval step_interval(const Plan& plan, const Machine& machine, const Execution& execution = {});
PredictedStep predicted_step(const StepInterval& interval, const Machine& machine);  // for a plan's file

// Whether a rank adds a micro-batch's gradients to sums itself, in passes. Else a reduction does.
bool adds_to_sums(const Plan& plan);

// The blocks of the plan whose passes a measured machine did not measure, so that their times are estimated from its
// rates: "embedding", "layers", "head". Empty for a published machine, too.
std::vector<std::string> unmeasured_blocks(const Plan& plan, const Machine& machine);

// Three digits: "34.1 s", "523 ms"; below 1 s and from 1,000 s on as base::duration_text.
std::string step_seconds_text(double seconds);

// FLOP/s of a device: those of a step (step_flops, or without what recomputation repeats) over all ranks and seconds.
double device_flops(const Plan& plan, double seconds);
double device_model_flops(const Plan& plan, double seconds);

}  // namespace trainyard::plan
