// The blocks of a model in order, as segments or one by one.
#include "libtrain/plan/blocks/inventory.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/plan/blocks/block_registry.h"
#include "libtrain/plan/spec/layer_model.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

// The segments of items [run.begin, run.end).
std::vector<Segment> segments_of(const ModelConfig& m, Items run, int chunk, const ExpertShare& experts) {
  std::vector<Segment> out;
  const auto one = [&](Part part, const char* kind) {
    return Segment{part, &block_kind(kind), m, 1, 0, chunk, experts};
  };
  if (run.begin <= 0 && run.end > 0) out.push_back(one(Part::input, "embedding"));
  const auto end = std::min(run.end - 1, m.layers);
  for (auto layer = std::max<std::int64_t>(run.begin - 1, 0); layer < end;) {
    const auto times = alike_layers(m, layer, end);
    out.push_back({Part::layers, &block_kind("layer"), layer_model(m, layer), times, layer, chunk, experts});
    layer += times;
  }
  if (run.begin <= m.layers + 1 && run.end > m.layers + 1) out.push_back(one(Part::output, "head"));
  return out;
}

std::vector<Segment> whole(const ModelConfig& m) { return segments_of(m, {0, item_count(m)}, 0, {}); }

bool owns(const Segment& segment, const std::string& flat_group) {
  const auto own = segment.flat_groups();
  return std::any_of(own.begin(), own.end(), [&](const FlatGroup& u) { return u.name == flat_group; });
}

}  // namespace

std::int64_t item_count(const ModelConfig& m) { return m.layers + 2; }

std::vector<std::string> item_names(const ModelConfig& m) {
  std::vector<std::string> out;
  for (const auto& segment : whole(m))
    for (std::int64_t i = 0; i < segment.times; ++i) {
      const auto own = segment.kind->flat_groups(segment.model, segment.first + i);
      if (own.empty()) out.emplace_back(segment.part == Part::input ? "embedding" : "head");
      else out.push_back(segment.part == Part::layers ? own[0].name : own[0].name.substr(0, own[0].name.find('.')));
    }
  return out;
}

ModelPart::ModelPart(const ModelConfig& all) : model(all), chunks({{0, item_count(all)}}) {}

std::vector<Segment> segments(const ModelPart& p) {
  std::vector<Segment> out;
  for (std::size_t c = 0; c < p.chunks.size(); ++c)
    for (auto& segment : segments_of(p.model, p.chunks[c], static_cast<int>(c), p.experts))
      out.push_back(std::move(segment));
  return out;
}

std::int64_t layer_count(const ModelPart& p) {
  std::int64_t layers = 0;
  for (const auto& items : p.chunks)
    layers +=
        std::max<std::int64_t>(0, std::min(items.end, p.model.layers + 1) - std::max<std::int64_t>(items.begin, 1));
  return layers;
}

std::vector<Segment> segments(const ModelPart& p, const Recomputation& recomputation) {
  std::vector<Segment> out;
  const auto layers = layer_count(p);
  std::int64_t before = 0;  // layers of the segments so far
  for (auto& segment : segments(p)) {
    if (segment.part != Part::layers) {
      out.push_back(std::move(segment));
      continue;
    }
    for (const auto& run : recomputation.runs(before, segment.times, layers)) {
      segment.times = run.layers, segment.recompute = run.form;
      out.push_back(segment);
      segment.first += run.layers, before += run.layers;
    }
  }
  return out;
}

std::vector<FlatGroup> borrowed_flat_groups(const ModelPart& p, const Segment& segment) {
  std::vector<FlatGroup> out;
  std::vector<Segment> here;  // filled only if something is borrowed: there may be as many segments as layers
  for (const auto& occurrence : segment.kind->occurrences(segment.model)) {
    if (occurrence.own >= 0) continue;
    if (here.empty()) here = segments(p);
    if (std::any_of(here.begin(), here.end(), [&](const auto& s) { return owns(s, occurrence.borrowed); })) continue;
    for (const auto& other : whole(p.model))
      for (auto& flat_group : other.kind->flat_groups(other.model, other.first))
        if (flat_group.name == occurrence.borrowed) out.push_back(std::move(flat_group));
  }
  return out;
}

std::vector<PlacedBlock> placed_blocks(const ModelPart& p) {
  std::vector<PlacedBlock> out;
  std::vector<int> occurrences_of_flat_group;
  std::vector<std::string> names;
  for (const auto& segment : segments(p)) {
    const auto occurrences = segment.kind->occurrences(segment.model);
    const auto accesses = segment.kind->accesses(segment.model);
    for (std::int64_t i = 0; i < segment.times; ++i) {
      const auto index = segment.first + i;
      PlacedBlock block{segment.part,           segment.kind, segment.model, index,         {},
                        segment.flat_groups(i), {},           accesses,      segment.chunk, segment.experts};
      if (i == 0) block.borrowed = borrowed_flat_groups(p, segment);
      for (const auto& flat_group : block.borrowed)
        names.push_back(flat_group.name), occurrences_of_flat_group.push_back(0);
      const auto first = static_cast<int>(names.size());
      for (const auto& flat_group : block.flat_groups)
        names.push_back(flat_group.name), occurrences_of_flat_group.push_back(0);
      for (const auto& occurrence : occurrences) {
        const auto owner = occurrence.own >= 0 ? names.begin() + first + occurrence.own
                                               : std::find(names.begin(), names.end(), occurrence.borrowed);
        TRAINYARD_ASSERT(owner != names.end(), "no block before owns the flat group '{}'", occurrence.borrowed);
        const auto flat_group = static_cast<int>(owner - names.begin());
        block.occurrences.push_back({flat_group, base::at(occurrences_of_flat_group, flat_group)++});
      }
      out.push_back(std::move(block));
    }
  }
  return out;
}

std::vector<FlatGroup> flat_groups(const ModelPart& p) {
  std::vector<FlatGroup> out;
  for (const auto& segment : segments(p)) {
    for (auto& flat_group : borrowed_flat_groups(p, segment)) out.push_back(std::move(flat_group));
    for (std::int64_t i = 0; i < segment.times; ++i)
      for (auto& flat_group : segment.flat_groups(i)) out.push_back(std::move(flat_group));
  }
  return out;
}

std::int64_t parameter_count(const ModelConfig& m) {
  std::int64_t n = 0;
  for (const auto& segment : segments(m))
    for (const auto& flat_group : segment.kind->flat_groups(segment.model, segment.first))
      for (const auto& p : flat_group.parameters) n += segment.times * p.count();
  return n;
}

namespace {

// Sums, over the layers with experts, of(the layer's model, the parameters of all its experts).
template <class Of> std::int64_t sum_over_experts(const ModelConfig& m, const Of& of) {
  std::int64_t n = 0;
  for (const auto& segment : segments(m)) {
    if (segment.part != Part::layers || !has_experts(segment.model)) continue;
    std::int64_t all = 0;
    const auto flat_groups = segment.kind->flat_groups(segment.model, segment.first);
    for (const auto& p : flat_groups.at(1).parameters) all += p.count();
    n += segment.times * of(segment.model, all);
  }
  return n;
}

}  // namespace

std::int64_t expert_parameter_count(const ModelConfig& m) {
  return sum_over_experts(m, [](const ModelConfig&, std::int64_t all) { return all; });
}

std::int64_t active_parameter_count(const ModelConfig& m) {
  return parameter_count(m) - sum_over_experts(m, [](const ModelConfig& layer, std::int64_t all) {
           const auto count = expert_count(layer);
           return all / count * (count - layer.experts.top_k);
         });
}

std::vector<Occurrence> occurrences(const ModelPart& p) {
  std::vector<Occurrence> out;
  for (const auto& block : placed_blocks(p)) out.insert(out.end(), block.occurrences.begin(), block.occurrences.end());
  return out;
}

}  // namespace trainyard::plan
