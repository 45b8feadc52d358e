// Opens the files of a rank's states.
#include "libtrain/engine/offload.h"

#include "libtrain/base/error.h"
#include "libtrain/io/disk_storage.h"
#include "libtrain/plan/disk_use.h"

namespace trainyard::engine {

std::unique_ptr<params::OffloadedStates> offloaded_states(const plan::Plan& plan, int rank,
                                                          const plan::FlatGroupSet& set, RankMemory& memory,
                                                          const std::vector<plan::OffloadFolder>& folders) {
  auto offload = plan::offload_of_stage(plan, plan.stage_of(rank));
  if (!offload.any()) return nullptr;
  TRAINYARD_ASSERT(!folders.empty(), "{} bytes on disk, and no folder for them", offload.disk_bytes());
  io::DiskStorageOptions options;
  for (const auto& folder : folders) options.folders.push_back({folder.path, folder.weight});
  options.extents = params::storage_extents(offload, set.flat_groups);
  return std::make_unique<params::OffloadedStates>(std::move(offload),
                                                   std::make_unique<io::DiskStorage>(std::move(options)),
                                                   memory[tensor::Category::offload_buffers]);
}

}  // namespace trainyard::engine
