// Rows of digits for parameters, and their sums over ranks.
#include "libtrain/params/parameter_norms.h"

#include "kernels/update/trust_ratio.h"
#include "libtrain/plan/blocks/held.h"

#include <algorithm>

namespace trainyard::params {

static_assert(plan::digits_of_norms == kernels::squares_of_update);

ParameterNorms::ParameterNorms(StoreContext& c) : c_(c) {
  for (int u = 0; u < c.flat_groups(); ++u) {
    const auto& flat_group = c.flat_group(u);
    const auto ranks = plan::norm_ranks(flat_group);
    auto section = std::find_if(sections_.begin(), sections_.end(), [&](const auto& s) { return s.is.ranks == ranks; });
    if (section == sections_.end())
      section = sections_.insert(section, {.is = {ranks, 0}, .squares = {}, .ratios = {}});
    auto& rows = rows_.emplace_back();
    rows.section = static_cast<std::size_t>(section - sections_.begin());
    for (const auto& p : flat_group.parameters)
      rows.of_parameters.push_back(p.update.kind == plan::Update::Kind::optimizer ||
                                           p.update.kind == plan::Update::Kind::kept  // which a plan does not know
                                       ? section->is.parameters++
                                       : -1);
    const auto begin = c.group(u).rank() * c.layout(u).shard;
    auto& counted = counted_.emplace_back();
    for (const auto& held : plan::held_ranges(c.layout(u), begin, begin + c.layout(u).shard))
      if (flat_group.parameters[held.parameter].update.kind == plan::Update::Kind::optimizer &&
          plan::is_first_holder(flat_group, flat_group.parameters[held.parameter], c.world.topology, c.world.rank))
        counted.push_back({held.parameter, held.at, held.count});
  }
  for (auto& s : sections_) {
    s.squares = c.arenas.optimizer.allocate(base::DType::i64, {s.is.parameters, plan::digits_of_norms});
    if (c.shape.optimizer->collective == plan::OptimizerKind::Collective::parameter_norms)
      s.ratios = c.arenas.optimizer.allocate(base::DType::f32, {s.is.parameters});
  }
}

void ParameterNorms::begin() {
  for (const auto& s : sections_) tensor::clear(c_.compute, s.squares);
}

void ParameterNorms::add(const kernels::Lamb& rule, int flat_group, const Counted& counted, const Part& part) {
  kernels::add_update_squares(c_.compute, {.rule = rule,
                                           .parameter = part.parameter,
                                           .m = part.states[0],
                                           .v = part.states[1],
                                           .decays = c_.flat_group(flat_group).parameters[counted.parameter].decays(),
                                           .squares = squares(flat_group, counted.parameter)});
}

base::View ParameterNorms::squares(int flat_group, std::size_t parameter) const {
  const auto& rows = base::at(rows_, flat_group);
  return sections_[rows.section].squares.row_range(rows.of_parameters[parameter], 1);
}

void ParameterNorms::add_up(Section& section, plan::Axes axes) {
  if (c_.world.topology.size(axes) > 1)
    c_.world.group(axes).all_reduce(c_.communication, section.squares, comm::Reduction::sum);
}

void ParameterNorms::agree() {
  for (const auto& s : sections_) kernels::carry_squares(c_.compute, s.squares);
  if (c_.world.size > 1) {
    c_.communication.wait(c_.compute.record());
    for (auto& s : sections_) {
      add_up(s, s.is.ranks.group);
      if (s.is.ranks.tensor) add_up(s, {plan::Axis::tensor});
    }
    c_.join(c_.communication.record());
  }
}

void ParameterNorms::make_ratios() {
  for (const auto& s : sections_) kernels::trust_ratios(c_.compute, s.squares, s.ratios);
}

const float* ParameterNorms::ratio(int flat_group, std::size_t parameter) const {
  const auto& rows = base::at(rows_, flat_group);
  return sections_[rows.section].ratios.ptr<float>() + rows.of_parameters[parameter];
}

}  // namespace trainyard::params
