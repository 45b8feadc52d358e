// The device of a rank, and communicators for GPUs.
#include "libtrain/engine/place.h"

#include "libtrain/base/cores.h"
#include "libtrain/base/log.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/comm/nccl.h"
#include "libtrain/comm/staged.h"
#include "libtrain/engine/agreement.h"
#include "libtrain/tensor/gpu.h"

#include <algorithm>

namespace trainyard::engine {

Place agree_on_device(RunConfig& config, World& world, tensor::Exec& exec) {
  if (config.device == "auto")
    config.device = on_rank_zero(world, exec, [] { return std::string(tensor::gpu_available() ? "cuda" : "cpu"); });
  if (config.device != "cuda") return {};
  base::Device device{base::DeviceKind::cuda, 0};
  on_every_rank(world, exec, [&] {
    device.index = world.local_rank % std::max(1, tensor::gpu_module().runtime->device_count());
    tensor::gpu_info(device.index);
  });
  return {device, comm::gpu_share(*world.control, exec, device.index)};
}

void move_to_gpu(const RunConfig& config, World& world, const Place& place) {
  if (world.size == 1) return;
  auto& exec = *world.communication;
  const auto device = place.device;
  std::int32_t able = world.kind == "mpi" && comm::nccl_available() && place.share.one_each ? 1 : 0;
  world.control->all_reduce(exec, base::View::of(&able, {1}), comm::Reduction::min);
  exec.synchronize();
  const bool nccl = config.communicator == "nccl" || (config.communicator == "auto" && able == 1);
  using Owned = std::unique_ptr<comm::Communicator>;
  // In a group of one rank nothing leaves the rank.
  const auto with_peers = [&](const std::function<Owned(Owned)>& make) {
    world.replace_groups([&](Owned host) { return host->size() == 1 ? std::move(host) : make(std::move(host)); });
  };
  world.stages_on_device = nccl;
  if (nccl)
    on_every_rank(world, exec, [&] {
      with_peers([&](Owned host) { return comm::make_nccl(host->group(), device.index, *host); });
      auto& data = world.group({plan::Axis::data});
      world.results = data.size() == world.size ? comm::nccl_group("results", data)
                                                : comm::make_nccl("results", device.index, *world.control);
    });
  else {
    with_peers([](Owned host) { return comm::staged(std::move(host)); });
    world.results = comm::staged(*world.control);
  }
  world.communication = tensor::Exec::gpu(device.index, nullptr);
}

void report_threads(int asked, int share, const World& world) {
  const int threads = asked > 0 ? asked : base::threads_of_environment();
  if (world.rank != 0 || threads == 0) return;
  const auto mine = base::own_core_mask();
  const int cores = base::fair_threads({&mine, 1}, 0);
  const auto origin = asked > 0 ? base::setting_name("threads") : "OMP_NUM_THREADS";
  if (threads > cores)
    base::log_warning(
        "{} {} is more than the {} that a rank may use here, so threads wait for one another ({} uses all of them and "
        "no more)",
        origin, threads, base::counted(cores, "core"), asked > 0 ? base::text("$threads 0") : "without it a rank");
  else if (asked == 0 && threads < share)
    base::log_info("{} a rank, as OMP_NUM_THREADS says; its share of the cores would be {} ($threads overrides it)",
                   base::counted(threads, "thread"), share);
}

}  // namespace trainyard::engine
