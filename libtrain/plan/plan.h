// Plan: how a model is cut and what that will cost, as data: what train follows. JSON "trainyard.plan/1".
#pragma once

#include "libtrain/base/json.h"
#include "libtrain/plan/cut.h"
#include "libtrain/plan/memory.h"
#include "libtrain/plan/topology.h"
#include "libtrain/plan/traffic.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::plan {

inline constexpr const char* plan_format = "trainyard.plan/1";

// What a group of ranks [first_rank, last_rank] sends in one step; ranks differ when the last round is ragged.
struct RankTraffic {
  int first_rank = 0, last_rank = 0;
  std::vector<Traffic> operations;
  bool operator==(const RankTraffic&) const = default;
};

struct Plan : Cut {
  // decided, beside the cut
  ModelConfig model;
  Topology topology = Topology({{Axis::data, 1}});
  std::vector<std::int64_t> stage_boundaries;  // layers: {0, layers} is one stage
  std::string schedule = "one-stage";
  base::DType gradient_dtype = base::DType::f32;
  base::DeviceKind device = base::DeviceKind::cpu;
  std::int64_t device_memory = 0;  // bytes of one rank; 0: not stated
  // predicted
  std::int64_t parameters = 0;
  MemoryBytes memory;  // of every rank
  std::vector<RankTraffic> traffic;
  double flops = 0;  // of a step, all ranks together

  BatchPlan batch() const { return {global_batch, micro_batch, fold, topology.size(Axis::data)}; }
  int slots() const;  // micro-batches of a rank between forward and the end of backward at one time
  StateShape states() const { return {zero, dtype, gradient_dtype, batch(), layer_slots, topology}; }
  MicroShape micro() const { return {micro_batch, sequence, dtype, threads, device, tensor, sequence_parallel}; }
};

// What a plan decides in single values, in the order of its file.
std::vector<base::Field> fields_of(Plan& plan);

// Every call of a step of one rank: of the groups of units, then among the tensor ranks of its replica.
std::vector<SizedCalls> all_step_calls(const Plan& plan, int rank);
// Of one validation over `sequences`, of any rank.
std::vector<Traffic> all_validation_traffic(const Plan& plan, std::int64_t sequences);

// Fills stage_boundaries and everything predicted. The plan must be free of the problems that `decision_problems`
// names.
void predict(Plan& plan);

// " in 4 replicas of 2 that share every layer of 4 lanes, and its rows", to follow the number of ranks; "" where each
// rank is a replica.
std::string sharing_text(const Plan& plan);

nlohmann::ordered_json json_of(const Plan& plan);
std::string to_json(const Plan& plan);  // two spaces, one newline at the end
// Throws InputError naming `where`: truncated or damaged text, another format, a missing key, a wrong type, an unknown
// key (with the nearest), decisions that have problems (plan/problems.h).
Plan plan_from_json(const std::string& text, const std::string& where);

}  // namespace trainyard::plan
