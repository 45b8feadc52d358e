// Sizes and the flat layout of a unit.
#include "libtrain/plan/unit.h"

#include "libtrain/base/error.h"

namespace trainyard::plan {

namespace {

std::int64_t product(const std::vector<std::int64_t>& dims) {
  std::int64_t n = 1;
  for (auto d : dims) n *= d;
  return n;
}

}  // namespace

std::int64_t Parameter::count() const { return product(shape); }
std::int64_t Parameter::stored_count() const { return product(stored); }

int index_of(const Unit& unit, std::string_view name) {
  for (std::size_t i = 0; i < unit.parameters.size(); ++i)
    if (std::string_view(unit.parameters[i].name).substr(unit.name.size() + 1) == name) return static_cast<int>(i);
  return -1;
}

UnitLayout layout(const Unit& unit, int pieces) {
  TRAINYARD_ASSERT(pieces >= 1, "{} pieces", pieces);
  UnitLayout l;
  l.offsets.reserve(unit.parameters.size());
  for (const auto& p : unit.parameters) {
    l.offsets.push_back((l.used + 15) / 16 * 16);
    l.used = l.offsets.back() + p.stored_count();
  }
  const std::int64_t grain = std::int64_t{64} * pieces;
  l.padded = (l.used + grain - 1) / grain * grain;
  l.piece = l.padded / pieces;
  return l;
}

}  // namespace trainyard::plan
