// The arithmetic of axes, and their names.
#include "libtrain/plan/grid/topology.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/base/nearest.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace trainyard::plan {

std::string name_of(Axis axis) {
  for (const auto& a : axis_names)
    if (a.axis == axis) return a.name;
  TRAINYARD_ASSERT(false, "axis {} has no name", static_cast<int>(axis));
  return {};
}

Axis axis_named(std::string_view name, const std::string& where) {
  std::vector<std::string> legal;
  for (const auto& a : axis_names) {
    if (name == a.name) return a.axis;
    legal.push_back(a.name);
  }
  const auto hint = base::value_hint(name, legal);
  throw base::InputError(fmt::format("{}: {} is no axis", where, base::excerpt(name)),
                         hint.empty() ? fmt::format("axes are {}", fmt::join(legal, ", ")) : hint);
}

std::string name_of(Axes axes) {
  std::string out;
  for (const auto& a : axis_names) {
    if (!axes.has(a.axis)) continue;
    if (!out.empty()) out += '+';
    out += a.name;
  }
  return out;
}

Topology::Topology(std::vector<AxisSize> axes) : axes_(std::move(axes)) {
  std::int64_t world = 1;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].size < 1)
      throw std::invalid_argument(fmt::format("axis '{}' has size {}", name_of(axes_[i].axis), axes_[i].size));
    if ((world *= axes_[i].size) > std::numeric_limits<int>::max())
      throw std::invalid_argument("the axes have more ranks together than can be numbered");
    for (std::size_t j = 0; j < i; ++j)
      if (axes_[j].axis == axes_[i].axis)
        throw std::invalid_argument(fmt::format("axis '{}' is named twice", name_of(axes_[i].axis)));
  }
  finest_ = axes_;
}

Topology Topology::with_experts(int degree, int node) const {
  if (degree < 1 || size(Axis::data) % degree != 0)
    throw std::invalid_argument(
        fmt::format("{} ranks along data hold no {} parts of the experts", size(Axis::data), degree));
  if (node < 1 || degree % node != 0)
    throw std::invalid_argument(fmt::format("{} parts of the experts are no nodes of {}", degree, node));
  Topology out(axes_);
  if (degree == 1) return out;
  const auto data =
      std::find_if(out.finest_.begin(), out.finest_.end(), [](const AxisSize& a) { return a.axis == Axis::data; });
  if (data == out.finest_.end() || data->size != size(Axis::data))
    throw std::invalid_argument("ranks that are read along data a second time already, or have no such axis");
  data->axis = Axis::expert_data, data->size /= degree;
  if (node == 1 || node == degree) out.finest_.insert(data + 1, {Axis::expert, degree});
  else out.finest_.insert(data + 1, {{Axis::expert_outer, degree / node}, {Axis::expert_inner, node}});
  return out;
}

Topology Topology::with_zero_groups(int ranks) const {
  const int data_ranks = size(Axis::data);
  if (ranks < 1 || data_ranks % ranks != 0)
    throw std::invalid_argument(fmt::format("{} ranks along data are no groups of {}", data_ranks, ranks));
  if (ranks == 1 || ranks == data_ranks) return *this;
  Topology out(axes_);
  const auto data =
      std::find_if(out.finest_.begin(), out.finest_.end(), [](const AxisSize& a) { return a.axis == Axis::data; });
  if (data == out.finest_.end() || finest_.size() != axes_.size() || size(Axis::expert) > 1)
    throw std::invalid_argument("ranks that are read along data a second time already, or have no such axis");
  data->axis = Axis::zero_copies, data->size /= ranks;
  out.finest_.insert(data + 1, {Axis::zero_group, ranks});
  return out;
}

Topology Topology::with_reduction_nodes(int ranks) const {
  const int data_ranks = size(Axis::data), zero_group = size(Axis::zero_group);
  if (ranks < 1 || data_ranks % ranks != 0)
    throw std::invalid_argument(fmt::format("{} ranks along data are no nodes of {}", data_ranks, ranks));
  if (ranks == 1 || ranks == data_ranks) return *this;
  if (size(Axis::expert) > 1 || size(Axis::reduction_inner) > 1 || (ranks % zero_group != 0 && zero_group % ranks != 0))
    throw std::invalid_argument(fmt::format("nodes of {} ranks along data, which are read in another way", ranks));
  Topology out(*this);
  out.finest_.clear();
  int inside = ranks;  // ranks of a node that are not yet divided, from the innermost axis on
  for (auto a = finest_.rbegin(); a != finest_.rend(); ++a) {
    if (!includes({Axis::data}, *a)) {
      out.finest_.push_back(*a);
      continue;
    }
    const int here = std::min(inside, a->size);
    if (here > 1) out.finest_.push_back({a->axis, here, a->also.with(Axis::reduction_inner)});
    if (here < a->size) out.finest_.push_back({a->axis, a->size / here, a->also.with(Axis::reduction_outer)});
    inside /= here;
  }
  std::reverse(out.finest_.begin(), out.finest_.end());
  return out;
}

int Topology::world() const {
  int n = 1;
  for (const auto& a : axes_) n *= a.size;
  return n;
}

int Topology::size(Axis axis) const { return size(Axes{axis}); }

int Topology::size(Axes axes) const {
  int n = 1;
  for (const auto& a : finest_)
    if (includes(axes, a)) n *= a.size;
  return n;
}

int Topology::coordinate(int rank, Axes axes) const {
  if (rank < 0 || rank >= world()) throw std::out_of_range(fmt::format("rank {} of {}", rank, world()));
  int inner = 1, coordinate = 0, stride = 1;
  for (auto a = finest_.rbegin(); a != finest_.rend(); ++a) {
    if (includes(axes, *a)) coordinate += rank / inner % a->size * stride, stride *= a->size;
    inner *= a->size;
  }
  return coordinate;
}

int Topology::rank_of(const std::vector<std::pair<Axis, int>>& coordinates) const {
  int rank = 0;
  for (const auto& a : axes_) {
    int c = 0;
    for (const auto& [axis, value] : coordinates)
      if (axis == a.axis) c = value;
    if (c < 0 || c >= a.size)
      throw std::out_of_range(fmt::format("coordinate {} of axis '{}' of size {}", c, name_of(a.axis), a.size));
    rank = rank * a.size + c;
  }
  return rank;
}

int Topology::reduction_position_of_replica(int data_coordinate) const {
  return static_cast<int>(base::reduction_position_of_place(data_coordinate, size(Axis::data), size(Axis::expert)));
}

int Topology::stride(Axis axis) const {
  int inner = 1;
  for (auto a = finest_.rbegin(); a != finest_.rend(); ++a) {
    if (includes({axis}, *a)) return inner;
    inner *= a->size;
  }
  return inner;
}

int Topology::stride(Axes axes) const {
  int inner = 1;
  for (auto a = finest_.rbegin(); a != finest_.rend(); ++a) {
    if (a->size > 1 && includes(axes, *a)) return inner;
    inner *= a->size;
  }
  return inner;
}

bool Topology::nests(std::initializer_list<Axis> axes) const {
  int inner = 1;
  for (auto axis = std::rbegin(axes); axis != std::rend(axes); ++axis) {
    if (size(*axis) > 1 && (inner >= world() || coordinate(inner, *axis) != 1)) return false;
    inner *= size(*axis);
  }
  return inner == world();
}

base::RowsOfPositions Topology::rows_with_losses(int gathered) const {
  const int first = rank_of({{Axis::pipe, size(Axis::pipe) - 1}}), left_out = world() - gathered;
  const base::RowsOfPositions rows{size(Axis::data), size(Axis::expert), stride(Axis::data), first - left_out};
  if (left_out < 0 || rows.first < 0 || rows.row(rows.ranks - 1) >= gathered)
    throw std::invalid_argument(fmt::format("the losses of {} ranks are not among the numbers of the last {} of {}",
                                            rows.ranks, gathered, world()));
  return rows;
}

std::vector<int> Topology::reduction_order(int rank, Axes axes) const {
  const auto group = peers(rank, axes);
  std::vector<int> positions, sorted(group.size()), out(group.size());
  for (const int peer : group) positions.push_back(reduction_position(peer));
  std::iota(sorted.begin(), sorted.end(), 0);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](int a, int b) { return base::at(positions, a) < base::at(positions, b); });
  for (std::size_t place = 0; place < sorted.size(); ++place) base::at(out, sorted[place]) = static_cast<int>(place);
  if (std::is_sorted(out.begin(), out.end())) out.clear();
  return out;
}

std::vector<int> Topology::first_peers(Axes axes) const {
  std::vector<int> out(base::size(world()), -1);
  for (int r = 0; r < world(); ++r)
    if (base::at(out, r) < 0)
      for (const int peer : peers(r, axes)) base::at(out, peer) = r;
  return out;
}

// Goes from the outermost axis inwards, so that the ranks ascend.
std::vector<int> Topology::peers(int rank, Axes axes) const {
  if (rank < 0 || rank >= world()) throw std::out_of_range(fmt::format("rank {} of {}", rank, world()));
  std::vector<int> out{0};
  int apart = world(), rest = rank;
  for (const auto& a : finest_) {
    apart /= a.size;
    const int own = rest / apart;
    rest %= apart;
    const bool along = includes(axes, a);
    std::vector<int> next;
    for (const int first : out)
      for (int c = along ? 0 : own; c < (along ? a.size : own + 1); ++c) next.push_back(first + c * apart);
    out = std::move(next);
  }
  return out;
}

Topology replicas_of(int ranks, int tensor, int stages, int experts, int node) {
  const auto each = std::int64_t{tensor} * stages;
  TRAINYARD_ASSERT(tensor >= 1 && stages >= 1 && ranks % each == 0, "{} ranks in {} stages, of which {} share a layer",
                   ranks, stages, tensor);
  std::vector<AxisSize> axes{{Axis::data, static_cast<int>(ranks / each)}};
  if (stages > 1) axes.insert(axes.begin(), {Axis::pipe, stages});
  if (tensor > 1) axes.push_back({Axis::tensor, tensor});
  return Topology(std::move(axes)).with_experts(experts, node);
}

}  // namespace trainyard::plan
