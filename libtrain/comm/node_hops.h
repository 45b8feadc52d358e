// An all-to-all in two hops: among the ranks of a node, then between nodes.
#pragma once

#include "libtrain/comm/communicator.h"

#include <vector>

namespace trainyard::comm {

// N nodes of n ranks: rank r of all is rank r % n of `inside`, its node, and rank r / n of `across`, those that have
// its place in the other nodes. A rank sends n - 1 messages of N parts and N - 1 of n, in place of N * n - 1 of one.
// The views are dense, on the Exec's device, each of at least the bytes of all parts; they are this call's until it is
// done.
struct NodeHops {
  Communicator& inside;
  Communicator& across;
  base::View first, second;
};

// As all_to_all of equal counts over all ranks: `mine` and `theirs` have a part for each, in their order. Entered in
// both ledgers as "all_to_all".
void all_to_all(const NodeHops& hops, tensor::Exec& exec, base::View mine, base::View theirs);
// The same of parts that lie anywhere: mine[i * ranks + r] goes to rank r and is its theirs[i * ranks + this rank]; of
// a part all are of one size. Views of one dtype.
void all_to_all(const NodeHops& hops, tensor::Exec& exec, const std::vector<base::View>& mine,
                const std::vector<base::View>& theirs);

}  // namespace trainyard::comm
