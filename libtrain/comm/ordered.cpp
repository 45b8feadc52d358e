// The ordered reduction: an all-to-all sends each shard to its owner, who adds the contributions in ascending rank.
#include "kernels/ordered_sum/ordered_sum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/comm/communicator.h"
#include "libtrain/comm/entry.h"
#include "libtrain/comm/segments.h"

#include <vector>

namespace trainyard::comm {

void ordered_reduce_scatter(Communicator& comm, tensor::Exec& exec, const OrderedReduction& o) {
  const auto n = comm.size();
  const auto shard = o.sum.count();
  TRAINYARD_ASSERT(o.contributors >= 1 && o.contributors <= n, "{} contributors of {}", o.contributors, n);
  if (n == 1) {
    exec.run([&comm] { Entry entry(comm.ledger(), "ordered_reduce_scatter", 0); });
    kernels::ordered_sum(exec, o.in.reshaped({1, shard}), o.sum, o.round);
    return;
  }
  if (!o.reduction_positions.empty()) return ordered_reduce_scatter_range(comm, exec, o, 0, shard);
  if (comm.add_contributions(exec, o, 0, shard)) return;
  const bool contributes = comm.rank() < o.contributors;
  TRAINYARD_ASSERT(!contributes || o.in.count() == n * shard, "{} elements for {} shards of {}", o.in.count(), n,
                   shard);
  std::vector<std::int64_t> send(base::size(n), contributes ? shard : 0), receive(base::size(n), 0);
  for (int r = 0; r < o.contributors; ++r) base::at(receive, r) = shard;
  const auto empty = base::View(o.staging.data, o.sum.dtype, {0}, o.sum.device);
  exec.run([&comm] { comm.ledger().set_alias("ordered_reduce_scatter"); });
  comm.all_to_all(exec, contributes ? o.in : empty, send, o.staging, receive);
  exec.run([&comm] { comm.ledger().set_alias(nullptr); });
  kernels::ordered_sum(exec, base::View(o.staging.data, o.sum.dtype, {o.contributors, shard}, o.sum.device), o.sum,
                       o.round);
}

}  // namespace trainyard::comm
