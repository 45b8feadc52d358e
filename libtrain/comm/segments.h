// Collectives over a range of every shard, so that a large collective can be made one part after the other.
#pragma once

#include "libtrain/comm/communicator.h"

#include <cstdint>

namespace trainyard::comm {

// Both work on elements [first, first + count) of every shard. Calls for all ranges together leave what
// Communicator::all_gather and ordered_reduce_scatter leave, and the ledger has them under those names. Built on
// exchange(), unless the communicator has its own way (Communicator::gather_range, add_contributions).
void all_gather_range(Communicator& comm, tensor::Exec& exec, base::View shard, base::View whole, std::int64_t first,
                      std::int64_t count);
// The reduction's `staging` holds `count` elements for each rank.
void ordered_reduce_scatter_range(Communicator& comm, tensor::Exec& exec, const OrderedReduction& reduction,
                                  std::int64_t first, std::int64_t count);

// exchange() under another name in the ledger.
void exchange_as(Communicator& comm, tensor::Exec& exec, const char* name, std::span<const Transfer> transfers);

}  // namespace trainyard::comm
