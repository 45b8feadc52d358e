// Reads the affinity mask and the control group, and divides cores and quotas.
#include "libtrain/base/cores.h"

#include "libtrain/base/control_group.h"
#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/index.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <sched.h>

namespace trainyard::base {

namespace {

bool has_core(const CoreMask& mask, int core) { return (mask.cores[size(core) / 64] >> (core % 64) & 1) != 0; }

}  // namespace

CoreMask own_core_mask() {
  CoreMask mask;
  mask.machine = std::hash<std::string>()(host_name());
  static_assert(sizeof mask.cores % sizeof(unsigned long) == 0);
  if (sched_getaffinity(0, sizeof mask.cores, reinterpret_cast<cpu_set_t*>(mask.cores.data())) != 0) mask.cores[0] = 1;
  const auto group = own_control_group();
  mask.quota = group.cores, mask.quota_group = group.cores_group;
  return mask;
}

int fair_threads(std::span<const CoreMask> masks, std::size_t own) {
  TRAINYARD_ASSERT(own < masks.size(), "mask {} of {}", own, masks.size());
  const auto& mine = masks[own];
  double share = 0;
  for (int core = 0; core < static_cast<int>(64 * mine.cores.size()); ++core) {
    if (!has_core(mine, core)) continue;
    share += 1.0 / static_cast<double>(std::count_if(masks.begin(), masks.end(), [&](const CoreMask& m) {
               return m.machine == mine.machine && has_core(m, core);
             }));
  }
  if (mine.quota > 0) {
    const auto sharing = std::count_if(masks.begin(), masks.end(), [&](const CoreMask& m) {
      return m.machine == mine.machine && m.quota > 0 && m.quota_group == mine.quota_group;
    });
    share = std::min(share, mine.quota / static_cast<double>(sharing));
  }
  return std::max(1, static_cast<int>(share + 1e-6));  // three thirds of a core add up to one core
}

int threads_of_environment() {
  const char* text = std::getenv("OMP_NUM_THREADS");
  if (text == nullptr) return 0;
  char* end = nullptr;
  const long n = std::strtol(text, &end, 10);
  while (*end == ' ') ++end;
  return n >= 1 && n <= 4096 && (*end == 0 || *end == ',') ? static_cast<int>(n) : 0;
}

int team_threads(int asked, int share) {
  const int by_environment = threads_of_environment();
  return asked > 0 ? asked : by_environment > 0 ? by_environment : share;
}

int threads_or_all(int asked) {
  if (asked > 0) return asked;
  const auto mask = own_core_mask();
  return fair_threads({&mask, 1}, 0);
}

}  // namespace trainyard::base
