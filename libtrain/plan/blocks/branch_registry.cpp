// The kinds of branches of a layer that the library has.
#include "libtrain/plan/blocks/branch_registry.h"

#include "libtrain/plan/blocks/attention.h"
#include "libtrain/plan/blocks/cross_attention.h"
#include "libtrain/plan/blocks/experts.h"
#include "libtrain/plan/blocks/feed_forward.h"
#include "libtrain/plan/blocks/named_kinds.h"

namespace trainyard::plan {

namespace {

NamedKinds<BranchKind>& named_branches() {
  static NamedKinds<BranchKind> all("branch", {{"attention", std::make_shared<AttentionKind>()},
                                               {cross_attention_branch, std::make_shared<CrossAttentionKind>()},
                                               {"experts", std::make_shared<ExpertsKind>()},
                                               {"ffn", std::make_shared<FeedForwardKind>()}});
  return all;
}

}  // namespace

void register_branch(const std::string& name, std::shared_ptr<const BranchKind> kind) {
  named_branches().add(name, std::move(kind));
}
const BranchKind& branch_kind(const std::string& name) { return named_branches().at(name, "branch of a layer"); }
std::vector<std::string> branch_names() { return named_branches().names(); }

}  // namespace trainyard::plan
