// Stages: which items of a model each pipeline stage has.
#pragma once

#include "libtrain/plan/blocks/inventory.h"
#include "libtrain/plan/schedule/boundaries.h"

#include <string>
#include <vector>

namespace trainyard::plan {

// The boundaries of stages * chunks neighbouring parts of a model's items (plan/blocks/inventory.h). Part c * stages +
// s is chunk c (a virtual stage) of stage s. So with several chunks a micro-batch passes through every stage several
// times. Without boundaries there is one stage with all items. Stages are the ranks' coordinates along Axis::pipe.
struct Stages {
  int stages = 1;
  Boundaries boundaries;

  int chunks() const { return boundaries.empty() ? 1 : static_cast<int>(boundaries.size() - 1) / stages; }
  int parts() const { return stages * chunks(); }
  int part(int stage, int chunk) const { return chunk * stages + stage; }
  int stage_of(std::int64_t item) const;  // the stage that has the item
  bool operator==(const Stages&) const = default;
};

// The part of a model that a stage has; refers to the model.
ModelPart part_of(const ModelConfig& model, const Stages& stages, int stage);

// A flat group that blocks of several stages use, such as the token table of a tied model, and the stages that hold it,
// ascending. The first stage owns it, and the others have copies. Each stage sums the gradients of its own occurrences,
// then adds the sums of all stages.
struct FlatGroupOfStages {
  std::string flat_group;
  std::vector<int> stages;
  bool operator==(const FlatGroupOfStages&) const = default;
};
std::vector<FlatGroupOfStages> flat_groups_of_stages(const ModelConfig& model, const Stages& stages);
// The names of those that the stage holds.
std::vector<std::string> flat_groups_of_stage(const ModelConfig& model, const Stages& stages, int stage);

}  // namespace trainyard::plan
