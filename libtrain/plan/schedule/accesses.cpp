// The access order of a micro-batch, made from the order of each block.
#include "libtrain/plan/schedule/accesses.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

// The blocks of a chunk, in order.
std::vector<PlacedBlock> blocks_of(const ModelPart& part, int chunk) {
  auto blocks = placed_blocks(part);
  std::erase_if(blocks, [&](const PlacedBlock& block) { return block.chunk != chunk; });
  return blocks;
}

std::vector<Access> leases(const std::vector<PlacedBlock>& blocks, std::vector<int> BlockAccesses::*of) {
  std::vector<Access> out;
  for (const auto& block : blocks)
    for (int occurrence : block.accesses.*of)
      out.push_back({Access::Kind::lease, base::at(block.occurrences, occurrence)});
  return out;
}

}  // namespace

std::vector<Access> forward_accesses(const ModelPart& part, int chunk) {
  return leases(blocks_of(part, chunk), &BlockAccesses::forward);
}

std::vector<Access> evaluation_accesses(const ModelPart& part, int chunk) {
  return leases(blocks_of(part, chunk), &BlockAccesses::evaluation);
}

namespace {

// The accesses of backward, last block first, for which takes(block, step) holds.
template <class Takes> std::vector<Access> in_reverse(const ModelPart& part, int chunk, const Takes& takes) {
  std::vector<Access> out;
  const auto blocks = blocks_of(part, chunk);
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block)
    for (const auto& step : block->accesses.backward)
      if (takes(*block, step)) out.push_back({step.kind, base::at(block->occurrences, step.occurrence)});
  return out;
}

bool comes_later(const PlacedBlock& block, const BlockAccesses::Step& step) {
  return step.kind == Access::Kind::commit && block.kind->makes_weight_gradients_apart(block.model);
}

}  // namespace

std::vector<Access> backward_accesses(const ModelPart& part, int chunk) {
  return in_reverse(part, chunk, [](const auto&, const auto&) { return true; });
}

std::vector<Access> input_gradient_accesses(const ModelPart& part, int chunk) {
  return in_reverse(part, chunk, [](const auto& block, const auto& step) { return !comes_later(block, step); });
}

std::vector<Access> weight_gradient_accesses(const ModelPart& part, int chunk) {
  return in_reverse(part, chunk, [](const auto& block, const auto& step) { return comes_later(block, step); });
}

std::vector<AccessesOfBlock> accesses_of_blocks(const ModelPart& part, int chunk) {
  std::vector<AccessesOfBlock> out;
  for (const auto& block : blocks_of(part, chunk)) {
    AccessesOfBlock of{leases({block}, &BlockAccesses::forward), {}, {}, {}};
    for (const auto& step : block.accesses.backward) {
      const Access access{step.kind, base::at(block.occurrences, step.occurrence)};
      of.backward.push_back(access);
      (comes_later(block, step) ? of.weight_gradients : of.input_gradients).push_back(access);
    }
    out.push_back(std::move(of));
  }
  return out;
}

std::vector<Access> training_accesses(const ModelPart& part, int chunk) {
  auto out = forward_accesses(part, chunk);
  for (const auto& access : backward_accesses(part, chunk)) out.push_back(access);
  return out;
}

std::vector<Occurrence> leases_of(const std::vector<Access>& accesses) {
  std::vector<Occurrence> out;
  for (const auto& a : accesses)
    if (a.kind == Access::Kind::lease) out.push_back(a.occurrence);
  return out;
}

namespace {

// List b is the forward pass of block b, list blocks + b its backward pass.
LeaseOrder breadth_first_leases(const ModelPart& part, const std::vector<Action>& actions) {
  LeaseOrder out;
  out.keeps = true;
  const auto blocks = accesses_of_blocks(part);
  for (const auto& block : blocks) out.lists.push_back(leases_of(block.forward));
  for (const auto& block : blocks) out.lists.push_back(leases_of(block.backward));
  for (const auto& a : actions)
    if (a.block >= 0)
      out.passes.push_back(
          static_cast<std::uint32_t>(a.kind == Action::Kind::forward ? a.block : std::ssize(blocks) + a.block));
  return out;
}

}  // namespace

LeaseOrder step_leases(const ModelPart& part, const std::vector<Action>& actions) {
  if (std::any_of(actions.begin(), actions.end(), [](const Action& a) { return a.block >= 0; }))
    return breadth_first_leases(part, actions);
  const auto chunks = static_cast<int>(part.chunks.size());
  LeaseOrder out;
  for (int c = 0; c < chunks; ++c) out.lists.push_back(leases_of(forward_accesses(part, c)));
  for (int c = 0; c < chunks; ++c) out.lists.push_back(leases_of(backward_accesses(part, c)));
  for (const auto& a : actions) {
    if (a.kind == Action::Kind::forward) out.passes.push_back(static_cast<std::uint32_t>(a.chunk));
    if (a.kind == Action::Kind::backward || a.kind == Action::Kind::input_gradients)
      out.passes.push_back(static_cast<std::uint32_t>(chunks + a.chunk));
  }
  return out;
}

// A second pass of a block finds its slots as every later pass does.
std::vector<std::int64_t> breadth_first_gathers(const ModelPart& part, const SlotPlan& slots, std::int64_t micros) {
  std::vector<std::int64_t> out(base::size(slots.flat_groups()), 0);
  std::vector<int> held(slots.elements().size(), -1);  // for each slot the flat group in it
  const auto pass = [&](const std::vector<Access>& accesses, std::int64_t times) {
    for (const auto& occurrence : leases_of(accesses)) {
      auto& in_slot = base::at(held, slots.slot_of(occurrence.flat_group));
      if (in_slot != occurrence.flat_group) base::at(out, occurrence.flat_group) += times;
      in_slot = occurrence.flat_group;
    }
  };
  const auto passes = [&](const std::vector<Access>& accesses) {
    pass(accesses, 1);
    pass(accesses, micros - 1);
  };
  const auto blocks = accesses_of_blocks(part);
  for (const auto& block : blocks) passes(block.forward);
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) passes(block->backward);
  return out;
}

}  // namespace trainyard::plan
