// A feed-forward part as an expert.
#pragma once

#include "libtrain/plan/blocks/expert_kind.h"

namespace trainyard::plan {

class FeedForwardExpertKind : public ExpertKind {
 public:
  void declare(Declaration& expert) const override;
  std::vector<SavedTensor> tensors(const ModelConfig& model, const MicroShape& shape, ExpertRows of) const override;
  std::int64_t forward_workspace_bytes(const ModelConfig& model, const MicroShape& shape, ExpertRows of) const override;
  std::int64_t backward_workspace_bytes(const ModelConfig& model, const MicroShape& shape,
                                        ExpertRows of) const override;
  double forward_flops(const ModelConfig& model) const override;
};

}  // namespace trainyard::plan
