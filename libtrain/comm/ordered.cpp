// The ordered reduction: an all-to-all sends each shard to its owner, who adds the contributions in ascending rank.
#include "kernels/ordered_sum/ordered_sum.h"
#include "libtrain/base/error.h"
#include "libtrain/comm/communicator.h"
#include "libtrain/comm/entry.h"
#include "libtrain/comm/segments.h"

#include <vector>

namespace trainyard::comm {

void ordered_reduce_scatter(Communicator& comm, tensor::Exec& exec, base::View in, base::View staging, base::View sum,
                            base::ReductionRound round, int contributors, std::span<const int> reduction_positions) {
  const auto n = comm.size();
  const auto shard = sum.count();
  TRAINYARD_ASSERT(contributors >= 1 && contributors <= n, "{} contributors of {}", contributors, n);
  if (n == 1) {
    exec.run([&comm] { Entry entry(comm.ledger(), "ordered_reduce_scatter", 0); });
    kernels::ordered_sum(exec, in.reshaped({1, shard}), sum, round);
    return;
  }
  if (!reduction_positions.empty())
    return ordered_reduce_scatter_range(comm, exec, in, staging, sum, round, contributors, 0, shard,
                                        reduction_positions);
  if (comm.add_contributions(exec, {in, staging, sum, round, contributors, 0, shard, {}})) return;
  const bool contributes = comm.rank() < contributors;
  TRAINYARD_ASSERT(!contributes || in.count() == n * shard, "{} elements for {} shards of {}", in.count(), n, shard);
  std::vector<std::int64_t> send(static_cast<std::size_t>(n), contributes ? shard : 0),
      receive(static_cast<std::size_t>(n), 0);
  for (int r = 0; r < contributors; ++r) receive[static_cast<std::size_t>(r)] = shard;
  const auto empty = base::View(staging.data, sum.dtype, {0}, sum.device);
  exec.run([&comm] { comm.ledger().set_alias("ordered_reduce_scatter"); });
  comm.all_to_all(exec, contributes ? in : empty, send, staging, receive);
  exec.run([&comm] { comm.ledger().set_alias(nullptr); });
  kernels::ordered_sum(exec, base::View(staging.data, sum.dtype, {contributors, shard}, sum.device), sum, round);
}

}  // namespace trainyard::comm
