// Gathers the affinity masks of the ranks.
#include "libtrain/comm/core_share.h"

#include "libtrain/base/index.h"

#include <algorithm>
#include <bit>
#include <map>
#include <vector>

namespace trainyard::comm {

namespace {

std::vector<base::CoreMask> masks_of_all(Communicator& control, tensor::Exec& exec, const base::CoreMask& mine) {
  std::vector<base::CoreMask> all(base::size(control.size()), mine);
  const auto bytes = static_cast<std::int64_t>(sizeof mine);
  if (control.size() > 1) {
    auto own = mine;
    control.all_gather(exec, base::View(&own, base::DType::u8, {bytes}),
                       base::View(all.data(), base::DType::u8, {bytes * control.size()}));
    exec.synchronize();
  }
  return all;
}

}  // namespace

int threads_of_rank(Communicator& control, tensor::Exec& exec, const base::CoreMask& mine) {
  return base::fair_threads(masks_of_all(control, exec, mine), base::size(control.rank()));
}

int cores_of_machine(Communicator& control, tensor::Exec& exec, const base::CoreMask& mine) {
  auto together = mine;
  std::map<std::uint64_t, double> quotas;  // by the groups that share them
  bool limited = true;
  for (const auto& one : masks_of_all(control, exec, mine)) {
    if (one.machine != mine.machine) continue;
    for (std::size_t i = 0; i < one.cores.size(); ++i) together.cores.at(i) |= one.cores.at(i);
    limited = limited && one.quota > 0;
    quotas[one.quota_group] = one.quota;
  }
  int cores = 0;
  for (const auto word : together.cores) cores += std::popcount(word);
  double quota = 0;
  for (const auto& [group, seconds] : quotas) quota += seconds;
  return std::max(1, limited && quota < cores ? static_cast<int>(quota) : cores);
}

}  // namespace trainyard::comm
