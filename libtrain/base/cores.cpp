// Asks the affinity mask.
#include "libtrain/base/cores.h"

#include <algorithm>
#include <sched.h>

namespace trainyard::base {

int default_threads(int ranks_on_node) {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = 1;
  if (sched_getaffinity(0, sizeof set, &set) == 0) cores = CPU_COUNT(&set);
  return std::max(1, cores / std::max(1, ranks_on_node));
}

}  // namespace trainyard::base
