// Boxes and places of the pieces of units.
#include "libtrain/checkpoint/pieces.h"

#include "libtrain/base/error.h"

#include <utility>

namespace trainyard::checkpoint {

namespace {

// By the number of a unit in plan::units(model).
std::vector<std::int64_t> items_of_units(const plan::ModelConfig& model) {
  std::vector<std::int64_t> out;
  std::int64_t item = 0;
  for (const auto& segment : plan::segments(model))
    for (std::int64_t i = 0; i < segment.times; ++i, ++item)
      out.insert(out.end(), segment.kind->units(segment.model, segment.first + i).size(), item);
  return out;
}

}  // namespace

Pieces::Pieces(const plan::ModelConfig& model, plan::Topology topology, const plan::Stages& stages)
    : topology_(std::move(topology)), units_(plan::units(model)), of_stages_(static_cast<std::size_t>(stages.stages)) {
  TRAINYARD_ASSERT(stages.stages == topology_.size(plan::Axis::pipe), "{} stages of {} ranks along pipe", stages.stages,
                   topology_.size(plan::Axis::pipe));
  const auto items = items_of_units(model);
  std::int32_t tensor = 0;
  for (std::size_t u = 0; u < units_.size(); ++u) {
    layouts_.push_back(plan::layout(units_[u], topology_));
    first_tensors_.push_back(tensor);
    tensor += static_cast<std::int32_t>(units_[u].parameters.size());
    of_stages_[static_cast<std::size_t>(stages.stage_of(items[u]))].push_back(u);
  }
}

std::int64_t Pieces::elements(int rank) const {
  std::int64_t n = 0;
  for (const auto u : units_of(rank))
    for (const auto& range : plan::counted_ranges(units_[u], layouts_[u], topology_, rank))
      n += range.end - range.begin;
  return n;
}

int Pieces::empty_ranks() const {
  int empty = 0;
  for (int rank = 0; rank < topology_.world(); ++rank)
    empty += any_saved(rank,
                       [&](std::int32_t, const plan::Parameter& p, const plan::HeldRange& held, std::int64_t) {
                         return !boxes_of_held(p, plan::held_part(p, topology_, rank), held.first, held.count).empty();
                       })
                 ? 0
                 : 1;
  return empty;
}

RankBoxes Pieces::boxes(int rank) const {
  RankBoxes out;
  any_saved(rank, [&](std::int32_t tensor, const plan::Parameter& p, const plan::HeldRange& held, std::int64_t at) {
    for (const auto& box : boxes_of_held(p, plan::held_part(p, topology_, rank), held.first, held.count)) {
      out.push_back({tensor, at, box});
      at = out.back().end();
    }
    return false;
  });
  return out;
}

bool divides(const plan::ModelConfig& model, const plan::Topology& topology) {
  for (const auto& unit : plan::units(model))
    for (const auto& p : unit.parameters)
      if (p.cut && p.stored[static_cast<std::size_t>(p.cut->dim)] % topology.size(p.cut->axis) != 0) return false;
  return true;
}

Places::Places(const Pieces& pieces) {
  const auto& topology = pieces.topology();
  for (std::size_t u = 0; u < pieces.units().size(); ++u)
    for (std::size_t i = 0; i < pieces.units()[u].parameters.size(); ++i) {
      Tensor t{pieces.units()[u].parameters[i],
               pieces.layouts()[u].piece,
               pieces.layouts()[u].offsets[i],
               topology.size(pieces.units()[u].group),
               1,
               {}};
      if (t.parameter.cut) t.parts = topology.size(t.parameter.cut->axis);
      t.savers.resize(static_cast<std::size_t>(t.parts) * static_cast<std::size_t>(t.pieces));
      tensors_.push_back(std::move(t));
    }
  for (int rank = 0; rank < topology.world(); ++rank)
    pieces.for_each_saved(rank, [&](std::int32_t tensor, const plan::HeldRange& held, std::int64_t at) {
      auto& t = tensors_[static_cast<std::size_t>(tensor)];
      const int part = t.parameter.cut ? topology.coordinate(rank, t.parameter.cut->axis) : 0;
      const auto in_unit = t.offset + held.first;
      t.savers[static_cast<std::size_t>(part * t.pieces + in_unit / t.piece)] = {rank, at - in_unit % t.piece};
    });
}

RankBoxes boxes_of_pieces(const plan::ModelConfig& model, const plan::Topology& topology, int rank,
                          const plan::Stages& stages) {
  return Pieces(model, topology, stages).boxes(rank);
}

std::vector<std::int64_t> items_of_parameters(const plan::ModelConfig& model) {
  const auto items = items_of_units(model);
  const auto units = plan::units(model);
  std::vector<std::int64_t> out;
  for (std::size_t u = 0; u < units.size(); ++u) out.insert(out.end(), units[u].parameters.size(), items[u]);
  return out;
}

}  // namespace trainyard::checkpoint
