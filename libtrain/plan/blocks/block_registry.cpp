// The kinds of blocks that the library has.
#include "libtrain/plan/blocks/block_registry.h"

#include "libtrain/plan/blocks/bridge.h"
#include "libtrain/plan/blocks/embedding.h"
#include "libtrain/plan/blocks/head.h"
#include "libtrain/plan/blocks/layer.h"
#include "libtrain/plan/blocks/named_kinds.h"

namespace trainyard::plan {

namespace {

NamedKinds<BlockKind>& named_blocks() {
  static NamedKinds<BlockKind> all("block", {{"bridge", std::make_shared<BridgeKind>()},
                                             {"embedding", std::make_shared<EmbeddingKind>()},
                                             {"head", std::make_shared<HeadKind>()},
                                             {"layer", std::make_shared<LayerKind>()}});
  return all;
}

}  // namespace

void register_block(const std::string& name, std::shared_ptr<const BlockKind> kind) {
  named_blocks().add(name, std::move(kind));
}
const BlockKind& block_kind(const std::string& name) { return named_blocks().at(name, "block"); }
std::vector<std::string> block_names() { return named_blocks().names(); }

}  // namespace trainyard::plan
