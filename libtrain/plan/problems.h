// Everything that is wrong with a plan, at once, each with what to try: the one list for partition-model, which makes
// plans, and train, which follows them.
#pragma once

#include "libtrain/plan/plan.h"

#include <string>
#include <vector>

namespace trainyard::plan {

struct Problem {
  std::string message, hint;
};

// May the lanes of a model still be others, so that a hint may name some? Those of a run that goes on are what its
// checkpoints have, until --change model is said; an evaluation has those of what it evaluates.
enum class Lanes { open, of_the_run, evaluated };
struct LanesOf {
  Lanes lanes = Lanes::open;
  std::string checkpoint = {};  // where they come from; empty: from no checkpoint
};

// Does dropout fall on rows of the residual stream (plan/limits.h)?
bool drops_rows(const ModelConfig& model);
// Do its gates draw random numbers, keyed by the sample: for noise, or for who keeps a place?
bool draws_for_gates(const ModelConfig& model);

// Model, ranges (plan/ranges.h), how many ranks can share its layers, what its flat groups ask for (groups, cuts) that
// stores cannot do yet, divisibility, more data ranks than groups of micro-batches, counters of dropout that would
// overlap, sizes beyond 64 bits. A plan without these can be predicted. Reads no prediction. Messages name the flags.
std::vector<Problem> decision_problems(const Plan& plan, const LanesOf& lanes = {});
// What the kernels of a GPU do not take, added to `out`; nothing for another device. Part of decision_problems.
void gpu_problems(const Plan& plan, std::vector<Problem>& out);

// Arenas and reserve against device_memory, with the price of each remedy; empty when it fits or no limit is stated.
// Needs predict().
std::vector<Problem> memory_problems(const Plan& plan);
// Both, and the size of the world that the plan is to run on. The memory is judged by a fresh prediction, not by what
// the plan carries.
std::vector<Problem> problems(const Plan& plan, int world);

// One text: "1. message (hint)" on lines of its own when there are several.
std::string text_of(const std::vector<Problem>& problems);

}  // namespace trainyard::plan
