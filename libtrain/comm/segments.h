// Collectives over a range of every shard, so that those of a large whole can be made one part after the other.
#pragma once

#include "libtrain/comm/communicator.h"

#include <cstdint>

namespace trainyard::comm {

// Elements [first, first + count) of every shard: as Communicator::all_gather and ordered_reduce_scatter of all ranges
// together would leave them, and under their names in the ledger. Made of exchange().
void all_gather_range(Communicator& comm, tensor::Exec& exec, base::View shard, base::View whole, std::int64_t first,
                      std::int64_t count);
// `staging` holds `count` elements for each rank.
void ordered_reduce_scatter_range(Communicator& comm, tensor::Exec& exec, base::View in, base::View staging,
                                  base::View sum, base::ReductionRound round, int contributors, std::int64_t first,
                                  std::int64_t count, std::span<const int> turns = {});

// exchange() under another name in the ledger.
void exchange_as(Communicator& comm, tensor::Exec& exec, const char* name, std::span<const Transfer> transfers);

}  // namespace trainyard::comm
