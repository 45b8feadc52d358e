// Opens the files of a rank's states.
#include "libtrain/engine/offload.h"

#include "libtrain/base/error.h"
#include "libtrain/io/disk_storage.h"
#include "libtrain/plan/activation_use.h"
#include "libtrain/plan/disk_use.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::engine {

// An update in the background waits for the disk most of the time: a drive of 10 GB/s keeps two cores busy. So the
// threads that compute have the cores. Beside a GPU it has all threads of the rank.
constexpr int update_share = 4;

std::unique_ptr<params::OffloadedStates> offloaded_states(const plan::Plan& plan, int rank,
                                                          const plan::FlatGroupSet& set, RankMemory& memory,
                                                          tensor::Exec& compute,
                                                          const std::vector<plan::OffloadFolder>& folders) {
  auto offload = plan::offload_of_stage(plan, plan.stage_of(rank));
  const auto inputs = plan::activation_offload_of_stage(plan, plan.stage_of(rank));
  if (!offload.any() && !inputs.any()) return nullptr;
  const bool on_gpu = compute.on_gpu();
  std::unique_ptr<base::Storage> storage;
  if (offload.has_any(plan::Place::disk) || inputs.any()) {
    TRAINYARD_ASSERT(!folders.empty(), "{} bytes on disk, and no folder for them",
                     offload.disk_bytes() + inputs.disk_bytes());
    io::DiskStorageOptions options;
    for (const auto& folder : folders) options.folders.push_back({folder.path, folder.weight});
    options.extents = params::storage_extents(offload, set.flat_groups);
    for (std::int64_t i = 0; i < inputs.extents(); ++i)
      options.extents.push_back({fmt::format("input {} of a layer", i), inputs.bytes()});
    storage = std::make_unique<io::DiskStorage>(std::move(options));
  }
  using tensor::Category;
  const params::OffloadMemory places{.buffers = memory[Category::offload_buffers],
                                     .states = &memory[Category::offloaded_states],
                                     .arrivals = &memory[Category::gathered_weights],
                                     .sums = &memory[Category::gradients]};
  const int threads = on_gpu ? plan.threads : std::max(1, plan.threads / update_share);
  return std::make_unique<params::OffloadedStates>(std::move(offload), std::move(storage), places, threads,
                                                   on_gpu ? &compute : nullptr);
}

std::unique_ptr<model::OffloadedInputs> offloaded_inputs(const plan::Plan& plan, int rank,
                                                         params::OffloadedStates* states, RankMemory& memory) {
  auto inputs = plan::activation_offload_of_stage(plan, plan.stage_of(rank));
  if (!inputs.any()) return nullptr;
  auto& storage = *states->storage();
  const auto first = std::ssize(storage.extents()) - inputs.extents();
  return std::make_unique<model::OffloadedInputs>(std::move(inputs), storage, static_cast<int>(first),
                                                  memory[tensor::Category::offload_buffers]);
}

}  // namespace trainyard::engine
