// Tables for people: what each pipeline stage of a plan has and needs, and how long its ranks wait.
#pragma once

#include "libtrain/base/json.h"
#include "libtrain/base/number_text.h"
#include "libtrain/plan/plan.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::plan {

struct StageRow {
  std::string items;            // "embedding, layers.00-02"; " + " between chunks
  std::int64_t parameters = 0;  // logical, of a replica; a table that two stages hold counts in both
  double flops = 0;             // its share of the FLOPs of a step
  std::vector<int> slots;       // for each chunk (plan::slots_of_stage)
  MemoryBytes memory;           // of one rank
};
// One row for each stage. The plan must be predicted.
std::vector<StageRow> stage_rows(const Plan& plan);

// Keys of a plan in JSON beside those of its file. "rank_total_bytes": of the memory where a rank of the stage that
// needs most computes; "rank_host_bytes": of a GPU's host, where a rank has some. With several stages also "stages" and
// "idle": each stage has its items, parameters, share of a step's FLOPs, slots and bytes of a rank; "idle" has the
// members of Idle. The plan must be predicted.
nlohmann::ordered_json report_json(const Plan& plan);
// The names of all such keys.
inline constexpr std::array report_keys{"rank_total_bytes", "rank_host_bytes", "stages", "idle"};

// The share of a step in which the ranks of replica 0 wait. It comes from a simulation of their lists
// (plan/schedule/simulate.h) in which computing takes time by its FLOPs, and messages and collectives take none.
struct Idle {
  double fraction = 0;
  double of_imbalance = 0;  // the part that any number of micro-batches leaves, because stages are not equally heavy
};
// Beyond some 100,000 micro-batches times parts, the time is extrapolated from two shorter steps: each further
// micro-batch adds the same time. Nothing for one stage, and for too many parts to simulate.
std::optional<Idle> idle_of(const Plan& plan);
// "idle 27 % ...: --global-batch 128 makes it 16 %". It names single changes of the plan that lower the idle share,
// each with the share that results. Empty if idle_of returns nothing.
std::string idle_text(const Plan& plan);

// "a rank of stage 1, which needs most": the rank whose bytes are plan.memory. The plan must be predicted.
std::string whose_memory(const Plan& plan);

// A table of stages that marks which needs and computes most, the map from stages and replicas to ranks, and the idle
// share. Empty for one stage.
std::string stages_text(const Plan& plan, base::Sizes sizes);

}  // namespace trainyard::plan
