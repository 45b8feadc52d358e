// Topology: pure arithmetic from axes to ranks.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainyard::plan {

// Axes from outer to inner: Topology({{"pipe", 4}, {"data", 2}, {"tensor", 4}}); rank = (p * 2 + d) * 4 + t.
// An axis nobody named has size 1 and coordinate 0 everywhere. Copyable value; throws std::invalid_argument on a size below 1,
// an axis named twice or more ranks than an int holds, std::out_of_range on a rank outside [0, world()).
class Topology {
 public:
  struct Axis { std::string name; int size; };
  Topology() = default;
  explicit Topology(std::vector<Axis> axes);

  int world() const;
  int size(std::string_view axis) const;
  int coordinate(int rank, std::string_view axis) const;
  int rank_of(const std::vector<std::pair<std::string_view, int>>& coordinates) const;  // axes left out are 0
  // The ranks that differ from `rank` only in the given axes, ascending, itself included.
  std::vector<int> peers(int rank, const std::vector<std::string_view>& axes) const;
  const std::vector<Axis>& axes() const { return axes_; }

 private:
  std::vector<Axis> axes_;
};

}  // namespace trainyard::plan
