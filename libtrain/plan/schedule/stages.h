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
// ascending. The stage of the block that declares it owns it, and the others have copies. Each stage has the sum of
// each of its own occurrences, and adds the sums of all occurrences in the order of the model. A stage that owns it may
// have no occurrence.
struct FlatGroupOfStages {
  std::string flat_group;
  std::vector<int> stages;
  std::vector<int> uses;  // the stage of each occurrence, in the order of the model
  bool is_in(int stage) const;
  std::int64_t uses_in(int stage) const;
  bool operator==(const FlatGroupOfStages&) const = default;
};
std::vector<FlatGroupOfStages> flat_groups_of_stages(const ModelConfig& model, const Stages& stages);
// Those that the stage holds.
std::vector<FlatGroupOfStages> flat_groups_of_stage(const ModelConfig& model, const Stages& stages, int stage);
// The stages that hold any of these, ascending: ranks that differ in these stages alone exchange sums.
std::vector<int> sharing_stages(const ModelConfig& model, const Stages& stages);

}  // namespace trainyard::plan
