// From items to stages and back.
#include "libtrain/plan/schedule/stages.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/memo.h"
#include "libtrain/plan/blocks/known_model.h"
#include "libtrain/plan/spec/conditions.h"

#include <algorithm>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

namespace trainyard::plan {

namespace {

int stage_of_owner(const std::vector<Segment>& all, const Stages& s, const std::string& name) {
  std::int64_t begin = 0;
  for (const auto& segment : all) {
    for (const auto& flat_group : *shared_flat_groups(segment))
      if (flat_group.name == name) return s.stage_of(begin);
    begin += segment.times;
  }
  TRAINYARD_ASSERT(false, "no block owns the flat group '{}'", name);
  return 0;
}

}  // namespace

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
    const auto part = base::size(s.part(stage, c));
    chunks.push_back({s.boundaries[part], s.boundaries[part + 1]});
  }
  return {model, std::move(chunks)};
}

namespace {

std::vector<FlatGroupOfStages> find_flat_groups(const ModelConfig& model, const Stages& s) {
  std::vector<FlatGroupOfStages> out;
  if (has_adapter(model)) return out;  // copies of frozen tables stay as they are
  const auto all = segments(model);
  std::int64_t begin = 0;  // first item of the segment
  for (const auto& segment : all) {
    for (const auto& occurrence : segment.kind->occurrences(segment.model)) {
      if (occurrence.own >= 0) continue;
      const auto owner = stage_of_owner(all, s, occurrence.borrowed);
      std::set<int> stages{owner};
      for (std::int64_t i = 0; i < segment.times; ++i) stages.insert(s.stage_of(begin + i));
      const auto known =
          std::find_if(out.begin(), out.end(), [&](const auto& u) { return u.flat_group == occurrence.borrowed; });
      if (known != out.end()) stages.insert(known->stages.begin(), known->stages.end());
      if (known != out.end()) known->stages = {stages.begin(), stages.end()};
      else if (stages.size() > 1) out.push_back({occurrence.borrowed, {stages.begin(), stages.end()}});
    }
    begin += segment.times;
  }
  return out;
}

}  // namespace

std::vector<FlatGroupOfStages> flat_groups_of_stages(const ModelConfig& model, const Stages& s) {
  if (s.parts() == 1) return {};
  constexpr std::size_t most_parts = 1 << 13;
  using Key = std::tuple<std::shared_ptr<const KnownModel>, int, Boundaries>;
  thread_local base::Memo<Key, std::vector<FlatGroupOfStages>> known(most_parts);
  Key key{known_model(model), s.stages, s.boundaries};
  if (auto before = known.find(key)) return *std::move(before);
  return known.keep(std::move(key), find_flat_groups(model, s), s.boundaries.size());
}

std::vector<std::string> flat_groups_of_stage(const ModelConfig& m, const Stages& stages, int stage) {
  std::vector<std::string> out;
  for (const auto& flat_group : flat_groups_of_stages(m, stages))
    if (std::find(flat_group.stages.begin(), flat_group.stages.end(), stage) != flat_group.stages.end())
      out.push_back(flat_group.flat_group);
  return out;
}

}  // namespace trainyard::plan
