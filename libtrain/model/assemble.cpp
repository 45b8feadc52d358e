// The registry of blocks and the assembly of a decoder.
#include "libtrain/model/assemble.h"

#include "libtrain/model/embedding_block.h"
#include "libtrain/model/head_block.h"
#include "libtrain/model/layer_block.h"
#include "libtrain/model/recompute.h"

#include <fmt/ranges.h>

#include <map>

namespace trainyard::model {

namespace {

std::map<std::string, BlockFactory>& registry() {
  static std::map<std::string, BlockFactory> all{
      {"embedding", [](const BlockSpec& s) { return std::make_unique<EmbeddingBlock>(s.model); }},
      {"head", [](const BlockSpec& s) { return std::make_unique<HeadBlock>(s.model); }},
      {"layer", [](const BlockSpec& s) { return std::make_unique<LayerBlock>(s.model, s.layer); }},
  };
  return all;
}

}  // namespace

void register_block(const std::string& name, BlockFactory factory) { registry()[name] = std::move(factory); }

std::vector<std::string> registered_blocks() {
  std::vector<std::string> names;
  for (const auto& [name, factory] : registry()) names.push_back(name);
  return names;
}

std::unique_ptr<Block> make_block(const std::string& name, const BlockSpec& spec) {
  const auto found = registry().find(name);
  if (found == registry().end())
    throw base::UsageError(fmt::format("no block is called {}", name), fmt::format("known blocks: {}", fmt::join(registered_blocks(), ", ")));
  return found->second(spec);
}

std::vector<std::unique_ptr<Block>> assemble(const plan::ModelConfig& model, plan::Recompute recomputation) {
  const auto wrong = plan::problems(model);
  if (!wrong.empty()) throw base::UsageError(fmt::format("model {}: {}", model.name, fmt::join(wrong, "; ")));
  std::vector<std::unique_ptr<Block>> blocks;
  blocks.push_back(make_block("embedding", {model, plan::BlockKind::embedding}));
  for (std::int64_t i = 0; i < model.layers; ++i) {
    auto layer = make_block("layer", {model, plan::BlockKind::layer, i});
    blocks.push_back(recomputation == plan::Recompute::layers ? recompute(std::move(layer)) : std::move(layer));
  }
  blocks.push_back(make_block("head", {model, plan::BlockKind::head}));
  return blocks;
}

}  // namespace trainyard::model
