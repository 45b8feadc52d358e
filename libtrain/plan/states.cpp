// The sizes of model states, by the same arithmetic that the stores allocate with.
#include "libtrain/plan/states.h"

#include "libtrain/base/error.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

constexpr std::int64_t aligned64(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

std::size_t at(int i) { return static_cast<std::size_t>(i); }

}  // namespace

UnitSet::UnitSet(const ModelConfig& model, int n) : units(plan::units(model)), uses(plan::uses(model)), pieces(n) {
  for (const auto& unit : units) layouts.push_back(layout(unit, n));
}

int UnitSet::use_index(Use use) const {
  for (std::size_t i = 0; i < uses.size(); ++i)
    if (uses[i] == use) return static_cast<int>(i);
  TRAINYARD_ASSERT(false, "unit {} has no use {}", use.unit, use.use);
  return -1;
}

std::int64_t UnitSet::piece_total() const {
  std::int64_t n = 0;
  for (const auto& l : layouts) n += l.piece;
  return n;
}

std::int64_t UnitSet::padded_total() const { return piece_total() * pieces; }

std::int64_t UnitSet::piece_total_uses() const {
  std::int64_t n = 0;
  for (const auto& use : uses) n += piece_of(use);
  return n;
}

std::int64_t UnitSet::padded_total_uses() const { return piece_total_uses() * pieces; }

std::int64_t UnitSet::largest_padded() const {
  std::int64_t n = 0;
  for (const auto& l : layouts) n = std::max(n, l.padded);
  return n;
}

SlotPlan::SlotPlan(const UnitSet& set, int layer_slots) {
  std::vector<int> rotating;
  int layer = 0;
  for (std::size_t u = 0; u < set.units.size(); ++u) {
    const bool is_layer = set.units[u].name.starts_with("layers.");
    int slot = static_cast<int>(elements.size());
    if (is_layer && layer >= layer_slots) slot = rotating[at(layer % layer_slots)];
    else elements.push_back(0);
    if (is_layer && layer++ < layer_slots) rotating.push_back(slot);
    slot_of_unit.push_back(slot);
    elements[at(slot)] = std::max(elements[at(slot)], set.layouts[u].padded);
  }
}

std::int64_t SlotPlan::bytes(std::int64_t element_bytes) const {
  std::int64_t n = 0;
  for (auto e : elements) n += aligned64(e * element_bytes);
  return n;
}

GradientPlan gradient_plan(const StateShape& s) {
  GradientPlan g;
  const bool several_turns = s.batch.turns() > 1;
  g.whole = s.zero <= 1 || s.batch.fold > 1;
  const bool alone = s.zero == 0 && s.batch.data_ranks == 1 && !several_turns;   // the only gradient of the step is the sum
  g.units = s.batch.fold > 1 || !(s.zero == 1 || alone);
  if (s.zero >= 2) g.pieces = true;
  else if (s.batch.fold > 1 || s.zero == 1) g.pieces = several_turns;
  return g;
}

StateBytes state_bytes(const UnitSet& set, const StateShape& s) {
  const std::int64_t w = base::size_of(s.working), g = base::size_of(s.gradient);
  const auto gradients = gradient_plan(s);
  const SlotPlan slots(set, s.layer_slots);
  StateBytes b;
  b.parameters = (s.zero == 3 ? set.piece_total() : set.padded_total()) * w;
  b.gathered_units = s.zero == 3 ? slots.bytes(w) : 0;
  b.gradients = (gradients.whole ? set.padded_total_uses() * g : 0) + (gradients.pieces ? set.piece_total_uses() * g : 0);
  b.unit_gradients = gradients.units ? slots.bytes(g) : 0;
  const std::int64_t states = 8 + (s.working == base::DType::bf16 ? 4 : 0);
  b.optimizer = (s.zero == 0 ? set.padded_total() : set.piece_total()) * states;
  b.communication_staging = set.pieces > 1 ? aligned64(set.largest_padded() * g) : 0;
  b.save_snapshot = set.piece_total() * (w + states);
  return b;
}

}  // namespace trainyard::plan
