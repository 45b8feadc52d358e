// ExpertKind: the description of a network that can be an expert, stated once.
#pragma once

#include "libtrain/plan/blocks/declaration.h"
#include "libtrain/plan/blocks/saved_tensor.h"
#include "libtrain/plan/grid/micro_shape.h"
#include "libtrain/plan/spec/model_config.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// The rows of all experts that a rank computes together: at most `rows` rows, in `groups` groups of neighbouring rows.
// Each group belongs to one expert. Its size is known after the gate has chosen.
struct ExpertRows {
  std::int64_t rows = 0, groups = 0;
};

// A function from a row [hidden] to a row [hidden], made for many experts at once (model/expert.h). All views have
// `rows` rows. Rows that belong to no group affect no result.
class ExpertKind {
 public:
  virtual ~ExpertKind() = default;

  // The parameters of one expert. In the flat group of a layer's experts they lie parameter by parameter, and within a
  // parameter expert by expert.
  virtual void declare(Declaration& expert) const = 0;
  // Saved tensors: depending on Stays they live between forward and backward, or only while one of the two runs.
  virtual std::vector<SavedTensor> tensors(const ModelConfig& model, const MicroShape& shape, ExpertRows of) const = 0;
  virtual std::int64_t forward_workspace_bytes(const ModelConfig& model, const MicroShape& shape,
                                               ExpertRows of) const = 0;
  // The larger scratch of the two parts of backward (model::Expert).
  virtual std::int64_t backward_workspace_bytes(const ModelConfig& model, const MicroShape& shape,
                                                ExpertRows of) const = 0;
  virtual double forward_flops(const ModelConfig& model) const = 0;  // for each row
};

}  // namespace trainyard::plan
