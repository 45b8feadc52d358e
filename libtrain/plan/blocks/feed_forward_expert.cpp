// What a feed-forward expert declares, saves and needs.
#include "libtrain/plan/blocks/feed_forward_expert.h"

#include "libtrain/base/aligned.h"
#include "libtrain/plan/blocks/products.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/layer_model.h"

#include <algorithm>

namespace trainyard::plan {

namespace {
std::int64_t inner_width(const ModelConfig& m) { return (is_gated(m) ? 2 : 1) * expert_width(m); }
}  // namespace

void FeedForwardExpertKind::declare(Declaration& d) const {
  const auto& m = d.model();
  const auto width = expert_width(m);
  if (is_gated(m)) {
    d.weight("gate.weight", width, m.hidden);
    d.bias("gate.bias", width);
  }
  d.weight("up.weight", width, m.hidden);
  d.bias("up.bias", width);
  d.residual_weight("down.weight", m.hidden, width);
  d.bias("down.bias", m.hidden);
}

std::vector<SavedTensor> FeedForwardExpertKind::tensors(const ModelConfig& m, const MicroShape& s,
                                                        ExpertRows of) const {
  return {{"inner", s.dtype, of.rows, inner_width(m)},
          {"activated", s.dtype, of.rows, expert_width(m), Stays::unless_selective}};
}

std::int64_t FeedForwardExpertKind::forward_workspace_bytes(const ModelConfig& m, const MicroShape& s,
                                                            ExpertRows of) const {
  const Products p(m, s);
  const auto width = expert_width(m);
  return std::max(p.grouped_forward(of, width, m.hidden, 1), p.grouped_forward(of, m.hidden, width, m.lanes));
}

// The gradient of the inner layer overwrites that layer.
std::int64_t FeedForwardExpertKind::backward_workspace_bytes(const ModelConfig& m, const MicroShape& s,
                                                             ExpertRows of) const {
  const Products p(m, s);
  const auto width = expert_width(m), parts = std::int64_t{is_gated(m) ? 2 : 1};
  const auto inputs =
      base::aligned(of.rows * width * s.element_bytes()) +
      std::max(p.grouped_input(of, m.hidden, width, 1, 1), p.grouped_input(of, width, m.hidden, parts, m.lanes));
  if (has_adapter(m)) return inputs;  // the weights are frozen
  return std::max({p.grouped_weight(of, m.hidden, width), p.grouped_weight(of, width, m.hidden), inputs});
}

double FeedForwardExpertKind::forward_flops(const ModelConfig& m) const {
  return 2 * (is_gated(m) ? 3.0 : 2.0) * static_cast<double>(m.hidden) * static_cast<double>(expert_width(m));
}

}  // namespace trainyard::plan
