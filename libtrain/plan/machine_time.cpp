// Tiles, waves, rings and direct messages.
#include "libtrain/plan/machine_time.h"

#include "libtrain/base/index.h"
#include "libtrain/plan/measured_machine.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace trainyard::plan {

namespace {

// The share of a multiprocessor's rate at which tiles of this size can be fed: smaller tiles read more for each FLOP.
struct TileSize {
  std::int64_t rows, cols;
  double share;
};
constexpr std::array tile_sizes = {TileSize{256, 128, 1},   TileSize{128, 256, 1},   TileSize{128, 128, 0.97},
                                   TileSize{128, 64, 0.85}, TileSize{64, 128, 0.85}, TileSize{64, 64, 0.65}};
constexpr double start_seconds = 2e-6;  // of a kernel on a GPU

std::int64_t tiles_along(std::int64_t all, std::int64_t each) { return (all + each - 1) / each; }

double peak_rate(const Machine& m, base::DType type) {
  const double narrow = m.flops_16bit > 0 ? m.flops_16bit : m.flops_32bit,
               wide = m.flops_32bit > 0 ? m.flops_32bit : m.flops_16bit;
  return base::is_narrow(type) ? narrow : wide;
}

double bytes_of(const Product& p, base::DType type) {
  const auto rows = static_cast<double>(p.rows), cols = static_cast<double>(p.cols),
             inner = static_cast<double>(p.inner);
  return static_cast<double>(base::size_of(type)) * static_cast<double>(p.batch) *
         (rows * inner + inner * cols + rows * cols);
}

// How many ranks lie from one rank of the group to the next.
int stride_of(const Topology& topology, CallGroup group, int ranks) {
  if (group.is_stages())
    return topology.stride(Axis::pipe) * std::max(1, (topology.size(Axis::pipe) - 1) / std::max(1, ranks - 1));
  return topology.stride(group.axes());
}

// Of the group that has fewest of its ranks in one node. A group that is as long as a part of a node may still lie in
// two, where its length does not divide the node.
int ranks_in_node(const Machine& m, const Topology& topology, int stride, int ranks) {
  if (topology.world() <= m.devices_per_node) return ranks;
  const int here = std::clamp(m.devices_per_node / stride, 1, ranks);
  const bool inside = here == ranks, even = m.devices_per_node % (stride * ranks) == 0;
  return inside && !even ? std::max(1, ranks / 2) : here;
}

double link_rate(const Machine& m) { return m.link_bandwidth * m.link_share; }
// Of one device, if all devices of the node use the network.
double network_rate(const Machine& m) { return m.network_bandwidth * m.network_share / m.devices_per_node; }

// The ranks of a group, and how many of them lie in one node: the fewest.
struct Spread {
  int ranks, here;
  bool inside() const { return here == ranks; }
  int nodes() const { return (ranks + here - 1) / here; }
};

// Messages one after the other: to each rank, or up and down a tree where that is shorter.
double direct_latency(const Machine& m, Spread s) {
  const double messages = std::min<double>(s.ranks - 1, std::ceil(2 * std::log2(s.ranks)));
  return messages * (s.inside() ? m.link_latency : m.network_latency);
}

// The hops of a part of a ring's bytes, one after the other. One for each node crosses the network.
double ring_latency(const Machine& m, Spread s) {
  const int hops = s.ranks - 1, crossing = s.inside() ? 0 : std::min(hops, s.nodes());
  return (hops - crossing) * m.link_latency + crossing * m.network_latency;
}

// Libraries add few bytes up and down a tree of nodes, in each of which ranks are a chain (NCCL, src/graph/tuning.cc).
double tree_latency(const Machine& m, Spread s) {
  return 2 * ((s.here - 1) * m.link_latency + std::ceil(std::log2(s.nodes())) * m.network_latency);
}

double ring_seconds(const Machine& m, int here, int ranks, double bytes) {
  const double sent = bytes * (ranks - 1) / ranks;
  if (here == ranks) return sent / link_rate(m);
  const double of_network = sent / (network_rate(m) * here);  // one ring a device, each with its part of the bytes
  return here == 1 ? of_network : std::max(of_network, sent / link_rate(m));
}

double direct_seconds(const Machine& m, int here, int ranks, double bytes) {
  const double inside = here == 1 ? 0 : bytes * (here - 1) / ranks / link_rate(m),
               outside = here == ranks ? 0 : bytes * (ranks - here) / ranks / network_rate(m);
  return std::max(inside, outside);
}

// A partial sum on its way from node to node of a hierarchical reduction. Of more than two nodes, those in the middle
// get sums for themselves as well, one after the other, and all wait for them.
double passing_seconds(const Machine& m, const Topology& topology, const SizedCalls& c) {
  const int nodes = topology.size(c.group.axes()),
            here = ranks_in_node(m, topology, stride_of(topology, c.group, nodes), nodes);
  const double rate = here == nodes ? link_rate(m) : network_rate(m) * here,
               latency = here == nodes ? m.link_latency : m.network_latency;
  return (nodes > 2 ? 2 - 2.0 / nodes : 1) * static_cast<double>(c.bytes) / c.ranks / rate + latency;
}

}  // namespace

double product_seconds(const Machine& m, const Product& p, base::DType type) {
  const double rate = peak_rate(m, type) * m.product_share, least = move_seconds(m, bytes_of(p, type));
  if (m.device == base::DeviceKind::cpu) return std::max(least, p.flops() / rate);
  double best = std::numeric_limits<double>::infinity();
  for (const auto& tile : tile_sizes) {
    const auto tiles = p.batch * tiles_along(p.rows, tile.rows) * tiles_along(p.cols, tile.cols);
    const double of_wave = 2 * static_cast<double>(tile.rows * tile.cols) * static_cast<double>(p.inner) *
                           m.multiprocessors / (rate * tile.share);
    best = std::min(best, static_cast<double>(tiles_along(tiles, m.multiprocessors)) * of_wave);
  }
  return std::max(best, least) + start_seconds;
}

double attention_seconds(const Machine& m, const Product& p, base::DType type) {
  return p.flops() / (peak_rate(m, type) * m.attention_share);
}

double move_seconds(const Machine& m, double bytes) { return bytes / (m.memory_bandwidth * m.memory_share); }

double call_seconds(const Machine& m, const Topology& topology, const SizedCalls& c) {
  if (c.ranks == 1) return 0;
  if (m.measured)
    if (const auto seconds = m.measured->seconds(c)) return *seconds / m.speed;
  if (c.operation == "partial_sums") return passing_seconds(m, topology, c);
  const int here = ranks_in_node(m, topology, stride_of(topology, c.group, c.ranks), c.ranks);
  const auto bytes = static_cast<double>(c.bytes);
  const Spread spread{c.ranks, here};
  // Gathers of our own, over MPI, send shards directly too (comm/mpi_communicator.cpp).
  const bool gather = c.operation == "all_gather" && m.device == base::DeviceKind::cpu,
             direct = gather || c.operation == "ordered_reduce_scatter" || c.operation == "all_to_all";
  if (direct) return direct_seconds(m, here, c.ranks, bytes) + direct_latency(m, spread);
  const double ring = ring_seconds(m, here, c.ranks, bytes);
  if (c.operation == "all_reduce") return 2 * ring + std::min(tree_latency(m, spread), 2 * ring_latency(m, spread));
  return ring + ring_latency(m, spread);
}

double message_seconds(const Machine& m, const Topology& topology, double bytes) {
  if (m.measured)
    if (const auto seconds = m.measured->message_seconds(bytes)) return *seconds / m.speed;
  const bool inside = topology.world() <= m.devices_per_node;
  return inside ? bytes / link_rate(m) + m.link_latency : bytes / network_rate(m) + m.network_latency;
}

}  // namespace trainyard::plan
