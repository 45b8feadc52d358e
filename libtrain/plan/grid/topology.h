// Topology: pure arithmetic from axes to ranks. Axis: along what a model or its batch is divided.
#pragma once

#include "libtrain/base/reduction_order.h"

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainyard::plan {

// In the words of the literature: pipeline stages, data-parallel replicas, parts of a sequence, parts of a weight,
// experts, and replicas of the same experts. expert_outer and expert_inner divide `expert` into nodes and ranks of a
// node. zero_group: ranks among which the weights of ZeRO 3 are sharded; zero_copies: those groups of ranks.
// reduction_inner: ranks of a node that add their gradients first; reduction_outer: those nodes.
enum class Axis {
  pipe,
  data,
  context,
  tensor,
  expert,
  expert_data,
  expert_outer,
  expert_inner,
  zero_copies,
  zero_group,
  reduction_outer,
  reduction_inner
};

// The table of axes: the names in plan files and profiles, and whether an axis belongs to a second reading of the data
// axis (see Topology), as the axes of expert parallelism and of zero groups do. No topology that is written down names
// such an axis.
struct AxisName {
  Axis axis;
  const char* name;
  bool second_reading = false;
};
inline constexpr AxisName axis_names[] = {{Axis::pipe, "pipe"},
                                          {Axis::data, "data"},
                                          {Axis::context, "context"},
                                          {Axis::tensor, "tensor"},
                                          {Axis::expert, "expert", true},
                                          {Axis::expert_data, "expert_data", true},
                                          {Axis::expert_outer, "expert_outer", true},
                                          {Axis::expert_inner, "expert_inner", true},
                                          {Axis::zero_copies, "zero_copies", true},
                                          {Axis::zero_group, "zero_group", true},
                                          {Axis::reduction_outer, "reduction_outer", true},
                                          {Axis::reduction_inner, "reduction_inner", true}};
constexpr bool is_of_second_reading(Axis axis) {
  for (const auto& a : axis_names)
    if (a.axis == axis) return a.second_reading;
  return false;
}
std::string name_of(Axis axis);
Axis axis_named(std::string_view name, const std::string& where);  // InputError with the nearest name

// A set of axes: those along which the ranks of a group differ.
class Axes {
 public:
  constexpr Axes() = default;
  constexpr Axes(std::initializer_list<Axis> axes) {
    for (const auto axis : axes) bits_ |= bit(axis);
  }
  constexpr bool has(Axis axis) const { return (bits_ & bit(axis)) != 0; }
  constexpr Axes with(Axis axis) const {
    auto more = *this;
    more.bits_ |= bit(axis);
    return more;
  }
  constexpr bool meets(Axes other) const { return (bits_ & other.bits_) != 0; }
  bool operator==(const Axes&) const = default;

 private:
  static constexpr unsigned bit(Axis axis) { return 1u << static_cast<unsigned>(axis); }
  unsigned bits_ = 0;
};
std::string name_of(Axes axes);  // "data"; "data+context"

struct AxisSize {
  Axis axis;
  int size;
  Axes also = {};  // of the finest axes: axes of another reading that this one belongs to, too
};

// Axes from outer to inner: Topology({{Axis::pipe, 4}, {Axis::data, 2}, {Axis::tensor, 4}}); rank = (p * 2 + d) * 4 +
// t. An axis that is left out has size 1 and coordinate 0 everywhere. Copyable value. Throws std::invalid_argument on a
// size below 1, an axis given twice or more ranks than an int holds, and std::out_of_range on a rank outside
// [0, world()).
//
// Expert parallelism gives the ranks along data two more coordinates, along expert_data and expert. This is the second
// reading of the data axis: a rank still has its data coordinate, which is its expert_data coordinate times the
// expert-parallel degree plus its expert coordinate. So neighbours along data hold different experts (with_experts).
// Zero groups are another one: the data coordinate is the zero_copies coordinate times the ranks of a group, plus the
// zero_group coordinate. So neighbours along data are a group (with_zero_groups). A topology has one of these readings
// or none. Beside it the data coordinate may be read as nodes that reduce gradients, reduction_outer, of neighbours,
// reduction_inner (with_reduction_nodes).
class Topology {
 public:
  Topology() = default;
  explicit Topology(std::vector<AxisSize> axes);

  // The same ranks with a second reading of the data axis, for the expert-parallel degree `degree`. A degree of 1 is no
  // second reading; both axes then have size 1. `node` neighbours of the degree are one node: expert = expert_outer *
  // node + expert_inner. If `node` is 1 or the degree, these two axes have size 1. std::invalid_argument if the degree
  // does not divide the ranks along data, if the node does not divide the degree, or if the axes already have a second
  // reading.
  Topology with_experts(int degree, int node = 1) const;
  // The same ranks with a second reading of the data axis, in groups of `ranks` neighbours. One rank, and all ranks
  // along data, are no such reading; both axes then have size 1. std::invalid_argument as above.
  Topology with_zero_groups(int ranks) const;
  // The same ranks with nodes of `ranks` neighbours along data, beside zero groups or none. One rank, and all ranks
  // along data, are no such nodes; both axes then have size 1. std::invalid_argument as above, and if nodes and zero
  // groups divide one another.
  Topology with_reduction_nodes(int ranks) const;

  int world() const;
  int size(Axis axis) const;
  int size(Axes axes) const;  // ranks of a group that differ in these axes
  int coordinate(int rank, Axis axis) const { return coordinate(rank, Axes{axis}); }
  int coordinate(int rank, Axes axes) const;  // the rank's index among its peers along these axes
  int rank_of(const std::vector<std::pair<Axis, int>>& coordinates) const;  // axes that are left out are 0
  // The rank's position in the reduction order: the r of BatchPlan and of decision 1. It decides which micro-batches of
  // an accumulation step are the rank's. It is the rank's data coordinate, or base::reduction_position_of_place of it
  // if the data axis has a second reading.
  int reduction_position(int rank) const { return reduction_position_of_replica(coordinate(rank, Axis::data)); }
  int reduction_position_of_replica(int data_coordinate) const;
  // Which ranks have the losses of the positions in the reduction order, one rank for each position: of the last
  // pipeline stage, the first of the ranks that compute the same micro-batches. `gathered`: how many ranks' numbers
  // were gathered, all ranks' or the last ones'. std::invalid_argument if those ranks are not among them, or lie
  // unevenly.
  base::RowsOfPositions rows_with_losses(int gathered) const;
  // How many ranks lie between neighbours along an axis that has several ranks, the first of the two included; else the
  // ranks inside the axis. 1 for the innermost axis.
  int stride(Axis axis) const;
  int stride(Axes axes) const;  // the least of these axes that have several ranks
  // Whether the ranks along these axes, from outer to inner, are all ranks, and nest in this order.
  bool nests(std::initializer_list<Axis> axes) const;
  // The ranks that differ from `rank` only in the given axes, ascending, itself included.
  std::vector<int> peers(int rank, Axes axes) const;
  // For each of these peers, its place in the order in which they add gradients: first by reduction position, and
  // ranks that compute parts of the same micro-batch by ascending rank. Empty if that is the order of the peers.
  std::vector<int> reduction_order(int rank, Axes axes) const;
  // For each rank: the first rank of its group along `axes`.
  std::vector<int> first_peers(Axes axes) const;
  const std::vector<AxisSize>& axes() const { return axes_; }
  // The same, but a data axis with a second reading is replaced by the axes of that reading. An axis that nodes divide
  // is there twice.
  const std::vector<AxisSize>& finest_axes() const { return finest_; }

 private:
  std::vector<AxisSize> axes_, finest_;
};

// Whether one of the finest axes of a topology belongs to `axes`. Axes of the second reading belong to data,
// and expert_outer and expert_inner belong to expert.
constexpr bool includes(Axes axes, Axis axis) {
  return axes.has(axis) || (axes.has(Axis::data) && is_of_second_reading(axis)) ||
         (axes.has(Axis::expert) && (axis == Axis::expert_outer || axis == Axis::expert_inner));
}
constexpr bool includes(Axes axes, const AxisSize& finest) {
  return includes(axes, finest.axis) || axes.meets(finest.also);
}

// The topology of a run: pipe, inside it data, inside that tensor. So a stage is a run of ranks, and `tensor`
// neighbours share every layer: rank = (stage * data + data coordinate) * tensor + tensor coordinate. Axes pipe and
// tensor are left out if they are 1. `ranks` is a multiple of `tensor` * `stages` * `experts`. `experts` neighbours
// along data hold different experts, `node` of them in one node (with_experts).
Topology replicas_of(int ranks, int tensor, int stages = 1, int experts = 1, int node = 1);

}  // namespace trainyard::plan
