// Puts parts in the order that each hop needs.
#include "libtrain/comm/node_hops.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"

#include <cstdint>

namespace trainyard::comm {

namespace {

using base::View;

// The parts for one rank, back to back, are `each` elements.
struct HopParts {
  std::int64_t nodes, node, each;
  std::int64_t all() const { return nodes * node * each; }
  // Where the parts for a rank lie on the first hop.
  std::int64_t of(std::int64_t rank) const { return (rank % node * nodes + rank / node) * each; }
};

View in_staging(View staging, base::DType dtype, std::int64_t count) {
  const View out(staging.data, dtype, {count}, staging.device);
  TRAINYARD_ASSERT(out.bytes() <= staging.bytes(), "{} bytes in {}", out.bytes(), staging.bytes());
  return out;
}

void make_hop(Communicator& comm, tensor::Exec& exec, View from, View to) {
  const std::vector<std::int64_t> counts(base::size(comm.size()), from.count() / comm.size());
  comm.all_to_all(exec, from, counts, to, counts);
}

// `first` is already in the order of the first hop: parts for the same place in every node lie together. On the second
// hop the parts for one node lie together, from all ranks of this node.
void cross_hops(const NodeHops& hops, tensor::Exec& exec, const HopParts& p, View first, View second, View theirs) {
  make_hop(hops.inside, exec, first, second);
  for (std::int64_t from = 0; from < p.node; ++from)
    for (std::int64_t to = 0; to < p.nodes; ++to)
      tensor::copy(exec, second.elements((from * p.nodes + to) * p.each, p.each),
                   first.elements((to * p.node + from) * p.each, p.each));
  make_hop(hops.across, exec, first, theirs);
}

}  // namespace

void all_to_all(const NodeHops& hops, tensor::Exec& exec, View mine, View theirs) {
  const std::int64_t nodes = hops.across.size(), node = hops.inside.size(), ranks = nodes * node;
  TRAINYARD_ASSERT(mine.dense() && theirs.dense() && mine.count() == theirs.count() && mine.count() % ranks == 0,
                   "{} elements for {} in parts for {} ranks", mine.count(), theirs.count(), ranks);
  const HopParts parts{nodes, node, mine.count() / ranks};
  const auto first = in_staging(hops.first, mine.dtype, parts.all()),
             second = in_staging(hops.second, mine.dtype, parts.all());
  for (std::int64_t r = 0; r < ranks; ++r)
    tensor::copy(exec, mine.elements(r * parts.each, parts.each), first.elements(parts.of(r), parts.each));
  cross_hops(hops, exec, parts, first, second, theirs.reshaped({theirs.count()}));
}

void all_to_all(const NodeHops& hops, tensor::Exec& exec, const std::vector<View>& mine,
                const std::vector<View>& theirs) {
  const std::int64_t nodes = hops.across.size(), node = hops.inside.size(), ranks = nodes * node;
  const auto views = static_cast<std::int64_t>(mine.size());
  TRAINYARD_ASSERT(views > 0 && mine.size() == theirs.size() && views % ranks == 0, "{} views for {} of {} ranks",
                   views, theirs.size(), ranks);
  HopParts parts{nodes, node, 0};
  for (std::int64_t i = 0; i < views; i += ranks) parts.each += base::at(mine, i).count();
  const auto dtype = mine.front().dtype;
  const auto first = in_staging(hops.first, dtype, parts.all()), second = in_staging(hops.second, dtype, parts.all());
  std::int64_t at = 0;  // offset of a part among the parts for its rank
  for (std::int64_t i = 0; i < views; ++i) {
    const auto r = i % ranks;
    const auto view = base::at(mine, i);
    tensor::copy(exec, view, first.elements(parts.of(r) + at, view.count()));
    if (r + 1 == ranks) at += view.count();
  }
  cross_hops(hops, exec, parts, first, second, second);
  at = 0;
  for (std::int64_t i = 0; i < views; ++i) {
    const auto view = base::at(theirs, i);
    tensor::copy(exec, second.elements(i % ranks * parts.each + at, view.count()), view);
    if (i % ranks + 1 == ranks) at += view.count();
  }
}

}  // namespace trainyard::comm
