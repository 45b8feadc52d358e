// What the ranks of a checkpoint that is made from others may be, and what it says of the run then.
#pragma once

#include "libtrain/base/dtype.h"
#include "libtrain/checkpoint/manifest.h"
#include "libtrain/plan/stages.h"
#include "libtrain/plan/topology.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

// What the new checkpoint shall be; what is left out stays as it is in the source.
struct NewLayout {
  int data = 0;  // data-parallel ranks; 0: as many as the source has
  std::optional<base::DType> dtype;
  std::optional<int> zero;             // for the record of the plan: files are alike at every stage
  std::optional<nlohmann::json> plan;  // the record as a whole, of the model of the source
  std::optional<Contents> contents = {};
  int tensor = 0;              // ranks that share every layer; 0: as many as the source has
  int pipeline = 0;            // stages; 0: as many as the source has
  std::string partition = {};  // which items each of them has (plan/partition.h); "": those that it has in the source
                               // where there are as many stages, else by "flops", recomputing nothing
  std::optional<plan::Stages> stages = {};  // said outright, of the model of the source, in place of these two
  int experts = 0;  // data-parallel ranks that share out the experts of each layer; 0: as many as in the source where
                    // its new ranks and its model can have that, else 1
};

struct LayoutRanks {
  plan::Topology topology;  // with its second reading where ranks share out experts
  plan::Stages stages = {};
};
// The ranks of the new checkpoint. UsageError where so many tensor ranks cannot share the layers of the model, for more
// stages than it has items, a partition that plan/partition.h refuses or that is of one stage, for more ranks than
// plan/ranges.h knows or than the model has weights, and for experts that are not so many equal parts.
LayoutRanks ranks_of_layout(const Manifest& source, const NewLayout& layout);

// What is odd about ranks that are legal, as sentences for warnings: ranks whose files would hold nothing, and tensor
// ranks on which no run goes on from the checkpoint with the lanes that it has.
std::vector<std::string> doubts_of_layout(const RunState& state, const LayoutRanks& ranks);

// What a checkpoint of the new layout says of the run: all that the source says, but ranks, dtype, contents and plan.
// UsageError for all of a source that has no more than the weights.
RunState state_of_layout(const RunState& source, const NewLayout& layout, const LayoutRanks& ranks);

}  // namespace trainyard::checkpoint
