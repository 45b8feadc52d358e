// What is wrong with the decisions of a plan, whatever they cost.
#pragma once

#include "libtrain/plan/plan.h"
#include "libtrain/plan/problem.h"

#include <string>
#include <vector>

namespace trainyard::plan {

// Whether the lanes of a model may still change, so that a hint may name other lanes. open: they may. of_the_run: a
// resumed run has the lanes of its checkpoints, unless --change model is given. evaluated: an evaluation has the lanes
// of what it evaluates.
enum class Lanes { open, of_the_run, evaluated };
struct LanesOf {
  Lanes lanes = Lanes::open;
  std::string checkpoint = {};  // where the lanes come from; empty: from no checkpoint
};

// Whose GPU kernels a plan is for. others: those of another program, whose limits are not known.
enum class Kernels { ours, others };

// Whether dropout applies to rows of hidden states (plan/spec/limits.h).
bool drops_rows(const ModelConfig& model);
// Whether the model's gates draw random numbers, keyed by the sample: for noise, or for which tokens keep a place.
bool draws_for_gates(const ModelConfig& model);

// Everything wrong with decisions: the model; ranges (plan/grid/ranges.h); how many ranks can share layers; what flat
// groups declare (groups, sharded dims) and stores cannot do yet; divisibility; more data-parallel ranks than
// accumulation groups; dropout counters that would overlap; sizes beyond 64 bits. A plan without these problems can be
// predicted. Reads no prediction. Messages name the flags.
std::vector<Problem> decision_problems(const Plan& plan, const LanesOf& lanes = {}, Kernels kernels = Kernels::ours);
// Adds to `out` what GPU kernels do not accept; nothing for another device. Part of decision_problems.
void gpu_problems(const Plan& plan, std::vector<Problem>& out);
void dropout_problems(const Plan& plan, std::vector<Problem>& out);         // of its random numbers
void gate_problems(const Plan& plan, std::vector<Problem>& out);            // of experts and their gates
void master_problems(const Plan& plan, std::vector<Problem>& out);          // of --master
void adapter_layout_problems(const Plan& plan, std::vector<Problem>& out);  // of low-rank adapters
void encoder_layout_problems(const Plan& plan, std::vector<Problem>& out);  // of models with an encoder, and without
void zero_group_problems(const Plan& plan, std::vector<Problem>& out);      // of --zero-group
void reduction_node_problems(const Plan& plan, std::vector<Problem>& out);  // of --reduction-ranks-per-node
// The same for what lies on disk; nothing without $offload.
void offload_problems(const Plan& plan, std::vector<Problem>& out);
void activation_offload_problems(const Plan& plan, std::vector<Problem>& out);  // of inputs of layers

}  // namespace trainyard::plan
