// The access order of a micro-batch, from the order of uses.
#include "libtrain/plan/accesses.h"

namespace trainyard::plan {

namespace {

bool is_embedding(const std::vector<Unit>& all, Use use) { return all[static_cast<std::size_t>(use.unit)].name.starts_with("embedding.") && use.use == 0; }

}  // namespace

std::vector<Access> training_accesses(const ModelConfig& model) {
  const auto all = units(model);
  const auto order = uses(model);
  std::vector<Access> out;
  for (const auto& use : order)
    if (use.use == 0) out.push_back({Access::Kind::lease, use});
  // Backward, block by block from the last: the head is the trailing uses that are neither layers nor embeddings.
  std::vector<Use> head, embedding;
  for (const auto& use : order) {
    if (is_embedding(all, use)) embedding.push_back(use);
    else if (!all[static_cast<std::size_t>(use.unit)].name.starts_with("layers.")) head.push_back(use);
  }
  for (const auto& use : head) out.push_back({Access::Kind::lease, use});
  for (auto use = head.rbegin(); use != head.rend(); ++use) out.push_back({Access::Kind::commit, *use});
  for (auto use = order.rbegin(); use != order.rend(); ++use) {
    if (!all[static_cast<std::size_t>(use->unit)].name.starts_with("layers.")) continue;
    out.push_back({Access::Kind::lease, *use});
    out.push_back({Access::Kind::commit, *use});
  }
  for (const auto& use : embedding) out.push_back({Access::Kind::commit, use});
  return out;
}

std::vector<Access> evaluation_accesses(const ModelConfig& model) {
  std::vector<Access> out;
  for (const auto& use : uses(model)) out.push_back({Access::Kind::lease, use});
  return out;
}

std::vector<Use> leases_of(const std::vector<Access>& accesses) {
  std::vector<Use> out;
  for (const auto& a : accesses)
    if (a.kind == Access::Kind::lease) out.push_back(a.use);
  return out;
}

}  // namespace trainyard::plan
