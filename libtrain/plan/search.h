// Search: the layouts of a model on some ranks whose steps take least time, of those that fit the memory.
#pragma once

#include "libtrain/plan/decision_problems.h"
#include "libtrain/plan/step_time.h"

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace trainyard::plan {

// What a search may change. What is not free keeps the plan's value.
struct SearchSpace {
  bool zero = true, zero_group = true, tensor = true, sequence_parallel = true, pipeline = true;
  bool schedule = true, virtual_stages = true;
  bool experts = true, expert_nodes = true;  // expert parallelism, and whether its all-to-all is hierarchical
  bool micro_batch = true, local_accumulation = true;
  bool recompute = true;        // by layers: as few as fit
  bool offload = true;          // only of layouts that do not fit with all layers recomputed: the least that fits
  bool reduction_nodes = true;  // whether the ordered reduction is hierarchical
  // One at a time, only of layouts that do not fit with all layers recomputed, and not where states may lie elsewhere.
  bool gathered_layers = true;
};
// The settings of the space, by their names.
struct SearchSetting {
  const char* name;
  bool SearchSpace::*free;
};
const std::vector<SearchSetting>& search_settings();

// What layouts that did not fit need at least, by their settings. Searches that differ in their limits alone share it.
struct NeededMemory {
  using Key = std::tuple<int, int, int, PipelineSchedule, bool, int, int, std::int64_t, std::int64_t, int, int, int>;
  static Key key_of(const Plan& plan) {
    return {plan.tensor,
            plan.pipeline,
            plan.virtual_stages,
            plan.pipeline_schedule,
            plan.sequence_parallel,
            plan.expert_parallel,
            plan.expert_ranks_per_node,
            plan.micro_batch,
            plan.local_accumulation,
            plan.zero,
            plan.zero_group,
            plan.reduction_ranks_per_node};
  }
  std::map<Key, std::int64_t> bytes = {};
};

struct SearchLimits {
  std::int64_t device_bytes = 0, host_bytes = 0;  // of a rank; 0: no limit
  std::size_t top = 10;
  bool first = false;  // ends with the first layout that fits
  NeededMemory* needed = nullptr;
};

struct FoundPlan {
  Plan plan;  // stages are set, nothing else is predicted
  StepTime time;
  std::int64_t bytes = 0;  // of memory of a rank
};

// What became of the layouts. They add up to `layouts`.
struct SearchCounts {
  std::int64_t layouts = 0;
  std::int64_t slower = 0;     // longer than the worst of the best, even without recomputation
  std::int64_t refused = 0;    // combinations that are not supported
  std::int64_t too_large = 0;  // for the memory, with all layers recomputed and what may lie elsewhere there
  std::int64_t timed = 0;
};
struct SearchResult {
  std::vector<FoundPlan> best;  // the first takes least time; at most `top`
  SearchCounts counts;
  std::string refusal, refusal_hint;  // why a layout is refused, of the first one that is; empty: none is
  // The same of a rate that the machine lacks: with it the layout might fit, and have a time.
  std::string missing_rate, missing_rate_hint;
};

// Whether the textbook's states (model_state_bytes) are a lower bound of a rank's memory: nothing may lie elsewhere,
// no weights may be frozen, and the optimizer is the usual one with its usual states.
bool needs_textbook_states(const Plan& plan, const SearchSpace& space);

// Branch and bound (Land and Doig 1960). Layouts are judged in the order of a bound that no step of them goes below
// (StepTimer::at_least). The search ends where the bound of the next one is above the worst of the best. So none is
// better in the space, which has: degrees that divide the ranks; micro-batches that divide a rank's share of the global
// batch evenly, up to 128 sequences; sequence parallelism or none; local accumulation of one micro-batch or of all; for
// stages the orders 1f1b, interleaved with 2 to 8 virtual stages, and zero-bubble; with ZeRO 3 all ranks, or those of a
// node, as a zero group. Recomputation may move the boundaries of stages ($partition flops). Then a share that fits may
// be missed, and a layout that such boundaries make faster.
//
// The plan has a global batch, a sequence, lanes and a topology of all ranks.
SearchResult search(const Plan& plan, const SearchSpace& space, StepTimer& timer, const SearchLimits& limits,
                    Kernels kernels = Kernels::ours);

}  // namespace trainyard::plan
