// The registry of expert networks.
#include "libtrain/model/expert.h"

#include "libtrain/base/error.h"
#include "libtrain/model/feed_forward_expert.h"
#include "libtrain/plan/blocks/expert_registry.h"
#include "libtrain/plan/blocks/named_kinds.h"

#include <map>

namespace trainyard::model {

namespace {

std::map<std::string, ExpertFactory>& networks() {
  static std::map<std::string, ExpertFactory> all{
      {"ffn", [](const ExpertSpec& s) { return std::make_unique<FeedForwardExpert>(s); }}};
  return all;
}

}  // namespace

void register_expert(const std::string& name, std::shared_ptr<const plan::ExpertKind> kind, ExpertFactory factory) {
  plan::require_registrable("network of experts", name, kind != nullptr && factory != nullptr);
  plan::register_expert(name, std::move(kind));
  networks()[name] = std::move(factory);
}

std::unique_ptr<Expert> make_expert(const std::string& name, const ExpertSpec& spec) {
  const auto found = networks().find(name);
  if (found == networks().end())
    throw base::UsageError(fmt::format("the expert '{}' is described, but nothing makes it", name),
                           "model::register_expert");
  auto made = found->second(spec);
  if (made == nullptr)
    throw base::UsageError(fmt::format("the factory of the network of experts '{}' returns null", name),
                           "return an object, or throw an error that says why there is none");
  return made;
}

}  // namespace trainyard::model
