// From the boxes of parameters to the boxes of their states.
#include "libtrain/checkpoint/kind_boxes.h"

#include "libtrain/base/index.h"
#include "libtrain/checkpoint/file_names.h"

#include <algorithm>
#include <utility>

namespace trainyard::checkpoint {

RankBoxes boxes_of_kind(StateShape shape, const RankBoxes& boxes, const std::vector<ParameterEntry>& parameters) {
  const bool all = std::none_of(parameters.begin(), parameters.end(), [](const auto& p) { return p.frozen; });
  if (shape == StateShape::parameter && all) return boxes;
  RankBoxes out;
  for (const auto& stored : boxes) {
    if (base::at(parameters, stored.tensor).frozen) continue;
    if (shape == StateShape::parameter) {
      out.push_back({stored.tensor, out.empty() ? 0 : out.back().end(), stored.box});
      continue;
    }
    if (stored.box.start != Dims{}) continue;
    const auto dims = plan::dims_of_state(shape, base::at(parameters, stored.tensor).shape);
    out.push_back({stored.tensor, out.empty() ? 0 : out.back().end(), whole_of(dims)});
  }
  return out;
}

KindBoxes::KindBoxes(const RankBoxes& boxes, std::int64_t elements, const KindTensors& tensors)
    : boxes_(&boxes), elements_(elements) {
  for (const auto& [kind, lines] : tensors.factored())
    factored_[kind] = boxes_of_kind(lines.shape, boxes, tensors.parameters());
}

const RankBoxes& KindBoxes::of(const Kind& kind) const {
  const auto found = factored_.find(kind);
  return found == factored_.end() ? *boxes_ : found->second;
}

std::int64_t KindBoxes::elements(const Kind& kind) const {
  const auto found = factored_.find(kind);
  if (found == factored_.end()) return elements_;
  return found->second.empty() ? 0 : found->second.back().end();
}

std::vector<KindBoxes> boxes_of_kinds(const Manifest& m, const KindTensors& tensors) {
  std::vector<KindBoxes> out;
  for (int r = 0; r < m.ranks; ++r) {
    const auto& model = m.files.at(rank_name(r) + ".h5").payloads.at(path_of(Kind::model));
    out.emplace_back(base::at(m.boxes, r), model.bytes / base::size_of(m.state.dtype), tensors);
  }
  return out;
}

std::vector<std::vector<Place>> places_of(const std::vector<KindBoxes>& ranks, const Kind& kind, std::size_t tensors) {
  std::vector<const RankBoxes*> of_ranks;
  for (const auto& rank : ranks) of_ranks.push_back(&rank.of(kind));
  return places_of(of_ranks, tensors);
}

}  // namespace trainyard::checkpoint
