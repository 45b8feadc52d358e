// One pass of AdamW over the ranges of every parameter that this rank owns.
#include "libtrain/params/optimizer.h"

#include "kernels/cast/cast.h"
#include "libtrain/plan/held.h"

namespace trainyard::params {

namespace {

// Where weight decay applies in elements [begin, end) of a unit, counted from begin; neighbours are joined over the gap
// between them, where everything is zero.
std::vector<kernels::Range> decayed_ranges(const plan::Unit& unit, const plan::UnitLayout& layout, std::int64_t begin,
                                           std::int64_t end) {
  std::vector<kernels::Range> out;
  bool joins = false;
  for (const auto& held : plan::held_ranges(layout, begin, end)) {
    const bool decays = unit.parameters[held.parameter].decay;
    if (decays && joins) out.back().end = held.at + held.count;
    else if (decays) out.push_back({held.at, held.at + held.count});
    joins = decays;
  }
  return out;
}

}  // namespace

OptimizerStates::OptimizerStates(StoreContext& c, Weights& weights) : c_(c), weights_(weights) {
  for (int u = 0; u < c.units(); ++u) {
    if (c.shape.working == base::DType::bf16) master_.push_back(c.optimizer.allocate(base::DType::f32, {count(u)}));
    m_.push_back(c.optimizer.allocate(base::DType::f32, {count(u)}));
    v_.push_back(c.optimizer.allocate(base::DType::f32, {count(u)}));
  }
}

base::View OptimizerStates::own(base::View range, int unit) const {
  return whole() ? flat_range(range, c_.group(unit).rank() * c_.layout(unit).piece, c_.layout(unit).piece) : range;
}

base::View OptimizerStates::master_piece(int unit) {
  return has_master() ? own(master_[static_cast<std::size_t>(unit)], unit) : weights_.own_piece(unit);
}

void OptimizerStates::update(GradientFold& gradients, Weights& weights, const kernels::AdamW& hyper) {
  for (int u = 0; u < c_.units(); ++u) {
    const auto& unit = c_.unit(u);
    const auto& layout = c_.layout(u);
    const auto begin = first(u), end = begin + count(u);
    const auto gradient = whole() ? gradients.gathered(u) : gradients.piece(u);
    const auto working = working_range(weights, u);
    const auto i = static_cast<std::size_t>(u);
    kernels::adamw_update(c_.compute, hyper, has_master() ? master_[i] : working, gradient, m_[i], v_[i],
                          has_master() ? working : base::View{}, decayed_ranges(unit, layout, begin, end));
  }
  if (!whole()) weights.pieces_changed();
}

void OptimizerStates::pieces_loaded(Weights& weights) {
  for (int u = 0; u < c_.units(); ++u)
    if (has_master()) kernels::cast(c_.compute, master_piece(u), weights.own_piece(u));
  if (whole() && c_.shared()) {
    c_.communication.wait(c_.compute.record());
    for (int u = 0; u < c_.units(); ++u) {
      const auto i = static_cast<std::size_t>(u);
      auto& group = c_.group(u);
      if (group.size() == 1) continue;
      if (has_master()) group.all_gather(c_.communication, master_piece(u), master_[i]);
      group.all_gather(c_.communication, m_piece(u), m_[i]);
      group.all_gather(c_.communication, v_piece(u), v_[i]);
    }
    c_.join(c_.communication.record());
  }
  weights.pieces_changed();
}

}  // namespace trainyard::params
