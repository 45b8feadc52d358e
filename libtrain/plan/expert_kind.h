// ExpertKind: all that is predicted of a network that can be an expert, said once.
#pragma once

#include "libtrain/plan/block_kind.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::plan {

// The rows of all experts that a rank works on together: at most `rows`, in `groups` groups of neighbouring ones, each
// of one expert. How many a group has is known when the gate has chosen.
struct ExpertRows {
  std::int64_t rows = 0, groups = 0;
};

// A function of a row [hidden] that gives a row [hidden]; made for many experts at once (model/expert.h). All views
// have `rows` rows; no result depends on those of no group.
class ExpertKind {
 public:
  virtual ~ExpertKind() = default;

  // The parameters of one expert. They lie in the flat group of all experts of a layer parameter by parameter, those of
  // the experts one behind the other.
  virtual void declare(Declaration& expert) const = 0;
  // Between forward and backward, or while one of the two runs (Stays).
  virtual std::vector<SavedTensor> tensors(const ModelConfig& model, const MicroShape& shape, ExpertRows of) const = 0;
  virtual std::int64_t forward_workspace_bytes(const ModelConfig& model, const MicroShape& shape,
                                               ExpertRows of) const = 0;
  // Of either part of backward (model::Expert), whichever needs more.
  virtual std::int64_t backward_workspace_bytes(const ModelConfig& model, const MicroShape& shape,
                                                ExpertRows of) const = 0;
  virtual double forward_flops(const ModelConfig& model) const = 0;  // of a row
};

// Of this library: "ffn", up, activation, down; with SwiGLU gate and up; of the width experts.ffn. Not thread-safe:
// register before anything is planned.
void register_expert(const std::string& name, std::shared_ptr<const ExpertKind> kind);
const ExpertKind& expert_kind(const std::string& name);  // UsageError with the nearest that there is
std::vector<std::string> expert_names();                 // sorted

}  // namespace trainyard::plan
