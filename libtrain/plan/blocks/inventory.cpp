// The blocks of a model in order, as segments or one by one.
#include "libtrain/plan/blocks/inventory.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/memo.h"
#include "libtrain/base/number_text.h"
#include "libtrain/plan/blocks/block_registry.h"
#include "libtrain/plan/blocks/known_model.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/layer_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

namespace trainyard::plan {

namespace {

// Adds the segments of items [run.begin, run.end).
void add_segments(std::vector<Segment>& out, const KnownModel& known, Items run, int chunk,
                  const ExpertShare& experts) {
  const auto& m = *known.model();
  const auto has = [&](std::int64_t item) { return run.begin <= item && run.end > item; };
  const auto add = [&](Part part, const BlockKind& kind, const std::shared_ptr<const ModelConfig>& model, Items of) {
    out.push_back({part, &kind, *model, of.end - of.begin, of.begin, chunk, experts, Recompute::none, model});
  };
  const auto here = layers_of(m, run);
  const auto add_layers = [&](const Items& of_tower) {
    for (const auto& alike : known.layers())
      if (const Items both{std::max({alike.first, here.begin, of_tower.begin}),
                           std::min({alike.end, here.end, of_tower.end})};
          both.begin < both.end)
        add(Part::layers, block_kind("layer"), alike.model, both);
  };
  if (has(0)) add(Part::input, block_kind("embedding"), known.model(), {0, 1});
  if (has_encoder(m)) {
    add_layers({0, m.encoder_layers});
    if (has(m.encoder_layers + 1)) add(Part::bridge, block_kind("bridge"), known.model(), {0, 1});
  }
  add_layers({m.encoder_layers, m.layers});
  if (has(item_count(m) - 1)) add(Part::output, block_kind("head"), known.model(), {0, 1});
}

std::vector<Segment> whole(const ModelConfig& m) {
  std::vector<Segment> out;
  add_segments(out, *known_model(m), {0, item_count(m)}, 0, {});
  return out;
}

bool owns(const Segment& segment, const std::string& flat_group) {
  const auto own = shared_flat_groups(segment);
  return std::any_of(own->begin(), own->end(), [&](const FlatGroup& u) { return u.name == flat_group; });
}

}  // namespace

SharedFlatGroups shared_flat_groups(const Segment& s, std::int64_t i) {
  constexpr std::size_t most_parameters = 1 << 16;
  using Key = std::tuple<std::shared_ptr<const ModelConfig>, const BlockKind*, std::int64_t, int, int, int, int, int>;
  thread_local base::Memo<Key, SharedFlatGroups> known(most_parameters);
  const auto& e = s.experts;
  Key key{s.owner, s.kind, s.first + i, e.parts, e.part, e.tensor, e.chunks, e.node};
  if (auto before = known.find(key)) return *std::move(before);
  auto made = std::make_shared<const std::vector<FlatGroup>>(s.flat_groups(i));
  std::size_t parameters = 1;
  for (const auto& flat_group : *made) parameters += flat_group.parameters.size();
  return known.keep(std::move(key), std::move(made), parameters);
}

std::int64_t item_count(const ModelConfig& m) { return m.layers + 2 + (has_encoder(m) ? 1 : 0); }

std::int64_t item_of_layer(const ModelConfig& m, std::int64_t layer) {
  return layer + 1 + (has_encoder(m) && layer >= m.encoder_layers ? 1 : 0);
}

Items layers_of(const ModelConfig& m, const Items& items) {
  // The layers before an item.
  const auto before = [&](std::int64_t item) {
    return std::clamp<std::int64_t>(item - 1 - (has_encoder(m) && item > m.encoder_layers + 1 ? 1 : 0), 0, m.layers);
  };
  return {before(items.begin), before(items.end)};
}

HeldStreams held_streams(const ModelConfig& m, const Items& items) {
  if (!has_encoder(m)) return {false, true, false};
  const auto bridge = m.encoder_layers + 1;
  return {items.begin <= bridge, items.end > bridge, items.end > bridge && items.begin < item_count(m) - 1};
}

HeldStreams passed_streams(const ModelConfig& m, std::int64_t item) {
  const auto before = held_streams(m, {0, item}), behind = held_streams(m, {item, item_count(m)});
  return {behind.source, !behind.source, before.memory && behind.memory};
}

bool Segment::is_of_source() const {
  return has_encoder(model) && (part == Part::input || (part == Part::layers && is_in_encoder(model, first)));
}

Lengths Segment::lengths(const Lengths& whole) const { return is_of_source() ? Lengths(whole.source) : whole; }

MicroShape Segment::shape(const MicroShape& whole) const { return is_of_source() ? whole.of_source() : whole; }

double Segment::rows_per_token(const Lengths& whole) const {
  return is_of_source() ? static_cast<double>(whole.source) / static_cast<double>(whole.sequence) : 1;
}

std::vector<std::string> item_names(const ModelConfig& m) {
  std::vector<std::string> out;
  for (const auto& segment : whole(m))
    for (std::int64_t i = 0; i < segment.times; ++i) {
      const auto own = segment.kind->flat_groups(segment.model, segment.first + i);
      if (segment.part == Part::bridge) out.emplace_back("bridge");
      else if (own.empty()) out.emplace_back(segment.part == Part::input ? "embedding" : "head");
      else out.push_back(segment.part == Part::layers ? own[0].name : own[0].name.substr(0, own[0].name.find('.')));
    }
  return out;
}

ModelPart::ModelPart(const ModelConfig& all) : model(all), chunks({{0, item_count(all)}}) {}

std::vector<Segment> segments(const ModelPart& p) {
  const auto known = known_model(p.model);
  std::vector<Segment> out;
  for (std::size_t c = 0; c < p.chunks.size(); ++c)
    add_segments(out, *known, p.chunks[c], static_cast<int>(c), p.experts);
  return out;
}

std::int64_t layer_count(const ModelPart& p) {
  std::int64_t layers = 0;
  for (const auto& items : p.chunks) {
    const auto here = layers_of(p.model, items);
    layers += here.end - here.begin;
  }
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

namespace {

// Whether a segment before this one borrows the flat group.
bool borrowed_before(const std::vector<Segment>& here, const Segment& segment, const std::string& flat_group) {
  for (const auto& other : here) {
    if (other.chunk == segment.chunk && other.part == segment.part && other.first == segment.first) return false;
    for (const auto& occurrence : other.kind->occurrences(other.model))
      if (occurrence.borrowed == flat_group) return true;
  }
  return false;
}

}  // namespace

std::vector<std::shared_ptr<const FlatGroup>> borrowed_flat_groups(const ModelPart& p, const Segment& segment) {
  std::vector<std::shared_ptr<const FlatGroup>> out;
  std::vector<Segment> here;  // filled only if something is borrowed: there may be as many segments as layers
  for (const auto& occurrence : segment.kind->occurrences(segment.model)) {
    if (occurrence.own >= 0) continue;
    if (here.empty()) here = segments(p);
    if (std::any_of(here.begin(), here.end(), [&](const auto& s) { return owns(s, occurrence.borrowed); })) continue;
    if (borrowed_before(here, segment, occurrence.borrowed)) continue;
    for (const auto& other : whole(p.model)) {
      const auto all = shared_flat_groups(other);
      for (const auto& flat_group : *all)
        if (flat_group.name == occurrence.borrowed) out.emplace_back(all, &flat_group);
    }
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
      if (i == 0)
        for (const auto& flat_group : borrowed_flat_groups(p, segment)) block.borrowed.push_back(*flat_group);
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
    for (const auto& flat_group : borrowed_flat_groups(p, segment)) out.push_back(*flat_group);
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

std::int64_t trained_parameter_count(const ModelConfig& m) {
  std::int64_t n = 0;
  for (const auto& segment : segments(m))
    for (const auto& flat_group : segment.kind->flat_groups(segment.model, segment.first))
      for (const auto& p : flat_group.parameters)
        n += p.update.kind == Update::Kind::frozen ? 0 : segment.times * p.count();
  return n;
}

std::string layers_text(const ModelConfig& m) {
  return has_encoder(m) ? fmt::format("{} + {}", m.encoder_layers, m.decoder_layers) : fmt::format("{}", m.layers);
}

std::string trained_text(const ModelConfig& m) {
  if (!has_adapter(m)) return {};
  const auto trained = trained_parameter_count(m);
  return fmt::format(" ({} trained, {:.2f}%, in adapters of rank {} on {})", base::count_text(trained),
                     100.0 * static_cast<double>(trained) / static_cast<double>(parameter_count(m)), m.adapter.rank,
                     fmt::join(m.adapter.on, ", "));
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
