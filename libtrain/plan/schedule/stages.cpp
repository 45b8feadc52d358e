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
  const auto named = [&](const std::string& name) {
    return std::find_if(out.begin(), out.end(), [&](const auto& u) { return u.flat_group == name; });
  };
  for (const auto& segment : all)
    for (const auto& occurrence : segment.kind->occurrences(segment.model))
      if (occurrence.own < 0 && named(occurrence.borrowed) == out.end())
        out.push_back({occurrence.borrowed, {stage_of_owner(all, s, occurrence.borrowed)}, {}});
  std::int64_t begin = 0;  // first item of the segment
  for (const auto& segment : all) {
    const auto own = shared_flat_groups(segment);
    for (std::int64_t i = 0; i < segment.times; ++i)
      for (const auto& occurrence : segment.kind->occurrences(segment.model))
        if (const auto used = named(occurrence.own >= 0 ? base::at(*own, occurrence.own).name : occurrence.borrowed);
            used != out.end())
          used->uses.push_back(s.stage_of(begin + i));
    begin += segment.times;
  }
  for (auto& used : out) {
    std::set<int> stages(used.uses.begin(), used.uses.end());
    stages.insert(used.stages.begin(), used.stages.end());
    used.stages = {stages.begin(), stages.end()};
  }
  std::erase_if(out, [](const auto& used) { return used.stages.size() == 1; });
  return out;
}

}  // namespace

bool FlatGroupOfStages::is_in(int stage) const {
  return std::find(stages.begin(), stages.end(), stage) != stages.end();
}

std::int64_t FlatGroupOfStages::uses_in(int stage) const { return std::count(uses.begin(), uses.end(), stage); }

std::vector<FlatGroupOfStages> flat_groups_of_stages(const ModelConfig& model, const Stages& s) {
  if (s.parts() == 1) return {};
  constexpr std::size_t most_parts = 1 << 13;
  using Key = std::tuple<std::shared_ptr<const KnownModel>, int, Boundaries>;
  thread_local base::Memo<Key, std::vector<FlatGroupOfStages>> known(most_parts);
  Key key{known_model(model), s.stages, s.boundaries};
  if (auto before = known.find(key)) return *std::move(before);
  return known.keep(std::move(key), find_flat_groups(model, s), s.boundaries.size());
}

std::vector<FlatGroupOfStages> flat_groups_of_stage(const ModelConfig& m, const Stages& stages, int stage) {
  auto out = flat_groups_of_stages(m, stages);
  std::erase_if(out, [&](const auto& flat_group) { return !flat_group.is_in(stage); });
  return out;
}

std::vector<int> sharing_stages(const ModelConfig& m, const Stages& stages) {
  std::set<int> out;
  for (const auto& flat_group : flat_groups_of_stages(m, stages))
    out.insert(flat_group.stages.begin(), flat_group.stages.end());
  return {out.begin(), out.end()};
}

}  // namespace trainyard::plan
