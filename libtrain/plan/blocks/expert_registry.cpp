// The kinds of networks of an expert that the library has.
#include "libtrain/plan/blocks/expert_registry.h"

#include "libtrain/plan/blocks/feed_forward_expert.h"
#include "libtrain/plan/blocks/named_kinds.h"

namespace trainyard::plan {

namespace {

NamedKinds<ExpertKind>& named_experts() {
  static NamedKinds<ExpertKind> all("network of experts", {{"ffn", std::make_shared<FeedForwardExpertKind>()}});
  return all;
}

}  // namespace

void register_expert(const std::string& name, std::shared_ptr<const ExpertKind> kind) {
  named_experts().add(name, std::move(kind));
}
const ExpertKind& expert_kind(const std::string& name) { return named_experts().at(name, "network of an expert"); }
std::vector<std::string> expert_names() { return named_experts().names(); }

}  // namespace trainyard::plan
