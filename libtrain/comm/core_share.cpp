// Gathers the affinity masks of the ranks.
#include "libtrain/comm/core_share.h"

#include "libtrain/base/index.h"

#include <vector>

namespace trainyard::comm {

int threads_of_rank(Communicator& control, tensor::Exec& exec, const base::CoreMask& mine) {
  std::vector<base::CoreMask> all(base::size(control.size()), mine);
  const auto bytes = static_cast<std::int64_t>(sizeof mine);
  if (control.size() > 1) {
    auto own = mine;
    control.all_gather(exec, base::View(&own, base::DType::u8, {bytes}),
                       base::View(all.data(), base::DType::u8, {bytes * control.size()}));
    exec.synchronize();
  }
  return base::fair_threads(all, base::size(control.rank()));
}

}  // namespace trainyard::comm
