// Topology: pure arithmetic from axes to ranks. Axis: along what a model or its batch is cut.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainyard::plan {

// The words of the literature: pipeline stages, replicas that read other samples, parts of a sequence, parts of a
// weight, experts, and replicas of the same experts. Experts along nodes and inside of one: the two axes of `expert`
// where it is cut so.
enum class Axis { pipe, data, context, tensor, expert, expert_data, expert_outer, expert_inner };

// As plan files and profiles spell them.
struct AxisName {
  Axis axis;
  const char* name;
};
inline constexpr AxisName axis_names[] = {{Axis::pipe, "pipe"},
                                          {Axis::data, "data"},
                                          {Axis::context, "context"},
                                          {Axis::tensor, "tensor"},
                                          {Axis::expert, "expert"},
                                          {Axis::expert_data, "expert_data"},
                                          {Axis::expert_outer, "expert_outer"},
                                          {Axis::expert_inner, "expert_inner"}};
// Those of data that is read a second time: no topology that is written down names them.
constexpr bool is_of_second_reading(Axis axis) {
  return axis == Axis::expert || axis == Axis::expert_data || axis == Axis::expert_outer || axis == Axis::expert_inner;
}
std::string name_of(Axis axis);
Axis axis_named(std::string_view name, const std::string& where);  // InputError with the nearest

// Some axes: those along which the ranks of a group differ.
class Axes {
 public:
  constexpr Axes() = default;
  constexpr Axes(std::initializer_list<Axis> axes) {
    for (const auto axis : axes) bits_ |= bit(axis);
  }
  constexpr bool has(Axis axis) const { return (bits_ & bit(axis)) != 0; }
  bool operator==(const Axes&) const = default;

 private:
  static constexpr unsigned bit(Axis axis) { return 1u << static_cast<unsigned>(axis); }
  unsigned bits_ = 0;
};
std::string name_of(Axes axes);  // "data"; "data+context"

struct AxisSize {
  Axis axis;
  int size;
};

// Experts are a second reading of the same ranks: the ranks along data are expert_data times expert ones, neighbours
// along data holding different experts (with_experts).
//
// Axes from outer to inner: Topology({{Axis::pipe, 4}, {Axis::data, 2}, {Axis::tensor, 4}}); rank = (p * 2 + d) * 4 +
// t. An axis that is left out has size 1 and coordinate 0 everywhere. Copyable value; throws std::invalid_argument on a
// size below 1, an axis given twice or more ranks than an int holds, std::out_of_range on a rank outside [0, world()).
class Topology {
 public:
  Topology() = default;
  explicit Topology(std::vector<AxisSize> axes);

  // The same ranks with the data axis read a second time: its coordinate is that along expert_data times `degree` plus
  // that along expert. A degree of 1 is no second reading: both axes have size 1 then. `node` neighbours of the degree
  // are one node: expert = expert_outer * node + expert_inner; where that is one of them or all, these two axes have
  // size 1. std::invalid_argument where the degree does not divide the ranks along data or the node the degree, or the
  // axes are named as those of a second reading are.
  Topology with_experts(int degree, int node = 1) const;

  int world() const;
  int size(Axis axis) const;
  int size(Axes axes) const;  // ranks of a group that differs in these
  int coordinate(int rank, Axis axis) const;
  int rank_of(const std::vector<std::pair<Axis, int>>& coordinates) const;  // axes left out are 0
  // Which of the micro-batches of a round are a rank's, the r of BatchPlan and of decision 1: its coordinate along data
  // or, where that is read a second time, base::turn_of_place of it.
  int turn(int rank) const;
  // The ranks that differ from `rank` only in the given axes, ascending, itself included.
  std::vector<int> peers(int rank, Axes axes) const;
  const std::vector<AxisSize>& axes() const { return axes_; }
  // The same where data that is read a second time is its two axes.
  const std::vector<AxisSize>& finest_axes() const { return finest_; }

 private:
  std::vector<AxisSize> axes_, finest_;
};

// Does `axis`, one of the finest of a topology, belong to `axes`? Those of the second reading belong to data, and nodes
// and what is inside of them to expert.
constexpr bool includes(Axes axes, Axis axis) {
  return axes.has(axis) || (axes.has(Axis::data) && is_of_second_reading(axis)) ||
         (axes.has(Axis::expert) && (axis == Axis::expert_outer || axis == Axis::expert_inner));
}

// Ranks along data and, inside, along tensor, which `tensor` neighbours share; outside of both along pipe, so that a
// stage is a run of ranks: rank = (stage * data + data coordinate) * tensor + tensor coordinate. The axes of pipe and
// tensor are left out where they are 1. `ranks` is a multiple of `tensor` * `stages` * `experts`; that many neighbours
// along data hold different experts, `node` of them in one node (with_experts).
Topology replicas_of(int ranks, int tensor, int stages = 1, int experts = 1, int node = 1);

}  // namespace trainyard::plan
