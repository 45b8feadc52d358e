// Everything that is wrong with a plan, at once, each with what to try. One list serves partition-model, which makes
// plans, and train, which follows them.
#pragma once

#include "libtrain/plan/plan.h"

#include <string>
#include <vector>

namespace trainyard::plan {

struct Problem {
  std::string message, hint;
};

// Whether the lanes of a model may still change, so that a hint may name other lanes. open: they may. of_the_run: a
// resumed run has the lanes of its checkpoints, unless --change model is given. evaluated: an evaluation has the lanes
// of what it evaluates.
enum class Lanes { open, of_the_run, evaluated };
struct LanesOf {
  Lanes lanes = Lanes::open;
  std::string checkpoint = {};  // where the lanes come from; empty: from no checkpoint
};

// Whether dropout applies to rows of hidden states (plan/spec/limits.h).
bool drops_rows(const ModelConfig& model);
// Whether the model's gates draw random numbers, keyed by the sample: for noise, or for which tokens keep a place.
bool draws_for_gates(const ModelConfig& model);

// Everything wrong with decisions: the model; ranges (plan/grid/ranges.h); how many ranks can share layers; what flat
// groups declare (groups, sharded dims) and stores cannot do yet; divisibility; more data-parallel ranks than
// accumulation groups; dropout counters that would overlap; sizes beyond 64 bits. A plan without these problems can be
// predicted. Reads no prediction. Messages name the flags.
std::vector<Problem> decision_problems(const Plan& plan, const LanesOf& lanes = {});
// Adds to `out` what GPU kernels do not accept; nothing for another device. Part of decision_problems.
void gpu_problems(const Plan& plan, std::vector<Problem>& out);

// Compares arenas and reserve with device_memory and says what each remedy would need. Empty if the plan fits or no
// limit is stated. Needs predict().
std::vector<Problem> memory_problems(const Plan& plan);
// Both lists, and whether the world has the plan's number of ranks. Memory comes from a fresh prediction, not from the
// plan.
std::vector<Problem> problems(const Plan& plan, int world);

// All problems as one text, each with its hint; empty without problems. Several problems are lines of "1. message (try:
// hint)".
std::string text_of(const std::vector<Problem>& problems);
// What an error reports of them: one problem keeps its hint apart; several have their hints in the message.
inline Problem as_one(const std::vector<Problem>& problems) {
  return problems.size() == 1 ? problems[0] : Problem{text_of(problems), {}};
}

}  // namespace trainyard::plan
