// The ranks that a checkpoint made from others may have, and what it records of the run.
#pragma once

#include "libtrain/base/dtype.h"
#include "libtrain/checkpoint/manifest.h"
#include "libtrain/plan/grid/topology.h"
#include "libtrain/plan/schedule/stages.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

// What the new checkpoint shall be. Settings that are not given stay as they are in the source.
struct NewLayout {
  int data = 0;  // data-parallel ranks; 0: as many as the source has
  std::optional<base::DType> dtype;
  std::optional<int> zero;             // for the record of the plan; files are the same at every ZeRO stage
  std::optional<nlohmann::json> plan;  // the whole record, for the model of the source
  std::optional<Contents> contents = {};
  int tensor = 0;    // tensor-parallel ranks; 0: as many as the source has
  int pipeline = 0;  // pipeline stages; 0: as many as the source has
  // Which items each stage has (plan/schedule/partition.h). "" keeps the source's partition if it has as many stages,
  // else partitions by "flops" without recomputation.
  std::string partition = {};
  // The stages themselves, for the model of the source, in place of `pipeline` and `partition`.
  std::optional<plan::Stages> stages = {};
  // Degree of expert parallelism: data-parallel ranks that divide the experts of each layer. 0: the source's degree
  // where the new ranks and the model can have it, else 1.
  int experts = 0;
};

struct LayoutRanks {
  plan::Topology topology;  // with the axes expert_data and expert where ranks divide the experts
  plan::Stages stages = {};
};
// The ranks of the new checkpoint. Throws UsageError in these cases: the model cannot have so many tensor-parallel
// ranks; there are more stages than items; plan/schedule/partition.h refuses the partition, or it is given for one
// stage; there are more ranks than plan/grid/ranges.h allows or than the model has weights; the experts cannot be
// divided into so many equal parts.
LayoutRanks ranks_of_layout(const Manifest& source, const NewLayout& layout);

// Warnings about ranks that are legal but odd, as sentences: ranks whose files would hold nothing, and a number of
// tensor-parallel ranks on which no run can go on with the checkpoint's lanes.
std::vector<std::string> doubts_of_layout(const RunState& state, const LayoutRanks& ranks);

// The run state of the new checkpoint: the source's, except for ranks, dtype, contents and plan. UsageError if
// Contents::all is asked of a source that holds only weights.
RunState state_of_layout(const RunState& source, const NewLayout& layout, const LayoutRanks& ranks);

}  // namespace trainyard::checkpoint
