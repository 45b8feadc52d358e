// Lets pieces of shards pass one node after the other.
#include "libtrain/comm/node_reduction.h"

#include "libtrain/base/error.h"
#include "libtrain/comm/segments.h"

#include <algorithm>
#include <vector>

namespace trainyard::comm {

namespace {

using base::View;

// The pieces of all shards that the ranks at one place own, as one node sees them. A shard of each node has its turn
// before the next piece of the same shard.
class PassingPieces {
 public:
  PassingPieces(const ReductionHops& hops, const OrderedReduction& o, std::int64_t first, std::int64_t count)
      : hops_(hops), o_(o), first_(first), count_(count), piece_(std::min(hops.piece, count)),
        nodes_(hops.across.size()), ranks_(hops.inside.size()), node_(hops.across.rank()),
        last_((o.contributors - 1) / ranks_), pieces_(nodes_ * ((count + piece_ - 1) / piece_)) {}

  void pass(tensor::Exec& exec) const {
    const bool continues = o_.round == base::ReductionRound::next;
    for (std::int64_t t = continues ? -1 : 0; t < pieces_ + last_; ++t) {
      if (passes_here(t - node_)) add(exec, t - node_);
      send(exec, t);
    }
  }

 private:
  struct Piece {
    int owner;  // the node
    std::int64_t first, count;
  };
  Piece piece(std::int64_t i) const {
    const auto from = i / nodes_ * piece_;
    return {static_cast<int>(i % nodes_), first_ + from, std::min(piece_, count_ - from)};
  }
  bool exists(std::int64_t i) const { return i >= 0 && i < pieces_; }
  bool passes_here(std::int64_t i) const { return node_ <= last_ && exists(i); }
  // A piece's sum so far. The next piece arrives in another place while this one leaves.
  View partial(std::int64_t i) const {
    return View(o_.staging.data, o_.sum.dtype, {o_.staging.count()}, o_.sum.device)
        .elements((ranks_ + i % 2) * piece_, piece(i).count);
  }
  View sum(std::int64_t i) const { return o_.sum_of(piece(i).first, piece(i).count); }

  void add(tensor::Exec& exec, std::int64_t i) const {
    const auto p = piece(i);
    const auto shard = o_.shard_elements();
    const int here = std::min(o_.contributors - node_ * ranks_, ranks_);
    OrderedReduction of_node{.in = hops_.inside.rank() < here ? o_.in.elements(p.owner * ranks_ * shard, ranks_ * shard)
                                                              : View(o_.staging.data, o_.sum.dtype, {0}, o_.sum.device),
                             .staging = o_.staging.elements(0, ranks_ * piece_),
                             .sum = partial(i),
                             .round = node_ == 0 ? o_.round : base::ReductionRound::next,
                             .contributors = here};
    of_node.shard = shard;
    ordered_reduce_scatter_range(hops_.inside, exec, of_node, p.first, p.count);
  }

  // What leaves and arrives between times t and t + 1. Messages between two nodes are in one order on both.
  void send(tensor::Exec& exec, std::int64_t t) const {
    using Kind = Transfer::Kind;
    std::vector<Transfer> transfers;
    const auto here = t - node_, done = t - last_, begins = t + 1;
    if (passes_here(here) && node_ < last_) transfers.push_back({Kind::send, node_ + 1, partial(here)});
    if (passes_here(here + 1) && node_ > 0) transfers.push_back({Kind::receive, node_ - 1, partial(here + 1)});
    if (exists(done)) {
      const int owner = piece(done).owner;
      if (node_ == last_ && owner == node_) tensor::copy(exec, partial(done), sum(done));
      else if (node_ == last_) transfers.push_back({Kind::send, owner, partial(done)});
      else if (owner == node_) transfers.push_back({Kind::receive, last_, sum(done)});
    }
    if (o_.round == base::ReductionRound::next && exists(begins)) {
      const int owner = piece(begins).owner;
      if (node_ == 0 && owner == 0) tensor::copy(exec, sum(begins), partial(begins));
      else if (owner == node_) transfers.push_back({Kind::send, 0, sum(begins)});
      else if (node_ == 0) transfers.push_back({Kind::receive, owner, partial(begins)});
    }
    exchange_as(hops_.across, exec, "partial_sums", transfers);
  }

  const ReductionHops& hops_;
  const OrderedReduction& o_;
  std::int64_t first_, count_, piece_;
  int nodes_, ranks_, node_, last_;
  std::int64_t pieces_;
};

}  // namespace

void ordered_reduce_scatter_range(const ReductionHops& hops, tensor::Exec& exec, const OrderedReduction& o,
                                  std::int64_t first, std::int64_t count) {
  const int ranks = hops.across.size() * hops.inside.size();
  const bool contributes = hops.across.rank() * hops.inside.size() + hops.inside.rank() < o.contributors;
  TRAINYARD_ASSERT(o.contributors >= 1 && o.contributors <= ranks && first >= 0 &&
                       first + count <= o.shard_elements() && hops.piece > 0 && o.reduction_positions.empty() &&
                       (!contributes || o.in.count() == ranks * o.shard_elements()) &&
                       o.staging.count() >= (hops.inside.size() + 2) * std::min(hops.piece, count),
                   "[{}, {}) of shards of {}, {} contributors of {}", first, first + count, o.shard_elements(),
                   o.contributors, ranks);
  if (count > 0) PassingPieces(hops, o, first, count).pass(exec);
}

}  // namespace trainyard::comm
