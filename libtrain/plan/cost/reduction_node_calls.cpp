// Pieces of shards on their way through the nodes, counted.
#include "libtrain/plan/cost/reduction_node_calls.h"

#include "libtrain/plan/grid/reduction_nodes.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

// In one reduction of a range of a shard that `contributors` ranks have contributions to.
struct ReducedRange {
  ReductionNodes nodes;
  ReductionPieces pieces;
  std::int64_t contributors;
  bool continues;  // a sum of earlier accumulation steps
  int last() const { return nodes.node_of(static_cast<int>(contributors) - 1); }
  std::int64_t passing() const { return nodes.nodes() * pieces.pieces(); }
  std::int64_t exchanges() const { return passing() + last() + (continues ? 1 : 0); }
};

// Adds calls of `elements` each; calls of a kind and size are one entry.
void add_node_calls(std::vector<SizedCalls>& out, SizedCalls calls) {
  for (auto& c : out)
    if (c.group == calls.group && c.operation == calls.operation && c.bytes == calls.bytes) {
      c.calls += calls.calls, c.sending += calls.sending, *c.sent += *calls.sent;
      return;
    }
  if (calls.calls > 0) out.push_back(std::move(calls));
}

// `times` such reductions, for one rank.
void add_reductions(std::vector<SizedCalls>& out, const ReducedRange& r, int data_rank, base::DType type,
                    std::int64_t times) {
  const auto width = base::size_of(type);
  const int ranks = r.nodes.ranks(), nodes = r.nodes.nodes(), node = r.nodes.node_of(data_rank);
  const auto whole = r.pieces.pieces() - 1, rest = r.pieces.count - whole * r.pieces.most;
  const auto calls_of = [&](std::int64_t piece, std::int64_t pieces, std::int64_t more) {
    const bool contributes = data_rank < r.contributors;
    const auto passing = nodes * pieces;
    if (node <= r.last())
      add_node_calls(out, {.group = Axis::reduction_inner,
                           .ranks = ranks,
                           .operation = "ordered_reduce_scatter",
                           .type = type,
                           .bytes = ranks * piece * width,
                           .calls = times * passing,
                           .sending = contributes ? times * passing : 0,
                           .sent = contributes ? times * passing * (ranks - 1) * piece * width : 0});
    // A partial sum of every shard to the next node; from the last node each sum to its owner; and from each owner the
    // sum so far to the first node.
    const std::int64_t partial = node < r.last()    ? nodes
                                 : node == r.last() ? nodes - 1
                                                    : 0,
                       begun = r.continues && node > 0 ? 1 : 0;
    add_node_calls(out, {.group = Axis::reduction_outer,
                         .ranks = nodes,
                         .operation = "partial_sums",
                         .type = type,
                         .bytes = nodes * piece * width,
                         .calls = times * (passing + more),
                         .sending = times * (passing + more),
                         .sent = times * pieces * (partial + begun) * piece * width});
  };
  const auto more = r.exchanges() - r.passing();
  calls_of(r.pieces.most, whole, 0);
  calls_of(rest, 1, more);
}

// How many segments of a shard are equally long, in the order of the first ones.
struct AlikeRanges {
  std::int64_t count, times;
};
std::vector<AlikeRanges> alike_ranges(std::int64_t shard, std::int64_t segments) {
  std::vector<AlikeRanges> out;
  for (std::int64_t s = 0; s < segments; ++s) {
    const auto count = transfer_segment(shard, segments, s).count;
    const auto same = std::find_if(out.begin(), out.end(), [&](const AlikeRanges& r) { return r.count == count; });
    if (same == out.end()) out.push_back({count, 1});
    else ++same->times;
  }
  return out;
}

}  // namespace

std::vector<SizedCalls> reduction_node_calls(const FlatGroupTable& table, const StateShape& shape, int data_rank,
                                             std::int64_t most) {
  std::vector<SizedCalls> out;
  const ReductionNodes nodes(shape.topology);
  if (!nodes.any()) return out;
  const auto& batch = shape.batch;
  const auto rounds = batch.accumulation_steps();
  for (const auto& e : table.entries()) {
    if (e.frozen) continue;
    const auto segments =
        transfer_segments(e.layout.padded * base::size_of(shape.gradient), e.shards, shape.topology, most);
    const auto ranges = alike_ranges(e.layout.shard, segments);
    const auto add_rounds = [&](std::int64_t round, std::int64_t alike) {
      for (const auto& range : ranges)
        add_reductions(out, {nodes, {range.count, shape.reduction_piece}, batch.contributors(round), round > 0},
                       data_rank, shape.gradient, alike * range.times * e.times * e.occurrences);
    };
    add_rounds(0, 1);
    if (rounds > 2) add_rounds(1, rounds - 2);  // full ones that continue a sum
    if (rounds > 1) add_rounds(rounds - 1, 1);
  }
  return out;
}

}  // namespace trainyard::plan
