// Items to stages and back.
#include "libtrain/plan/stages.h"

#include "libtrain/base/error.h"

#include <algorithm>

namespace trainyard::plan {

int Stages::stage_of(std::int64_t item) const {
  if (boundaries.empty()) return 0;
  TRAINYARD_ASSERT(item >= 0 && item < boundaries.back(), "item {} of {}", item, boundaries.back());
  const auto behind = std::upper_bound(boundaries.begin(), boundaries.end(), item);
  return static_cast<int>(behind - boundaries.begin() - 1) % stages;
}

ModelPart part_of(const ModelConfig& model, const Stages& s, int stage) {
  TRAINYARD_ASSERT(stage >= 0 && stage < s.stages, "stage {} of {}", stage, s.stages);
  if (s.boundaries.empty()) return {model};
  std::vector<Items> chunks;
  for (int c = 0; c < s.chunks(); ++c) {
    const auto part = static_cast<std::size_t>(s.part(stage, c));
    chunks.push_back({s.boundaries[part], s.boundaries[part + 1]});
  }
  return {model, std::move(chunks)};
}

std::vector<UnitOfStages> units_of_stages(const ModelConfig& model, const Stages& s) {
  std::vector<UnitOfStages> out;
  for (int stage = 0; stage < s.stages; ++stage) {
    const auto part = part_of(model, s, stage);
    for (const auto& segment : segments(part))
      for (const auto& unit : borrowed_units(part, segment)) {
        auto known = std::find_if(out.begin(), out.end(), [&](const auto& u) { return u.unit == unit.name; });
        if (known == out.end()) known = out.insert(out.end(), {unit.name, {}});
        known->stages.push_back(stage);
      }
  }
  // Blocks own their units before others borrow them.
  for (auto& shared : out)
    for (int stage = 0; stage < shared.stages.front(); ++stage) {
      const auto part = part_of(model, s, stage);
      for (const auto& segment : segments(part))
        for (const auto& unit : segment.kind->units(model, segment.first))
          if (unit.name == shared.unit) {
            shared.stages.insert(shared.stages.begin(), stage);
            stage = s.stages;
          }
    }
  return out;
}

}  // namespace trainyard::plan
