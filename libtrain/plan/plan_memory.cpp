// Sums the memory of stages that differ.
#include "libtrain/plan/plan_memory.h"

#include "libtrain/base/index.h"
#include "libtrain/plan/blocks/known_model.h"
#include "libtrain/plan/schedule/partition.h"
#include "libtrain/plan/schedule/stage_messages.h"
#include "libtrain/plan/spec/conditions.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

PartMemory part_memory(const Plan& p, const Stages& stages, int stage) {
  return {part_of(p.model, stages, stage).with_experts(p.experts()),
          p.states(),
          p.micro(),
          {slots_of_stage(p, stage), message_buffer_bytes(p.model, stages, stage, p.micro(), Pass::train),
           flat_groups_of_stage(p.model, stages, stage), sharing_stages(p.model, stages), p.offload.activations}};
}

// Which layers are alike: for each layer the index of the first one that is like it.
std::vector<std::int64_t> kinds_of_layers(const ModelConfig& m) {
  const auto known = known_model(m);
  std::vector<std::int64_t> out;
  for (const auto& alike : known->layers()) {
    const auto same = std::find_if(known->layers().begin(), known->layers().end(),
                                   [&](const auto& other) { return other.model == alike.model; });
    out.insert(out.end(), base::size(alike.end - alike.first), same->first);
  }
  return out;
}

// What stages differ in, beside the micro-batches in flight: the kinds of the items of each chunk.
using StageForm = std::vector<std::vector<std::int64_t>>;
StageForm stage_form(const Plan& p, const Stages& stages, int stage, const std::vector<std::int64_t>& kinds) {
  constexpr std::int64_t embedding = -1, head = -2, bridge = -3;
  StageForm out;
  for (const auto& chunk : part_of(p.model, stages, stage).chunks) {
    auto& items = out.emplace_back();
    const auto layers = layers_of(p.model, chunk);
    for (auto layer = layers.begin; layer < layers.end; ++layer) items.push_back(base::at(kinds, layer));
    if (chunk.begin == 0) items.push_back(embedding);
    if (chunk.end == item_count(p.model)) items.push_back(head);
    const auto between = p.model.encoder_layers + 1;
    if (has_encoder(p.model) && chunk.begin <= between && between < chunk.end) items.push_back(bridge);
  }
  out.push_back({message_buffer_bytes(p.model, stages, stage, p.micro(), Pass::train)});
  for (const auto& shared : flat_groups_of_stage(p.model, stages, stage)) out.back().push_back(std::ssize(shared.uses));
  return out;
}

// Of some stages, such that no other stage needs more: one needs no more than another of its form with as many
// micro-batches in flight.
std::vector<PartMemory> memory_of_forms(const Plan& p, const Stages& stages) {
  std::vector<PartMemory> out{part_memory(p, stages, 0)};
  if (p.pipeline == 1) return out;
  const auto kinds = kinds_of_layers(p.model);
  std::vector<std::pair<StageForm, std::vector<int>>> known;
  for (int stage = 0; stage < p.pipeline; ++stage) {
    auto form = stage_form(p, stages, stage, kinds);
    auto slots = slots_of_stage(p, stage);
    const bool seen = std::any_of(known.begin(), known.end(), [&](const auto& other) {
      return other.first == form && std::equal(slots.begin(), slots.end(), other.second.begin(),
                                               [](int few, int many) { return few <= many; });
    });
    if (seen) continue;
    known.emplace_back(std::move(form), std::move(slots));
    if (stage > 0) out.push_back(part_memory(p, stages, stage));
  }
  return out;
}

MemoryBytes largest_of(const std::vector<PartMemory>& parts, const Recomputation& recompute) {
  auto most = parts.front().with(recompute);
  for (const auto& part : parts)
    if (auto bytes = part.with(recompute); bytes.total() > most.total()) most = std::move(bytes);
  return most;
}

std::int64_t most_on_host_of(const std::vector<PartMemory>& parts, const Recomputation& recompute) {
  std::int64_t most = 0;
  for (const auto& part : parts) most = std::max(most, part.with(recompute).on_host);
  return most;
}

}  // namespace

MemoryBytes memory_of_stage(const Plan& p, int stage) { return part_memory(p, p.stages, stage).with(p.recompute); }

MemoryBytes largest_memory(const Plan& p) { return largest_of(memory_of_forms(p, p.stages), p.recompute); }

std::int64_t most_on_host(const Plan& p) { return most_on_host_of(memory_of_forms(p, p.stages), p.recompute); }

const std::vector<PartMemory>& PlanMemory::stages_with(const Recomputation& recompute) {
  const PartitionOf whole{plan_.model, plan_.lengths(), recompute};
  Stages stages{plan_.pipeline, partition(plan_.partition, whole, plan_.pipeline * plan_.virtual_stages)};
  for (const auto& [of, parts] : known_)
    if (of == stages) return parts;
  auto parts = memory_of_forms(plan_, stages);
  return known_.emplace_back(std::move(stages), std::move(parts)).second;
}

MemoryBytes PlanMemory::largest(const Recomputation& recompute) {
  return largest_of(stages_with(recompute), recompute);
}

std::int64_t PlanMemory::most_on_host(const Recomputation& recompute) {
  return most_on_host_of(stages_with(recompute), recompute);
}

}  // namespace trainyard::plan
