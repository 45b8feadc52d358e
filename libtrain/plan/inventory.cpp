// Blocks in order, each once or one by one.
#include "libtrain/plan/inventory.h"

#include "libtrain/base/error.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

std::vector<Segment> whole(const ModelConfig& m) {
  return {{Part::input, &block_kind("embedding"), 1},
          {Part::layers, &block_kind("layer"), m.layers},
          {Part::output, &block_kind("head"), 1}};
}

bool owns(const Segment& segment, const ModelConfig& m, const std::string& unit) {
  const auto own = segment.kind->units(m, 0);
  return std::any_of(own.begin(), own.end(), [&](const Unit& u) { return u.name == unit; });
}

}  // namespace

std::int64_t item_count(const ModelConfig& m) {
  std::int64_t n = 0;
  for (const auto& segment : whole(m)) n += segment.times;
  return n;
}

std::vector<std::string> item_names(const ModelConfig& m) {
  std::vector<std::string> out;
  for (const auto& segment : whole(m))
    for (std::int64_t index = 0; index < segment.times; ++index) {
      const auto unit = segment.kind->units(m, index).at(0).name;
      out.push_back(segment.part == Part::layers ? unit : unit.substr(0, unit.find('.')));
    }
  return out;
}

ModelPart::ModelPart(const ModelConfig& all) : model(all), chunks({{0, item_count(all)}}) {}

std::vector<Segment> segments(const ModelPart& p) {
  std::vector<Segment> out;
  for (std::size_t c = 0; c < p.chunks.size(); ++c) {
    std::int64_t first = 0;
    for (auto segment : whole(p.model)) {
      const auto begin = std::max(p.chunks[c].begin, first), end = std::min(p.chunks[c].end, first + segment.times);
      segment.first = begin - first;
      first += segment.times;
      segment.times = end - begin;
      segment.chunk = static_cast<int>(c);
      if (segment.times > 0) out.push_back(segment);
    }
  }
  return out;
}

std::vector<Unit> borrowed_units(const ModelPart& p, const Segment& segment) {
  std::vector<Unit> out;
  const auto here = segments(p);
  for (const auto& use : segment.kind->uses(p.model)) {
    if (use.own >= 0) continue;
    if (std::any_of(here.begin(), here.end(), [&](const auto& s) { return owns(s, p.model, use.borrowed); })) continue;
    for (const auto& other : whole(p.model))
      for (auto& unit : other.kind->units(p.model, 0))
        if (unit.name == use.borrowed) out.push_back(std::move(unit));
  }
  return out;
}

std::vector<PlacedBlock> placed_blocks(const ModelPart& p) {
  std::vector<PlacedBlock> out;
  std::vector<int> uses_of_unit;
  std::vector<std::string> names;
  for (const auto& segment : segments(p)) {
    const auto uses = segment.kind->uses(p.model);
    const auto accesses = segment.kind->accesses(p.model);
    for (std::int64_t i = 0; i < segment.times; ++i) {
      const auto index = segment.first + i;
      PlacedBlock block{segment.part, segment.kind, index,        {}, segment.kind->units(p.model, index),
                        {},           accesses,     segment.chunk};
      if (i == 0) block.borrowed = borrowed_units(p, segment);
      for (const auto& unit : block.borrowed) names.push_back(unit.name), uses_of_unit.push_back(0);
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

std::vector<Unit> units(const ModelPart& p) {
  std::vector<Unit> out;
  for (const auto& segment : segments(p)) {
    for (auto& unit : borrowed_units(p, segment)) out.push_back(std::move(unit));
    for (std::int64_t i = 0; i < segment.times; ++i)
      for (auto& unit : segment.kind->units(p.model, segment.first + i)) out.push_back(std::move(unit));
  }
  return out;
}

std::int64_t parameter_count(const ModelConfig& m) {
  std::int64_t n = 0;
  for (const auto& segment : segments(m))
    for (const auto& unit : segment.kind->units(m, 0))
      for (const auto& p : unit.parameters) n += segment.times * p.count();
  return n;
}

std::vector<Use> uses(const ModelPart& p) {
  std::vector<Use> out;
  for (const auto& block : placed_blocks(p)) out.insert(out.end(), block.uses.begin(), block.uses.end());
  return out;
}

}  // namespace trainyard::plan
