// What each stage of a plan has and needs, and how long its ranks wait, for people.
#pragma once

#include "libtrain/base/number_text.h"
#include "libtrain/plan/plan.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::plan {

struct StageRow {
  std::string items;            // "embedding, layers.00-02"; " + " between chunks
  std::int64_t parameters = 0;  // logical, of a replica; a table that two stages hold counts in both
  double flops = 0;             // its part of those of a step
  std::vector<int> slots;       // of each chunk (plan::slots_of_stage)
  MemoryBytes memory;           // of a rank
};
// One for each stage. The plan is predicted.
std::vector<StageRow> stage_rows(const Plan& plan);

// Keys "stages" and "idle" of a plan in JSON: for each stage its items, parameters, part of a step's FLOPs, slots and
// bytes of a rank, and the parts of idle_of. Empty for one stage. The plan is predicted.
nlohmann::ordered_json stages_json(const Plan& plan);

// What part of a step the ranks of replica 0 wait, by simulating their lists (plan/simulate.h) where computing takes as
// long as its FLOPs say and messages and collectives take no time.
struct Idle {
  double fraction = 0;
  double of_imbalance = 0;  // of it: what stays with any number of micro-batches, as stages are not equally heavy
};
// Beyond some 100,000 micro-batches times parts from two shorter steps, as a step grows by the same time for each
// micro-batch. Nothing for one stage, and for more parts than that says.
std::optional<Idle> idle_of(const Plan& plan);
// "idle 27 % ...: --global-batch 128 makes it 16 %": what the plan may have that makes it smaller, one change at a
// time, with the idle part that it would have; empty where idle_of is.
std::string idle_text(const Plan& plan);

// "a rank of stage 1, which needs most": whose bytes plan.memory are. The plan is predicted.
std::string whose_memory(const Plan& plan);

// A table of stages, which of them needs and computes most, the map from stages and replicas to ranks, and the idle
// part; empty for one stage.
std::string stages_text(const Plan& plan, base::Sizes sizes);

}  // namespace trainyard::plan
