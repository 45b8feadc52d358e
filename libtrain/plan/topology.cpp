// The arithmetic of axes.
#include "libtrain/plan/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>

namespace trainyard::plan {

Topology::Topology(std::vector<Axis> axes) : axes_(std::move(axes)) {
  std::int64_t world = 1;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].size < 1) throw std::invalid_argument(fmt::format("axis '{}' has size {}", axes_[i].name, axes_[i].size));
    if ((world *= axes_[i].size) > std::numeric_limits<int>::max()) throw std::invalid_argument("the axes have more ranks together than can be numbered");
    for (std::size_t j = 0; j < i; ++j)
      if (axes_[j].name == axes_[i].name) throw std::invalid_argument(fmt::format("axis '{}' is named twice", axes_[i].name));
  }
}

int Topology::world() const {
  int n = 1;
  for (const auto& a : axes_) n *= a.size;
  return n;
}

int Topology::size(std::string_view axis) const {
  for (const auto& a : axes_)
    if (a.name == axis) return a.size;
  return 1;
}

int Topology::coordinate(int rank, std::string_view axis) const {
  if (rank < 0 || rank >= world()) throw std::out_of_range(fmt::format("rank {} of {}", rank, world()));
  int inner = 1;
  for (auto a = axes_.rbegin(); a != axes_.rend(); ++a) {
    if (a->name == axis) return rank / inner % a->size;
    inner *= a->size;
  }
  return 0;
}

int Topology::rank_of(const std::vector<std::pair<std::string_view, int>>& coordinates) const {
  int rank = 0;
  for (const auto& a : axes_) {
    int c = 0;
    for (const auto& [name, value] : coordinates)
      if (name == a.name) c = value;
    if (c < 0 || c >= a.size) throw std::out_of_range(fmt::format("coordinate {} of axis '{}' of size {}", c, a.name, a.size));
    rank = rank * a.size + c;
  }
  return rank;
}

std::vector<int> Topology::peers(int rank, const std::vector<std::string_view>& axes) const {
  std::vector<int> out;
  for (int other = 0; other < world(); ++other) {
    bool same = true;
    for (const auto& a : axes_)
      if (std::find(axes.begin(), axes.end(), a.name) == axes.end() && coordinate(other, a.name) != coordinate(rank, a.name)) same = false;
    if (same) out.push_back(other);
  }
  return out;
}

}  // namespace trainyard::plan
