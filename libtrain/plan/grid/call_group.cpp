// Names of groups.
#include "libtrain/plan/grid/call_group.h"

#include <algorithm>
#include <cstddef>

namespace trainyard::plan {

namespace {

constexpr std::string_view name_of_stages = "stages";

}  // namespace

std::string name_of(CallGroup group) { return group.is_stages() ? std::string(name_of_stages) : name_of(group.axes()); }

CallGroup call_group_named(std::string_view name, const std::string& where) {
  if (name == name_of_stages) return CallGroup::stages();
  Axes axes;
  for (std::size_t begin = 0; begin <= name.size();) {
    const auto end = std::min(name.find('+', begin), name.size());
    axes = axes.with(axis_named(name.substr(begin, end - begin), where));
    begin = end + 1;
  }
  return axes;
}

}  // namespace trainyard::plan
