// Boxes and places of the pieces of units.
#include "libtrain/checkpoint/pieces.h"

#include <utility>

namespace trainyard::checkpoint {

Pieces::Pieces(const plan::ModelConfig& model, plan::Topology topology)
    : topology_(std::move(topology)), units_(plan::units(model)) {
  for (const auto& unit : units_) layouts_.push_back(plan::layout(unit, topology_));
}

std::int64_t Pieces::elements(int rank) const {
  std::int64_t n = 0;
  for (std::size_t u = 0; u < units_.size(); ++u)
    for (const auto& range : plan::counted_ranges(units_[u], layouts_[u], topology_, rank))
      n += range.end - range.begin;
  return n;
}

std::vector<const plan::Parameter*> Pieces::parameters() const {
  std::vector<const plan::Parameter*> out;
  for (const auto& unit : units_)
    for (const auto& p : unit.parameters) out.push_back(&p);
  return out;
}

int Pieces::empty_ranks() const {
  const auto all = parameters();
  int empty = 0;
  for (int rank = 0; rank < topology_.world(); ++rank)
    empty += any_saved(rank,
                       [&](std::int32_t tensor, const plan::HeldRange& held, std::int64_t) {
                         const auto& p = *all[static_cast<std::size_t>(tensor)];
                         return !boxes_of_held(p, plan::held_part(p, topology_, rank), held.first, held.count).empty();
                       })
                 ? 0
                 : 1;
  return empty;
}

RankBoxes Pieces::boxes(int rank) const {
  const auto all = parameters();
  RankBoxes out;
  for_each_saved(rank, [&](std::int32_t tensor, const plan::HeldRange& held, std::int64_t at) {
    const auto& p = *all[static_cast<std::size_t>(tensor)];
    for (const auto& box : boxes_of_held(p, plan::held_part(p, topology_, rank), held.first, held.count)) {
      out.push_back({tensor, at, box});
      at = out.back().end();
    }
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

RankBoxes boxes_of_pieces(const plan::ModelConfig& model, const plan::Topology& topology, int rank) {
  return Pieces(model, topology).boxes(rank);
}

}  // namespace trainyard::checkpoint
