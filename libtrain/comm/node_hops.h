// An all-to-all in two hops (hierarchical all-to-all): among the ranks of a node, then between nodes.
#pragma once

#include "libtrain/comm/communicator.h"

#include <vector>

namespace trainyard::comm {

// The ranks are N nodes of n ranks each. Rank r of all ranks is rank r % n of `inside`, the ranks of its node. It is
// rank r / n of `across`, the ranks with its place in every node. A rank sends n - 1 messages of N parts and N - 1
// messages of n parts. A direct all-to-all would send N * n - 1 messages of one part. `first` and `second` are staging:
// dense views on the Exec's device, each with at least the bytes of all parts. A call owns them until it is done.
struct NodeHops {
  Communicator& inside;
  Communicator& across;
  base::View first, second;
};

// Does what all_to_all with equal counts over all ranks does. `mine` and `theirs` have a part for each rank, in rank
// order. Entered in both ledgers as "all_to_all".
void all_to_all(const NodeHops& hops, tensor::Exec& exec, base::View mine, base::View theirs);
// The same for parts that lie anywhere: mine[i * ranks + r] goes to rank r and becomes its theirs[i * ranks + this
// rank]. The views of one i have equal sizes. All views have one dtype.
void all_to_all(const NodeHops& hops, tensor::Exec& exec, const std::vector<base::View>& mine,
                const std::vector<base::View>& theirs);

}  // namespace trainyard::comm
