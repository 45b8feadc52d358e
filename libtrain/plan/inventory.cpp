// Blocks in order, each once or one by one.
#include "libtrain/plan/inventory.h"

#include "libtrain/base/error.h"

#include <algorithm>

namespace trainyard::plan {

std::vector<Segment> segments(const ModelConfig& m) {
  return {{Part::input, &block_kind("embedding"), 1},
          {Part::layers, &block_kind("layer"), m.layers},
          {Part::output, &block_kind("head"), 1}};
}

std::vector<PlacedBlock> placed_blocks(const ModelConfig& m) {
  std::vector<PlacedBlock> out;
  std::vector<int> uses_of_unit;
  std::vector<std::string> names;
  for (const auto& segment : segments(m)) {
    const auto uses = segment.kind->uses(m);
    const auto accesses = segment.kind->accesses(m);
    for (std::int64_t index = 0; index < segment.times; ++index) {
      PlacedBlock block{segment.part, segment.kind, index, segment.kind->units(m, index), {}, accesses};
      const auto first = static_cast<int>(names.size());
      for (const auto& unit : block.units) names.push_back(unit.name), uses_of_unit.push_back(0);
      for (const auto& use : uses) {
        const auto owner =
            use.own >= 0 ? names.begin() + first + use.own : std::find(names.begin(), names.end(), use.borrowed);
        TRAINYARD_ASSERT(owner != names.end(), "no block before owns the unit '{}'", use.borrowed);
        const auto unit = static_cast<int>(owner - names.begin());
        block.uses.push_back({unit, uses_of_unit[static_cast<std::size_t>(unit)]++});
      }
      out.push_back(std::move(block));
    }
  }
  return out;
}

std::vector<Unit> units(const ModelConfig& m) {
  std::vector<Unit> out;
  for (const auto& segment : segments(m))
    for (std::int64_t index = 0; index < segment.times; ++index)
      for (auto& unit : segment.kind->units(m, index)) out.push_back(std::move(unit));
  return out;
}

std::int64_t parameter_count(const ModelConfig& m) {
  std::int64_t n = 0;
  for (const auto& segment : segments(m))
    for (const auto& unit : segment.kind->units(m, 0))
      for (const auto& p : unit.parameters) n += segment.times * p.count();
  return n;
}

std::vector<Use> uses(const ModelConfig& m) {
  std::vector<Use> out;
  for (const auto& block : placed_blocks(m)) out.insert(out.end(), block.uses.begin(), block.uses.end());
  return out;
}

}  // namespace trainyard::plan
