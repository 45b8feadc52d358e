// Adds up the bytes of states, activations and workspace.
#include "libtrain/plan/cost/memory.h"

#include "libtrain/base/error.h"
#include "libtrain/base/memo.h"
#include "libtrain/plan/blocks/known_model.h"
#include "libtrain/plan/blocks/scratch.h"
#include "libtrain/plan/cost/activation_offload.h"
#include "libtrain/plan/cost/expert_nodes.h"
#include "libtrain/plan/cost/matrix_updates.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace trainyard::plan {

std::int64_t MemoryBytes::arenas() const { return categories.total(); }

int gpu_communicators(const Topology& topology, int chunks, const std::vector<int>& sharing) {
  int all = 0;
  for (const auto axis : {Axis::data, Axis::tensor, Axis::expert_data, Axis::expert, Axis::expert_outer,
                          Axis::expert_inner, Axis::zero_group, Axis::reduction_outer, Axis::reduction_inner})
    all += topology.size(axis) > 1 ? 1 : 0;
  const int stages = topology.size(Axis::pipe);
  if (topology.size(Axis::data) < topology.world()) ++all;  // for results of all ranks
  // Two queues for each neighbour, and one communicator for flat groups that stages hold together. In a ring every
  // stage has four queues.
  int most = 0;
  for (int stage = 0; stage < stages && stages > 1; ++stage) {
    const int neighbours = chunks > 1 ? 2 : (stage > 0 ? 1 : 0) + (stage + 1 < stages ? 1 : 0);
    most = std::max(most, 2 * neighbours + static_cast<int>(std::count(sharing.begin(), sharing.end(), stage)));
  }
  return all + most;
}

std::int64_t reserve_bytes(const MicroShape& micro, const Topology& topology, int chunks,
                           const std::vector<int>& sharing) {
  constexpr std::int64_t mebibyte = 1 << 20;
  if (micro.device == base::DeviceKind::cuda) {
    const std::int64_t communicators = gpu_communicators(topology, chunks, sharing);
    return (768 + (communicators > 0 ? 448 + 64 * communicators : 0)) * mebibyte;
  }
  return (std::int64_t{384} << 20) + micro.threads * (std::int64_t{16} << 20);
}

std::int64_t loaded_bytes(const MicroShape& micro, Objective objective) {
  const int arrays = objective == Objective::masked ? 5 : 4;
  const auto of_source =
      micro.source > 0 ? 4 * base::aligned(micro.source_rows() * 4) + 2 * base::aligned(micro.tokens() * 4) : 0;
  return arrays * base::aligned(micro.tokens() * 4) + base::aligned(micro.batch * 8) + base::aligned(micro.tokens()) +
         base::aligned(8) + of_source;
}

std::int64_t stage_staging_bytes(const FlatGroupTable& table, const StateShape& states,
                                 const std::vector<FlatGroupOfStages>& flat_groups_of_stages) {
  std::int64_t elements = 0;
  for (const auto& e : table.entries())
    for (const auto& shared : flat_groups_of_stages)
      if (shared.flat_group == e.flat_group.name)
        elements += (std::ssize(shared.uses) - e.occurrences) * e.layout.shard;
  return base::aligned(elements * base::size_of(states.gradient));
}

namespace {

// The thread keeps the last ones, because layouts that differ in their states alone are many.
std::shared_ptr<const PassBytes> pass_bytes(const ModelPart& part, const MicroShape& micro) {
  constexpr std::size_t most_items = 1 << 13;
  using Key = std::tuple<std::shared_ptr<const KnownModel>, std::vector<std::int64_t>, ExpertShare, MicroShape>;
  thread_local base::Memo<Key, std::shared_ptr<const PassBytes>> known(most_items);
  Key key{known_model(part.model), {}, part.experts, micro};
  for (const auto& items : part.chunks) std::get<1>(key).insert(std::get<1>(key).end(), {items.begin, items.end});
  if (auto before = known.find(key)) return *std::move(before);
  auto made = std::make_shared<const PassBytes>(
      PassBytes{.slots = SlotCounter(part, micro),
                .staging = tensor_staging_bytes(part.model, micro) + expert_staging_bytes(part, micro, Pass::train),
                .workspace = workspace_bytes(part, micro, Pass::train)});
  return known.keep(std::move(key), std::move(made), 1 + part.chunks.size());
}

}  // namespace

PartMemory::PartMemory(const ModelPart& part, const StateShape& states, const MicroShape& micro, InFlight in_flight)
    : part_(part), micro_(micro), in_flight_(std::move(in_flight)), passes_(pass_bytes(part, micro)) {
  const FlatGroupTable table(part, states.topology);
  const auto s = state_bytes(table, states);
  using Category = base::MemoryCategory;
  auto& of = others_.categories;
  of[Category::parameters] = s.parameters;
  of[Category::gathered_weights] = s.gathered_weights;
  of[Category::gradients] = s.gradients;
  of[Category::micro_batch_gradients] = s.micro_batch_gradients;
  of[Category::optimizer] = s.optimizer;
  of[Category::activations] = in_flight_.message_buffers;
  of[Category::communication_staging] =
      s.communication_staging + passes_->staging + stage_staging_bytes(table, states, in_flight_.flat_groups_of_stages);
  of[Category::workspace] = passes_->workspace;
  if (states.optimizer->collective == OptimizerKind::Collective::whole_matrices)
    of[Category::workspace] =
        std::max(of[Category::workspace], MatrixUpdates(table, states.topology).workspace_bytes(micro.device));
  of[Category::save_snapshot] = s.save_snapshot;
  of[Category::offload_buffers] = s.offload_buffers;
  of[Category::offloaded_states] = s.offloaded_states;
  others_.reserve =
      reserve_bytes(micro, states.topology, static_cast<int>(in_flight_.slots.size()), in_flight_.sharing_stages) +
      (in_flight_.slots.front() - 1) * loaded_bytes(micro, objective_of(part.model));
}

MemoryBytes PartMemory::with(const Recomputation& recompute) const {
  using Category = base::MemoryCategory;
  const ActivationOffload inputs(part_, micro_, in_flight_.activations, recompute, in_flight_.slots);
  auto out = others_;
  auto& of = out.categories;
  of[Category::activations] +=
      passes_->slots.with(recompute, in_flight_.slots, inputs.layers_of_chunks()).total(in_flight_.slots) +
      inputs.device_buffer_bytes();
  of[Category::offload_buffers] += inputs.buffer_bytes();
  of[Category::offloaded_states] += inputs.host_bytes();
  out.on_host = of.elsewhere(micro_.device);
  return out;
}

MemoryBytes rank_memory(const ModelPart& part, const StateShape& states, const MicroShape& micro,
                        const Recomputation& recompute, const InFlight& in_flight) {
  return PartMemory(part, states, micro, in_flight).with(recompute);
}

double model_state_bytes(std::int64_t parameters, int n, int stage, base::DType working, base::DType gradient,
                         const OptimizerKind& optimizer) {
  TRAINYARD_ASSERT(stage >= 0 && stage <= 3 && n >= 1 && parameters >= 0, "stage {} n {} parameters {}", stage, n,
                   parameters);
  const std::int64_t w = base::size_of(working), g = base::size_of(gradient),
                     k = optimizer.state_bytes() + master_bytes(working);
  const std::int64_t cut = (stage >= 1 ? k : 0) + (stage >= 2 ? g : 0) + (stage >= 3 ? w : 0), whole = w + g + k - cut;
  return static_cast<double>(whole * parameters) + static_cast<double>(cut * parameters) / n;
}

}  // namespace trainyard::plan
