// The registry of kinds, and the defaults of most kinds.
#include "libtrain/plan/blocks/block_kind.h"

#include "libtrain/base/error.h"
#include "libtrain/base/nearest.h"
#include "libtrain/base/text.h"
#include "libtrain/plan/blocks/attention.h"
#include "libtrain/plan/blocks/crossings.h"
#include "libtrain/plan/blocks/embedding.h"
#include "libtrain/plan/blocks/experts.h"
#include "libtrain/plan/blocks/feed_forward.h"
#include "libtrain/plan/blocks/feed_forward_expert.h"
#include "libtrain/plan/blocks/head.h"
#include "libtrain/plan/blocks/layer.h"
#include "libtrain/plan/blocks/scratch.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace trainyard::plan {

namespace {

template <class Kind> using Registry = std::map<std::string, std::shared_ptr<const Kind>>;

Registry<BlockKind>& blocks() {
  static Registry<BlockKind> all{{"embedding", std::make_shared<EmbeddingKind>()},
                                 {"head", std::make_shared<HeadKind>()},
                                 {"layer", std::make_shared<LayerKind>()}};
  return all;
}

Registry<BranchKind>& branches() {
  static Registry<BranchKind> all{{"attention", std::make_shared<AttentionKind>()},
                                  {"experts", std::make_shared<ExpertsKind>()},
                                  {"ffn", std::make_shared<FeedForwardKind>()}};
  return all;
}

Registry<ExpertKind>& experts() {
  static Registry<ExpertKind> all{{"ffn", std::make_shared<FeedForwardExpertKind>()}};
  return all;
}

template <class Kind> std::vector<std::string> names_of(const Registry<Kind>& registry) {
  std::vector<std::string> names;
  for (const auto& [name, kind] : registry) names.push_back(name);
  return names;
}

template <class Kind> const Kind& find(const Registry<Kind>& registry, const char* what, const std::string& name) {
  const auto found = registry.find(name);
  if (found != registry.end()) return *found->second;
  throw base::UsageError(
      fmt::format("no {} is called '{}'; there are {}", what, name, fmt::join(names_of(registry), ", ")),
      base::value_hint(name, names_of(registry)));
}

}  // namespace

void require_registrable(const char* what, const std::string& name, bool complete) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  };
  if (name.empty() || !std::all_of(name.begin(), name.end(), plain))
    throw base::UsageError(fmt::format("'{}' cannot be the name of a {}", base::one_line(name), what),
                           "letters, digits, '_', '-' and '.': model files separate names by commas");
  if (!complete)
    throw base::UsageError(fmt::format("the {} '{}' is registered without a kind, or without a factory", what, name),
                           "give both: the kind describes it, and the factory makes it");
}

std::int64_t SavedTensor::bytes() const { return base::aligned(base::size_of(dtype) * (rows == 0 ? 1 : rows) * cols); }

std::int64_t total_bytes(const std::vector<SavedTensor>& tensors) {
  std::int64_t bytes = 0;
  for (const auto& t : tensors) bytes += t.bytes();
  return bytes;
}

std::vector<SavedTensor> only(std::vector<SavedTensor> tensors, Stays stays) {
  std::erase_if(tensors, [&](const SavedTensor& t) { return t.stays != stays; });
  return tensors;
}

StackBytes BlockKind::selective_bytes(const ModelConfig& model, const MicroShape& shape) const {
  const auto bytes = saved_bytes(model, shape);
  return {bytes, bytes};
}

StackBytes BlockKind::selective_evaluation_bytes(const ModelConfig& model, const MicroShape& shape) const {
  const auto bytes = evaluation_bytes(model, shape);
  return {bytes, bytes};
}

std::vector<FlatGroupOccurrence> BlockKind::occurrences(const ModelConfig& model) const {
  std::vector<FlatGroupOccurrence> all(flat_groups(model, 0).size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i].own = static_cast<int>(i);
  return all;
}

BlockAccesses BlockKind::accesses(const ModelConfig& model) const {
  BlockAccesses a;
  const auto n = static_cast<int>(occurrences(model).size());
  for (int occurrence = 0; occurrence < n; ++occurrence) {
    a.forward.push_back(occurrence);
    a.evaluation.push_back(occurrence);
    a.backward.push_back({Access::Kind::lease, occurrence});
  }
  for (int occurrence = 0; occurrence < n; ++occurrence) a.backward.push_back({Access::Kind::commit, occurrence});
  return a;
}

double BlockKind::recompute_flops(const ModelConfig& model, std::int64_t sequence) const {
  return forward_flops(model, sequence);
}

std::vector<GroupCall> BlockKind::tensor_calls(const ModelConfig&, const MicroShape&, Pass, Recompute) const {
  return {};
}
std::vector<GroupCall> BlockKind::expert_calls(const ModelConfig&, const MicroShape&, Pass, Recompute) const {
  return {};
}

std::vector<GroupCall> BranchKind::tensor_calls(const ModelConfig& m, const MicroShape& s, Pass pass,
                                                Recompute recompute, Again again) const {
  Crossings calls(m, s);
  calls.all_rows().add_up();
  if (pass != Pass::train) return calls.take();
  if (recompute == Recompute::layers) {
    calls.all_rows();
    if (again == Again::output) calls.add_up();
  }
  calls.all_rows().all_rows().add_up();
  return calls.take();
}

void register_block(const std::string& name, std::shared_ptr<const BlockKind> kind) {
  require_registrable("block", name, kind != nullptr);
  blocks()[name] = std::move(kind);
}
void register_branch(const std::string& name, std::shared_ptr<const BranchKind> kind) {
  require_registrable("branch", name, kind != nullptr);
  branches()[name] = std::move(kind);
}
void register_expert(const std::string& name, std::shared_ptr<const ExpertKind> kind) {
  require_registrable("network of experts", name, kind != nullptr);
  experts()[name] = std::move(kind);
}
const BlockKind& block_kind(const std::string& name) { return find(blocks(), "block", name); }
const BranchKind& branch_kind(const std::string& name) { return find(branches(), "branch of a layer", name); }
const ExpertKind& expert_kind(const std::string& name) { return find(experts(), "network of an expert", name); }
std::vector<std::string> block_names() { return names_of(blocks()); }
std::vector<std::string> branch_names() { return names_of(branches()); }
std::vector<std::string> expert_names() { return names_of(experts()); }

}  // namespace trainyard::plan
