// The registry of blocks and the assembly of a decoder.
#include "libtrain/model/assemble.h"

#include "libtrain/base/error.h"
#include "libtrain/base/nearest.h"
#include "libtrain/model/attention_branch.h"
#include "libtrain/model/bridge_block.h"
#include "libtrain/model/cross_attention_branch.h"
#include "libtrain/model/embedding_block.h"
#include "libtrain/model/experts_branch.h"
#include "libtrain/model/feed_forward_branch.h"
#include "libtrain/model/head_block.h"
#include "libtrain/model/post_norm_layer.h"
#include "libtrain/model/recompute.h"
#include "libtrain/model/residual_layer.h"
#include "libtrain/plan/blocks/block_registry.h"
#include "libtrain/plan/blocks/branch_registry.h"
#include "libtrain/plan/blocks/named_kinds.h"
#include "libtrain/plan/model_file/model_problems.h"
#include "libtrain/plan/spec/conditions.h"

#include <fmt/ranges.h>

#include <map>

namespace trainyard::model {

namespace {

std::map<std::string, BranchFactory>& branches() {
  static std::map<std::string, BranchFactory> all{
      {"attention", [](const BranchSpec& s) { return std::make_unique<AttentionBranch>(s); }},
      {plan::cross_attention_branch, [](const BranchSpec& s) { return std::make_unique<CrossAttentionBranch>(s); }},
      {"experts", [](const BranchSpec& s) { return std::make_unique<ExpertsBranch>(s); }},
      {"ffn", [](const BranchSpec& s) { return std::make_unique<FeedForwardBranch>(s); }},
  };
  return all;
}

// What a factory made, which must not be null.
template <class Made>
std::unique_ptr<Made> not_null(std::unique_ptr<Made> made, const char* what, const std::string& name) {
  if (made == nullptr)
    throw base::UsageError(fmt::format("the factory of the {} '{}' returns null", what, name),
                           "return an object, or throw an error that says why there is none");
  return made;
}

std::unique_ptr<Block> make_layer(const plan::ModelConfig& m, const plan::PlacedBlock& place) {
  const auto& flat_group = place.flat_groups.at(0);
  std::vector<Sublayer> sublayers;
  for (const auto& name : m.branches) {
    const auto& kind = plan::branch_kind(name);
    const auto prefix = kind.prefix();
    const auto factory = branches().find(name);
    if (factory == branches().end())
      throw base::UsageError(fmt::format("the branch '{}' is described, but nothing makes it", name),
                             "model::register_branch");
    BranchSpec spec{m, flat_group, place.index};
    if (kind.has_own_flat_group()) spec.own = &place.flat_groups.back(), spec.own_occurrence = place.occurrences.back();
    spec.experts = place.experts;
    if (plan::has_adapter(m)) spec.adapter = &place.flat_groups.at(1);
    auto& s = sublayers.emplace_back(
        Sublayer{.kind = &kind,
                 .norm = {},
                 .branch = not_null(factory->second(spec), "branch", name),
                 .residual = DropoutSite(flat_group.name + "." + prefix + "_residual", kind.residual_dropout(m))});
    const bool alone_behind = plan::has_norm_behind(m) && !plan::has_norm_before(m);
    (alone_behind ? s.behind : s.norm).emplace(m, flat_group, prefix + "_norm");
    if (plan::has_norm_behind(m) && !alone_behind) s.behind.emplace(m, flat_group, prefix + "_post_norm");
  }
  LayerGroups groups{place.occurrences.at(0)};
  std::size_t next = 1;  // as plan::LayerKind::occurrences orders them
  if (plan::has_adapter(m)) groups.adapter = place.occurrences.at(next++);
  if (plan::has_relative_positions(m)) groups.relative_positions = place.occurrences.at(next);
  if (plan::is_post_norm(m)) return std::make_unique<PostNormLayer>(m, flat_group.name, groups, std::move(sublayers));
  return std::make_unique<ResidualLayer>(m, flat_group.name, groups, std::move(sublayers));
}

std::map<std::string, BlockFactory>& blocks() {
  static std::map<std::string, BlockFactory> all{
      {"bridge",
       [](const plan::ModelConfig& m, const plan::PlacedBlock& p) {
         return std::make_unique<BridgeBlock>(m, p.flat_groups, p.occurrences);
       }},
      {"embedding",
       [](const plan::ModelConfig& m, const plan::PlacedBlock& p) {
         return std::make_unique<EmbeddingBlock>(m, p.flat_groups, p.occurrences);
       }},
      {"head", [](const plan::ModelConfig& m,
                  const plan::PlacedBlock& p) { return std::make_unique<HeadBlock>(m, p.flat_groups, p.occurrences); }},
      {"layer", make_layer},
  };
  return all;
}

const char* name_of(plan::Part part) {
  switch (part) {
    case plan::Part::input: return "embedding";
    case plan::Part::bridge: return "bridge";
    case plan::Part::output: return "head";
    default: return "layer";
  }
}

}  // namespace

void register_block(const std::string& name, BlockFactory factory) {
  plan::require_registrable("block", name, factory != nullptr);
  blocks()[name] = std::move(factory);
}

void register_block(const std::string& name, std::shared_ptr<const plan::BlockKind> kind, BlockFactory factory) {
  plan::require_registrable("block", name, kind != nullptr && factory != nullptr);
  plan::register_block(name, std::move(kind));
  register_block(name, std::move(factory));
}

void register_branch(const std::string& name, std::shared_ptr<const plan::BranchKind> kind, BranchFactory factory) {
  plan::require_registrable("branch", name, kind != nullptr && factory != nullptr);
  plan::register_branch(name, std::move(kind));
  branches()[name] = std::move(factory);
}

BlockFactory block_factory(const std::string& name) {
  const auto found = blocks().find(name);
  if (found != blocks().end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, factory] : blocks()) names.push_back(known);
  throw base::UsageError(fmt::format("no block is called {}; there are {}", name, fmt::join(names, ", ")),
                         base::value_hint(name, names));
}

std::vector<std::unique_ptr<Block>> assemble(const plan::ModelPart& part, const plan::Recomputation& recomputation,
                                             int chunk) {
  const auto& model = part.model;
  const auto wrong = plan::problems(model);
  if (!wrong.empty())
    throw base::UsageError(fmt::format("model {}: {}", model.name, fmt::join(wrong, "; ")),
                           "change the model: train --help-model describes its keys");
  std::vector<std::unique_ptr<Block>> all;
  const auto layers = plan::layer_count(part);
  std::int64_t layer = -1, of_chunk = -1;  // the last one, counted in the part and in the chunk
  for (const auto& place : plan::placed_blocks(part)) {
    if (place.part == plan::Part::layers) ++layer;
    if (place.chunk != chunk) continue;
    const std::string name = name_of(place.part);
    auto block = not_null(block_factory(name)(place.model, place), "block", name);
    if (place.part == plan::Part::layers) {
      ++of_chunk;
      const auto form = recomputation.of_layer(layer, layers);
      if (form == plan::Recompute::layers) block = recompute(std::move(block), of_chunk);
      if (form == plan::Recompute::selective) block = recompute_selectively(std::move(block));
    }
    all.push_back(std::move(block));
  }
  return all;
}

}  // namespace trainyard::model
