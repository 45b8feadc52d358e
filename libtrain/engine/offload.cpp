// Opens the files of a rank's states.
#include "libtrain/engine/offload.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/index.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/engine/agreement.h"
#include "libtrain/io/disk_file.h"
#include "libtrain/io/disk_storage.h"
#include "libtrain/plan/activation_use.h"
#include "libtrain/plan/disk_use.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <system_error>

namespace trainyard::engine {

// An update in the background waits for the disk most of the time: a drive of 10 GB/s keeps two cores busy. So the
// threads that compute have the cores. Beside a GPU it has all threads of the rank.
constexpr int update_share = 4;

constexpr const char* setting_of_folders = "offload-dir";

namespace {

// What a rank needs in one of its folders.
struct NeededRoom {
  std::string folder, system;  // system: of the folder's file system, among all machines
  std::int64_t bytes = 0, free = -1;
};

// The folder, or the lowest one above it, in which a start would make it.
std::string folder_that_is_there(const std::string& folder) {
  const auto missing = base::missing_folders(folder);
  return missing.empty() ? folder : base::parent_of(missing.back());
}

std::vector<NeededRoom> rooms_of_rank(const plan::Plan& plan, int rank, const std::vector<plan::OffloadFolder>& folders,
                                      const std::string& output) {
  std::vector<NeededRoom> out;
  const auto stage = plan.stage_of(rank);
  if (plan::disk_space(plan, stage) == 0) return out;
  const auto bytes = plan::folder_bytes(plan::disk_extents(plan, stage), folders);
  for (std::size_t i = 0; i < folders.size(); ++i) {
    const bool is_output = plan::plain_path(folders[i].path) == plan::plain_path(output);
    const auto found =
        io::look_at_folder(is_output ? folder_that_is_there(output) : folders[i].path, setting_of_folders);
    out.push_back({folders[i].path, base::host_name() + " " + found.system, bytes[i], found.free});
  }
  return out;
}

}  // namespace

void require_several_folders(const std::vector<plan::OffloadFolder>& folders) {
  for (auto a = folders.begin(); a != folders.end(); ++a)
    for (auto b = std::next(a); b != folders.end(); ++b)
      if (std::error_code error; std::filesystem::equivalent(a->path, b->path, error))
        throw base::UsageError(
            base::text("$offload-dir: {} and {} are one folder", base::one_line(a->path), base::one_line(b->path)),
            "name each folder once");
}

void require_room(const plan::Plan& plan, World& world, tensor::Exec& exec,
                  const std::vector<plan::OffloadFolder>& folders, const std::string& output) {
  if (folders.empty()) return;
  std::vector<NeededRoom> mine;
  on_every_rank(world, exec, [&] { mine = rooms_of_rank(plan, world.rank, folders, output); });
  auto asked = nlohmann::json::array();
  for (const auto& room : mine) asked.push_back({base::text_of_path(room.system), room.bytes});
  struct Sum {
    std::int64_t bytes = 0;
    std::set<int> ranks;
  };
  std::map<std::string, Sum> sums;
  const auto of_all = comm::texts_of_all(*world.control, exec, asked.dump());
  for (int rank = 0; rank < world.size; ++rank)
    for (const auto& room : nlohmann::json::parse(base::at(of_all, rank))) {
      auto& sum = sums[room[0].get<std::string>()];
      sum.bytes += room[1].get<std::int64_t>();
      sum.ranks.insert(rank);
    }
  on_every_rank(world, exec, [&] {
    for (const auto& room : mine)
      if (const auto& sum = sums[base::text_of_path(room.system)]; room.free >= 0 && sum.bytes > room.free)
        throw base::EnvironmentError(
            fmt::format("the file system of {} has {} free, and {} on {} would take {} of it", room.folder,
                        base::size_text(room.free), base::counted(std::ssize(sum.ranks), "rank"), base::host_name(),
                        base::size_text(sum.bytes)),
            io::folder_hint(ENOSPC, setting_of_folders));
  });
}

std::unique_ptr<params::OffloadedStates> offloaded_states(const plan::Plan& plan, int rank,
                                                          const plan::FlatGroupSet& set, RankMemory& memory,
                                                          tensor::Exec& compute,
                                                          const std::vector<plan::OffloadFolder>& folders) {
  auto offload = plan::offload_of_stage(plan, plan.stage_of(rank));
  const auto inputs = plan::activation_offload_of_stage(plan, plan.stage_of(rank));
  if (!offload.any() && !inputs.any()) return nullptr;
  const bool on_gpu = compute.on_gpu();
  std::unique_ptr<base::Storage> storage;
  if (offload.has_any(plan::Place::disk) || inputs.disk_bytes() > 0) {
    TRAINYARD_ASSERT(!folders.empty(), "{} bytes on disk, and no folder for them",
                     offload.disk_bytes() + inputs.disk_bytes());
    io::DiskStorageOptions options;
    options.setting = setting_of_folders;
    for (const auto& folder : folders) options.folders.push_back({folder.path, folder.weight});
    options.extents = params::storage_extents(offload, set.flat_groups);
    for (std::int64_t i = 0; inputs.disk_bytes() > 0 && i < inputs.extents(); ++i)
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
                                                         params::OffloadedStates* states, RankMemory& memory,
                                                         tensor::Exec& compute) {
  using tensor::Category;
  auto inputs = plan::activation_offload_of_stage(plan, plan.stage_of(rank));
  if (!inputs.any()) return nullptr;
  auto& buffers = memory[Category::offload_buffers];
  const auto of_gpu = [&] {
    return model::OffloadedInputs::OfGpu{*states->link(), compute, memory[Category::activations]};
  };
  if (inputs.on_host())
    return std::make_unique<model::OffloadedInputs>(std::move(inputs), of_gpu(), memory[Category::offloaded_states]);
  auto& storage = *states->storage();
  const auto first = static_cast<int>(std::ssize(storage.extents()) - inputs.extents());
  if (compute.on_gpu())
    return std::make_unique<model::OffloadedInputs>(std::move(inputs), storage, first, of_gpu(), buffers);
  return std::make_unique<model::OffloadedInputs>(std::move(inputs), storage, first, buffers);
}

}  // namespace trainyard::engine
