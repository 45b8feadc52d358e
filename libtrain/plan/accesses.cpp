// The access order of a micro-batch, from that of each block.
#include "libtrain/plan/accesses.h"

#include <algorithm>

namespace trainyard::plan {

std::vector<Access> training_accesses(const ModelConfig& model) {
  std::vector<Access> out;
  const auto blocks = placed_blocks(model);
  for (const auto& block : blocks)
    for (int use : block.accesses.forward)
      out.push_back({Access::Kind::lease, block.uses[static_cast<std::size_t>(use)]});
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block)
    for (const auto& step : block->accesses.backward)
      out.push_back({step.kind, block->uses[static_cast<std::size_t>(step.use)]});
  return out;
}

std::vector<Access> evaluation_accesses(const ModelConfig& model) {
  std::vector<Access> out;
  for (const auto& block : placed_blocks(model))
    for (int use : block.accesses.evaluation)
      out.push_back({Access::Kind::lease, block.uses[static_cast<std::size_t>(use)]});
  return out;
}

std::vector<Use> leases_of(const std::vector<Access>& accesses) {
  std::vector<Use> out;
  for (const auto& a : accesses)
    if (a.kind == Access::Kind::lease) out.push_back(a.use);
  return out;
}

}  // namespace trainyard::plan
