// Gathers the identifiers of the ranks' GPUs.
#include "libtrain/comm/gpu_share.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/tensor/gpu.h"

#include <algorithm>
#include <array>
#include <vector>

namespace trainyard::comm {

GpuShare gpu_share(Communicator& control, tensor::Exec& exec, int device) {
  struct Identity {
    std::array<unsigned char, sizeof(tensor::GpuInfo::uuid)> uuid{};
    unsigned char present = 0;
  };
  Identity mine;
  if (device >= 0) try {
      const auto info = tensor::gpu_info(device);
      std::copy(std::begin(info.uuid), std::end(info.uuid), mine.uuid.begin());
      mine.present = 1;
    } catch (const base::EnvironmentError&) {  // no GPU; not rethrown, because the other ranks wait for this one
    }
  std::vector<Identity> all(base::size(control.size()), mine);
  if (control.size() > 1) {
    const auto bytes = static_cast<std::int64_t>(sizeof mine);
    control.all_gather(exec, base::View(&mine, base::DType::u8, {bytes}),
                       base::View(all.data(), base::DType::u8, {bytes * control.size()}));
    exec.synchronize();
  }
  const auto on = [&](const Identity& gpu) {
    return std::count_if(all.begin(), all.end(),
                         [&](const Identity& other) { return other.present != 0 && other.uuid == gpu.uuid; });
  };
  GpuShare out;
  if (mine.present != 0) out.ranks = static_cast<int>(on(mine));
  out.one_each =
      std::all_of(all.begin(), all.end(), [&](const Identity& gpu) { return gpu.present != 0 && on(gpu) == 1; });
  return out;
}

}  // namespace trainyard::comm
