// Sends ranges as messages, and copies a rank's own part.
#include "libtrain/comm/segments.h"

#include "kernels/ordered_sum/ordered_sum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/comm/entry.h"

#include <vector>

namespace trainyard::comm {

void exchange_as(Communicator& comm, tensor::Exec& exec, const char* name, std::span<const Transfer> transfers) {
  exec.run([&comm, name] { comm.ledger().set_alias(name); });
  comm.exchange(exec, transfers);
  exec.run([&comm] { comm.ledger().set_alias(nullptr); });
}

void all_gather_range(Communicator& comm, tensor::Exec& exec, base::View shard, base::View whole, std::int64_t first,
                      std::int64_t count) {
  TRAINYARD_ASSERT(whole.count() == comm.size() * shard.count() && first >= 0 && first + count <= shard.count(),
                   "[{}, {}) of shards of {} in {}", first, first + count, shard.count(), whole.count());
  if (comm.gather_range(exec, shard, whole, first, count)) return;
  const auto mine = shard.elements(first, count);
  std::vector<Transfer> transfers;
  for (int k = 1; k < comm.size(); ++k) {
    const int to = (comm.rank() + k) % comm.size(), from = (comm.rank() - k + comm.size()) % comm.size();
    transfers.push_back({Transfer::Kind::receive, from, whole.elements(from * shard.count() + first, count)});
    transfers.push_back({Transfer::Kind::send, to, mine});
  }
  const auto own = whole.elements(comm.rank() * shard.count() + first, count);
  if (own.data != mine.data) tensor::copy(exec, mine, own);
  exchange_as(comm, exec, "all_gather", transfers);
}

void ordered_reduce_scatter_range(Communicator& comm, tensor::Exec& exec, const OrderedReduction& o, std::int64_t first,
                                  std::int64_t count) {
  const auto shard = o.shard_elements();
  const auto reduction_position = [&](int rank) {
    return o.reduction_positions.empty() ? rank : base::at(o.reduction_positions, rank);
  };
  const int mine = reduction_position(comm.rank());
  const bool contributes = mine < o.contributors;
  TRAINYARD_ASSERT(o.contributors >= 1 && o.contributors <= comm.size() && first >= 0 && first + count <= shard &&
                       (!contributes || o.in.count() == comm.size() * shard) &&
                       (comm.size() == 1 || o.staging.count() >= o.contributors * count),
                   "[{}, {}) of shards of {}, {} contributors of {}", first, first + count, shard, o.contributors,
                   comm.size());
  const auto sum = o.sum_of(first, count);
  if (comm.size() == 1) {
    exec.run([&comm] { Entry entry(comm.ledger(), "ordered_reduce_scatter", 0); });
    return kernels::ordered_sum(exec, o.in.elements(first, count).reshaped({1, count}), sum, o.round);
  }
  if (comm.add_contributions(exec, o, first, count)) return;
  std::vector<Transfer> transfers;
  for (int k = 1; k < comm.size(); ++k) {
    const int to = (comm.rank() + k) % comm.size(), from = (comm.rank() - k + comm.size()) % comm.size();
    if (reduction_position(from) < o.contributors)
      transfers.push_back({Transfer::Kind::receive, from, o.staging.elements(reduction_position(from) * count, count)});
    if (contributes) transfers.push_back({Transfer::Kind::send, to, o.in.elements(to * shard + first, count)});
  }
  if (contributes)
    tensor::copy(exec, o.in.elements(comm.rank() * shard + first, count), o.staging.elements(mine * count, count));
  exchange_as(comm, exec, "ordered_reduce_scatter", transfers);
  kernels::ordered_sum(exec, base::View(o.staging.data, sum.dtype, {o.contributors, count}, sum.device), sum, o.round);
}

}  // namespace trainyard::comm
