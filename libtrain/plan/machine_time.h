// Seconds of products, of kernels that only move bytes, and of collectives, on a machine that is described by its
// rates.
#pragma once

#include "libtrain/plan/blocks/work.h"
#include "libtrain/plan/cost/sized_calls.h"
#include "libtrain/plan/grid/topology.h"
#include "libtrain/plan/machine/machine.h"

namespace trainyard::plan {

// A product runs at the rate of products, or of memory if that takes longer. A GPU computes as many tiles of the result
// at one time as it has multiprocessors, so the last wave of tiles may be partly empty. Of several sizes of tiles the
// best is taken, as libraries do (NVIDIA, "Matrix Multiplication Background User's Guide": tile and wave quantization).
double product_seconds(const Machine& machine, const Product& product, base::DType type);
double attention_seconds(const Machine& machine, const Product& product, base::DType type);  // in a fused kernel
double move_seconds(const Machine& machine, double bytes);                                   // in a device's memory

// One call. Ranks of a node are neighbours, and a group has as many ranks in each node as its stride allows. All groups
// of a node call at the same time, so they share its network. Gathers and reductions of a library go in rings, which
// send (n - 1) / n of the bytes over each link, and an all-reduce twice that (Thakur et al. 2005). Ordered reductions
// and all-to-alls send each rank its part directly, and so do gathers of CPUs. A hierarchical reduction passes partial
// sums from node to node.
double call_seconds(const Machine& machine, const Topology& topology, const SizedCalls& call);
// A message of a pipeline stage to the next one. Of several nodes, the slowest of these messages goes between nodes.
double message_seconds(const Machine& machine, const Topology& topology, double bytes);

}  // namespace trainyard::plan
