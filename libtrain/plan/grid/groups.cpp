// Reading group descriptions.
#include "libtrain/plan/grid/groups.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/setting_text.h"

#include <algorithm>
#include <charconv>
#include <set>

namespace trainyard::plan {

namespace {

constexpr const char* forms =
    "write NAME:SPEC with SPEC all, 0-7, 0,2,4, 0-3/4-7, block4 or stride8; several with ';' between";

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts{""};
  for (const char c : text) {
    if (c == at) parts.emplace_back();
    else parts.back() += c;
  }
  return parts;
}

[[noreturn]] void refuse(const std::string& what, const std::string& where) {
  throw base::UsageError(base::text("$groups: '{}': {}", where, what), forms);
}

int number_in(const std::string& text, const std::string& where) {
  int n = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size() || n < 0)
    refuse(fmt::format("'{}' is no rank", text), where);
  return n;
}

std::vector<int> ranks_of(const std::string& list, int world, const std::string& where) {
  std::set<int> ranks;
  for (const auto& item : split(list, ',')) {
    const auto ends = split(item, '-');
    if (ends.size() > 2) refuse(fmt::format("'{}' is no range of ranks", item), where);
    const int first = number_in(ends.front(), where), last = number_in(ends.back(), where);
    if (last < first) refuse(fmt::format("the range {} is empty", item), where);
    if (last >= world) refuse(fmt::format("there is no rank {} in a world of {}", last, world), where);
    for (int r = first; r <= last; ++r)
      if (!ranks.insert(r).second) refuse(fmt::format("rank {} is named twice", r), where);
  }
  return {ranks.begin(), ranks.end()};
}

int step_of(const std::string& spec, const std::string& word, int world, const std::string& where) {
  const int n = number_in(spec.substr(word.size()), where);
  if (n < 1 || n > world) refuse(fmt::format("{} of a world of {}", spec, world), where);
  if (world % n != 0) refuse(fmt::format("{} cuts a world of {} into groups of unequal sizes", spec, world), where);
  return n;
}

GroupFamily family_of(const std::string& part, int world) {
  const auto colon = part.find(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == part.size()) refuse("a group is NAME:SPEC", part);
  GroupFamily f{part.substr(0, colon), part.substr(colon + 1), {}};
  const auto& spec = f.description;
  for (const char c : f.name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-')
      refuse(fmt::format("a name is letters, digits, - and _, not '{}'", c), part);
  if (spec == "all") {
    f.groups = whole_world(world).groups;
  } else if (spec.starts_with("block")) {
    const int n = step_of(spec, "block", world, part);
    for (int r = 0; r < world; ++r) {
      if (r % n == 0) f.groups.emplace_back();
      f.groups.back().push_back(r);
    }
  } else if (spec.starts_with("stride")) {
    f.groups.resize(base::size(step_of(spec, "stride", world, part)));
    for (int r = 0; r < world; ++r) f.groups[base::size(r) % f.groups.size()].push_back(r);
  } else {
    std::set<int> seen;
    for (const auto& list : split(spec, '/')) {
      f.groups.push_back(ranks_of(list, world, part));
      for (const int r : f.groups.back())
        if (!seen.insert(r).second) refuse(fmt::format("rank {} is in two groups", r), part);
      if (f.groups.back().size() != f.groups.front().size())
        refuse(fmt::format("groups of unequal sizes, {} and {} ranks", f.groups.front().size(), f.groups.back().size()),
               part);
    }
  }
  if (f.size() < 2) refuse("a group of one rank has nobody to talk to", part);
  return f;
}

}  // namespace

std::vector<GroupFamily> parse_groups(const std::string& text, int world) {
  std::vector<GroupFamily> families;
  for (const auto& part : split(text, ';')) {
    if (part.empty()) continue;
    auto f = family_of(part, world);
    for (const auto& other : families)
      if (other.name == f.name) refuse(fmt::format("the name '{}' is given twice", f.name), part);
    families.push_back(std::move(f));
  }
  if (families.empty()) refuse("no group is named", text);
  return families;
}

namespace {

// Pipeline stages exchange messages only with their neighbours. These are the pairs that can work at the same time:
// 0-1, 2-3 and so on.
GroupFamily neighbours_of(const Topology& topology) {
  GroupFamily f{name_of(Axis::pipe), fmt::format("neighbours of {} stages", topology.size(Axis::pipe)), {}};
  for (int r = 0; r < topology.world(); ++r) {
    const auto peers = topology.peers(r, {Axis::pipe});
    for (std::size_t stage = 0; stage + 1 < peers.size() && peers[stage] <= r; stage += 2)
      if (peers[stage] == r) f.groups.push_back({r, peers[stage + 1]});
  }
  return f;
}

}  // namespace

std::vector<GroupFamily> groups_of(const Topology& topology) {
  std::vector<GroupFamily> families;
  auto axes = topology.axes();
  for (const auto axis : {Axis::expert_data, Axis::expert, Axis::expert_outer, Axis::expert_inner, Axis::zero_group,
                          Axis::reduction_outer, Axis::reduction_inner})
    axes.push_back({axis, topology.size(axis)});
  for (const auto& axis : axes) {
    if (axis.size < 2) continue;
    if (axis.axis == Axis::pipe) {
      families.push_back(neighbours_of(topology));
      continue;
    }
    GroupFamily f{name_of(axis.axis), fmt::format("axis of {}", axis.size), {}};
    for (int r = 0; r < topology.world(); ++r) {
      auto peers = topology.peers(r, {axis.axis});
      if (peers.front() == r) f.groups.push_back(std::move(peers));
    }
    families.push_back(std::move(f));
  }
  return families;
}

GroupFamily whole_world(int world) {
  GroupFamily f{"world", "all", {{}}};
  for (int r = 0; r < world; ++r) f.groups.front().push_back(r);
  return f;
}

std::vector<GroupFamily> equal_groups(int world) {
  std::vector<GroupFamily> out{whole_world(world)};
  for (int n = 2; n < world; ++n)
    if (world % n == 0) out.push_back(parse_groups(fmt::format("groups-of-{}:block{}", n, n), world).front());
  return out;
}

}  // namespace trainyard::plan
