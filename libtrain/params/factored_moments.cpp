// Digits of rows and columns, their sums over ranks, and the states that follow.
#include "libtrain/params/factored_moments.h"

#include "kernels/update/trust_ratio.h"
#include "libtrain/plan/blocks/held.h"
#include "libtrain/plan/cost/parameter_norms.h"

#include <algorithm>

namespace trainyard::params {

static_assert(plan::digits_of_rows_and_columns == kernels::square_sum_limbs);

namespace {

using StateDims = plan::OptimizerState::Shape;

bool are_adafactors(const plan::OptimizerKind& kind) {
  const auto from = kind.element_states();
  return kind.states.size() == from + 2 && kind.states[from].shape == StateDims::rows &&
         kind.states[from + 1].shape == StateDims::columns;
}

}  // namespace

FactoredMoments::FactoredMoments(StoreContext& c) : c_(c) {
  const auto& kind = *c.shape.optimizer;
  TRAINYARD_ASSERT(are_adafactors(kind), "no update reads the states of rows and columns of {}", kind.name);
  std::int64_t most = 0;
  for (int u = 0; u < c.flat_groups(); ++u) {
    auto& group = groups_.emplace_back();
    for (const auto& p : c.flat_group(u).parameters) {
      const auto held = plan::held_part(p, c.world.topology, c.world.rank);
      const auto count = plan::rows_and_columns_of(p);
      TRAINYARD_ASSERT(p.shape.size() <= 2, "{} has {} dims", p.name, p.shape.size());
      const bool vector = p.shape.size() == 1;
      // A rank may hold stored rows alone, which lie beyond the logical ones.
      const plan::RowsAndColumns from{std::min(held.start[0], count.rows), vector ? 0 : held.start[1]};
      group.places.push_back({.at = group.count,
                              .count = count,
                              .held_from = from,
                              .held = {std::min(count.rows - from.rows, held.extent[0]), vector ? 1 : held.extent[1]},
                              .vector = vector,
                              .updated = p.update.kind == plan::Update::Kind::optimizer});
      group.count.rows += count.rows, group.count.columns += count.columns;
    }
    auto& arena = c.arenas.optimizer;
    for (auto state = kind.states.begin() + static_cast<std::ptrdiff_t>(kind.element_states());
         state != kind.states.end(); ++state)
      group.states.push_back(
          arena.allocate(state->dtype, {state->shape == StateDims::rows ? group.count.rows : group.count.columns}));
    group.row_factors = arena.allocate(base::DType::f32, {group.count.rows});
    group.column_factors = arena.allocate(base::DType::f32, {group.count.columns});
    most = std::max(most, group.count.total());
  }
  digits_ = c.arenas.optimizer.allocate(base::DType::i64, {most, plan::digits_of_rows_and_columns});
}

base::View FactoredMoments::state(std::size_t state, int flat_group, std::size_t parameter) const {
  const auto& group = base::at(groups_, flat_group);
  const auto& place = group.places[parameter];
  return state == 0 ? flat_range(group.states[0], place.at.rows, place.count.rows)
                    : flat_range(group.states[1], place.at.columns, place.count.columns);
}

FactoredMoments::Elements FactoredMoments::elements(int flat_group, std::size_t parameter, std::int64_t first,
                                                    std::int64_t count) const {
  const auto& group = base::at(groups_, flat_group);
  const auto& place = group.places[parameter];
  return {.held = {.first = first, .cols = place.held.columns},
          .row_factors = flat_range(group.row_factors, place.at.rows + place.held_from.rows, place.held.rows),
          .column_factors =
              flat_range(group.column_factors, place.at.columns + place.held_from.columns, place.held.columns),
          .count = std::clamp(place.held.rows * place.held.columns - first, std::int64_t{0}, count)};
}

void FactoredMoments::add_squares(const kernels::Adafactor& rule, int u, base::ConstView shard,
                                  std::span<const ParameterNorms::Counted> counted) {
  const auto& group = base::at(groups_, u);
  const auto& layout = c_.layout(u);
  const auto begin = c_.group(u).rank() * layout.shard;
  for (const auto& part : counted) {
    const auto& place = group.places[part.parameter];
    const auto held = elements(u, part.parameter, begin + part.at - layout.offsets[part.parameter], part.count);
    if (held.count == 0) continue;
    kernels::add_line_squares(
        c_.compute,
        {.rule = rule,
         .gradient = shard.elements(part.at, held.count),
         .held = held.held,
         .rows = row_digits(group).row_range(place.at.rows + place.held_from.rows, place.held.rows),
         .columns = column_digits(group).row_range(place.at.columns + place.held_from.columns, place.held.columns)});
  }
}

void FactoredMoments::add_ranks(int u) {
  const auto& group = base::at(groups_, u);
  const auto digits = digits_.row_range(0, group.count.total());
  const auto ranks = plan::norm_ranks(c_.flat_group(u));
  const auto& topology = c_.world.topology;
  const auto add_along = [&](plan::Axes axes) {
    if (topology.size(axes) > 1) c_.world.group(axes).all_reduce(c_.communication, digits, comm::Reduction::sum);
  };
  c_.communication.wait(c_.compute.record());
  add_along(ranks.group);
  if (ranks.tensor) add_along({plan::Axis::tensor});
  c_.join(c_.communication.record());
}

void FactoredMoments::update(const kernels::Adafactor& rule, int u, base::ConstView shard,
                             std::span<const ParameterNorms::Counted> counted) {
  auto& group = base::at(groups_, u);
  if (group.count.total() == 0) return;
  const auto digits = digits_.row_range(0, group.count.total());
  tensor::clear(c_.compute, digits);
  add_squares(rule, u, shard, counted);
  kernels::carry_squares(c_.compute, digits);
  if (c_.world.size > 1) add_ranks(u);
  for (std::size_t p = 0; p < group.places.size(); ++p) {
    const auto& place = group.places[p];
    if (!place.updated) continue;
    kernels::update_lines(c_.compute,
                          {.rule = rule,
                           .row_squares = row_digits(group).row_range(place.at.rows, place.count.rows),
                           .column_squares = column_digits(group).row_range(place.at.columns, place.count.columns),
                           .row_var = state(0, u, p),
                           .column_var = state(1, u, p),
                           .row_factors = flat_range(group.row_factors, place.at.rows, place.count.rows),
                           .column_factors = flat_range(group.column_factors, place.at.columns, place.count.columns),
                           .vector = place.vector});
  }
}

}  // namespace trainyard::params
