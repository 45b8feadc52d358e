// One pass of the optimizer over the ranges of every parameter that this rank owns.
#include "libtrain/params/optimizer.h"

#include "kernels/cast/cast.h"
#include "kernels/even_load/even_load.h"
#include "kernels/muon/muon.h"
#include "libtrain/base/index.h"
#include "libtrain/plan/blocks/held.h"

#include <algorithm>

namespace trainyard::params {

namespace {

kernels::Range overlap(kernels::Range a, kernels::Range b) {
  return {std::max(a.first, b.first), std::min(a.end, b.end)};
}

base::View part_of(base::View flat, kernels::Range range) {
  return flat ? flat_range(flat, range.first, range.end - range.first) : flat;
}

}  // namespace

OptimizerStates::OptimizerStates(StoreContext& c, Weights& weights) : c_(c), masters_(c, weights) {
  TRAINYARD_ASSERT(masters_.are_f32() || !kind().has_parameter_norms(), "{} with remainders", kind().name);
  if (kind().collective == plan::OptimizerKind::Collective::whole_matrices) {
    TRAINYARD_ASSERT(c.shape.gradient == base::DType::f32, "{} with gradients in {}", kind().name,
                     base::name_of(c.shape.gradient));
    matrices_.emplace(c);
  }
  for (int u = 0; u < c.flat_groups(); ++u) {
    const auto allocated = [&](plan::Held held, std::size_t i, base::DType dtype) {
      return c.is_offloaded(u, held, i) || c.is_frozen(u) ? base::View{}
                                                          : c.arenas.optimizer.allocate(dtype, {count(u)});
    };
    masters_.allocate(u);
    auto& states = states_.emplace_back();
    for (std::size_t i = 0; i < kind().element_states(); ++i)
      states.push_back(allocated(plan::Held::state, i, kind().states[i].dtype));
    ranges_.push_back(ranges_of(u));
  }
  if (kind().has_factored_states()) factored_.emplace(c);
  if (kind().has_parameter_norms()) norms_.emplace(c);
}

OptimizerStates::FlatGroupRanges OptimizerStates::ranges_of(int u) const {
  const auto& flat_group = c_.flat_group(u);
  const auto begin = first(u), end = begin + count(u);
  FlatGroupRanges out;
  if (c_.is_frozen(u)) return out;
  out.optimizer.push_back({{0, end - begin}, {}});
  bool joins = false;
  for (const auto& held : plan::held_ranges(c_.layout(u), begin, end)) {
    const auto& parameter = flat_group.parameters[held.parameter];
    if (parameter.update.kind != plan::Update::Kind::optimizer) {
      if (parameter.update.kind == plan::Update::Kind::even_load)
        out.even_load.push_back({{held.at, held.at + held.count}, &parameter});
      out.optimizer.back().all.end = held.at;
      out.optimizer.push_back({{held.at + held.count, end - begin}, {}});
      joins = false;
      continue;
    }
    out.parameters.push_back({{held.at, held.at + held.count}, held.parameter});
    const bool of_matrices = matrices_ && plan::is_hidden_matrix(flat_group, parameter);
    if (const auto& last = out.optimizer.back(); of_matrices != last.of_matrices ||
                                                 parameter.rate_scale != last.rate_scale ||
                                                 parameter.weight_decay != last.weight_decay) {
      out.optimizer.back().all.end = held.at;
      out.optimizer.push_back({{held.at, end - begin}, {}, of_matrices, parameter.rate_scale, parameter.weight_decay});
      joins = false;
    }
    auto& stretch = out.optimizer.back();
    const auto from = held.at - stretch.all.first;
    if (parameter.decays() && joins) stretch.decayed.back().end = from + held.count;
    else if (parameter.decays()) stretch.decayed.push_back({from, from + held.count});
    joins = parameter.decays();
  }
  return out;
}

base::View OptimizerStates::own(base::View range, int flat_group) const {
  return whole()
             ? flat_range(range, c_.group(flat_group).rank() * c_.layout(flat_group).shard, c_.layout(flat_group).shard)
             : range;
}

// With ZeRO 0 a rank keeps the momentum of its own shard alone up to date, which is what it saves.
void OptimizerStates::prepare(GradientReduction& gradients, const UpdateRules& rules) {
  TRAINYARD_ASSERT(rules.matrices.has_value() == matrices_.has_value(), "{} {} a rule of matrices", kind().name,
                   rules.matrices ? "with" : "without");
  if (!matrices_) return;
  for (int u = 0; u < c_.flat_groups(); ++u)
    for (const auto& [first, end] : matrices_->ranges(u))
      kernels::muon_direction(c_.compute, {.hyper = *rules.matrices,
                                           .gradient = flat_range(gradients.shard(u), first, end - first),
                                           .m = flat_range(state_shard(0, u), first, end - first)});
  matrices_->orthogonalise(gradients);
}

base::View OptimizerStates::in_memory(GradientReduction& gradients, Weights& weights, int u, plan::Held held,
                                      std::size_t state) {
  switch (held) {
    case plan::Held::gradient: return whole() ? gradients.gathered(u) : gradients.shard(u);
    case plan::Held::parameter: return working_range(weights, u);
    case plan::Held::master: return masters_.beside(u);
    case plan::Held::state: break;
  }
  return base::at(states_, u)[state];
}

UpdatedRange OptimizerStates::updated(GradientReduction& gradients, Weights& weights, int u, kernels::Range range,
                                      const Tile& tile) {
  using plan::Held;
  const kernels::Range in_tile{range.first - tile.range.first, range.end - tile.range.first};
  // A part of what the tile has read, else of what is in memory.
  const auto part = [&](Held held, std::size_t state = 0) {
    const auto read = tile.of(held, state);
    return read ? part_of(read, in_tile) : part_of(in_memory(gradients, weights, u, held, state), range);
  };
  const auto gradient = part(Held::gradient), working = part(Held::parameter);
  updated_states_.clear();
  for (std::size_t s = 0; s < kind().rule_states(); ++s) updated_states_.push_back(part(Held::state, s));
  UpdatedRange out{.gradient = gradient, .parameter = {}, .states = updated_states_, .working = {}};
  if (const auto master = tile.of(Held::master)) out.parameter = part_of(master, in_tile), out.working = working;
  else masters_.place(u, range, working, out);
  return out;
}

void OptimizerStates::update(GradientReduction& gradients, Weights& weights, const UpdateRules& rules,
                             std::int64_t tokens) {
  const auto* lamb = rules.elements ? std::get_if<kernels::Lamb>(&*rules.elements) : nullptr;
  TRAINYARD_ASSERT(rules.factored.has_value() == factored_.has_value() &&
                       (lamb != nullptr || rules.factored.has_value()) == norms_.has_value(),
                   "an update of {} by the rule of another optimizer", kind().name);
  if (rules.factored) {
    apply_factored(gradients, weights, *rules.factored);
  } else if (lamb != nullptr) {
    apply_elements(gradients, weights, UpdateRule(kernels::LambMoments{*lamb}));
    apply_with_ratios(gradients, weights, *lamb);
  } else {
    apply_elements(gradients, weights, rules);
  }
  TRAINYARD_ASSERT(rules.average.has_value() == kind().averages, "an average of weights {} its state",
                   kind().averages ? "without a rule for" : "without");
  for (int u = 0; u < c_.flat_groups(); ++u) {
    if (streams(u)) continue;
    move_biases(gradients, weights, rules.numbers, tokens, all_of(u));
    move_average(gradients, weights, rules, all_of(u));
  }
  if (c_.offloaded != nullptr) update_by_tiles(gradients, weights, rules, tokens);
  if (!whole()) weights.shards_changed(Weights::Changed::updated);
}

void OptimizerStates::apply_elements(GradientReduction& gradients, Weights& weights, const UpdateRules& rules) {
  for (int u = 0; u < c_.flat_groups(); ++u)
    if (!streams(u)) apply_elements(gradients, weights, rules, all_of(u));
}

void OptimizerStates::apply_elements(GradientReduction& gradients, Weights& weights, const UpdateRules& rules,
                                     const Tile& tile) {
  for (const auto& stretch : base::at(ranges_, tile.flat_group).optimizer) {
    const auto& [all, decayed, is_of_matrices, rate_scale, weight_decay] = stretch;
    const auto part = overlap(all, tile.range);
    if (part.first >= part.end) continue;
    auto range = updated(gradients, weights, tile.flat_group, part, tile);
    if (is_of_matrices) range.states = {};  // prepare() updated the momentum
    const auto rule =
        of_parameter(is_of_matrices ? UpdateRule(*rules.matrices) : *rules.elements, rate_scale, weight_decay);
    if (part.first == all.first && part.end == all.end) {
      apply(exec_of(tile), rule, range, decayed);
      continue;
    }
    const auto skipped = part.first - all.first;
    decayed_in_tile_.clear();
    for (const auto& each : decayed)
      if (const auto in = overlap(each, {skipped, part.end - all.first}); in.first < in.end)
        decayed_in_tile_.push_back({in.first - skipped, in.end - skipped});
    apply(exec_of(tile), rule, range, decayed_in_tile_);
  }
}

// The working copy of a tile was not read. So it is made of the master, which a step that is not finite leaves as it
// is.
void OptimizerStates::update_by_tiles(GradientReduction& gradients, Weights& weights, const UpdateRules& rules,
                                      std::int64_t tokens) {
  const auto here = with_numbers(rules, c_.offloaded->numbers_for_update(rules.numbers));
  const auto on_device = [&](int u, plan::Held held, std::size_t state, kernels::Range range) {
    return part_of(in_memory(gradients, weights, u, held, state), range);
  };
  const auto update = [&](const Tile& tile) {
    apply_elements(gradients, weights, here, tile);
    move_biases(gradients, weights, here.numbers, tokens, tile);
    move_average(gradients, weights, here, tile);
    if (const auto working = tile.of(plan::Held::parameter); working && masters_.beside_working())
      kernels::cast(exec_of(tile), updated(gradients, weights, tile.flat_group, tile.range, tile).parameter, working);
  };
  c_.offloaded->stream(update, on_device);
}

void OptimizerStates::move_biases(GradientReduction& gradients, Weights& weights, const kernels::StepNumbers* numbers,
                                  std::int64_t tokens, const Tile& tile) {
  for (const auto& [all, parameter] : base::at(ranges_, tile.flat_group).even_load) {
    const auto part = overlap(all, tile.range);
    if (part.first >= part.end) continue;
    TRAINYARD_ASSERT(tokens > 0, "an update of {} that does not say the tokens of the step", parameter->name);
    const auto& balance = parameter->update;
    const auto mean = static_cast<double>(balance.choices * tokens) / static_cast<double>(parameter->count());
    const auto biases = updated(gradients, weights, tile.flat_group, part, tile);
    const auto even = [&](const kernels::EvenedBiases& of) {
      kernels::even_load_update(exec_of(tile), of, biases.gradient, mean, static_cast<float>(balance.rate), numbers);
    };
    if (biases.remainder) even({biases.working, biases.remainder});
    else even(biases.parameter);
    if (biases.parameter && biases.working) kernels::cast(exec_of(tile), biases.parameter, biases.working);
  }
}

void OptimizerStates::move_average(GradientReduction& gradients, Weights& weights, const UpdateRules& rules,
                                   const Tile& tile) {
  if (!rules.average || c_.is_frozen(tile.flat_group)) return;
  const auto state = kind().rule_states();
  const auto read = tile.of(plan::Held::state, state);
  const auto average =
      read ? read : part_of(in_memory(gradients, weights, tile.flat_group, plan::Held::state, state), tile.range);
  const auto weight = updated(gradients, weights, tile.flat_group, tile.range, tile).parameter;
  kernels::update(exec_of(tile), {.rule = *rules.average, .gradient = weight, .parameter = average});
}

void OptimizerStates::apply_with_ratios(GradientReduction& gradients, Weights& weights, const kernels::Lamb& rule) {
  norms_->begin();
  for (int u = 0; u < c_.flat_groups(); ++u)
    for (const auto& counted : norms_->counted(u)) {
      const auto part = updated(gradients, weights, u, counted_range(u, counted));
      const auto& p = c_.flat_group(u).parameters[counted.parameter];
      norms_->add(of_parameter(rule, p.rate_scale, p.weight_decay), u, counted, {part.parameter, part.states});
    }
  norms_->agree();
  norms_->make_ratios();
  for (int u = 0; u < c_.flat_groups(); ++u)
    for (const auto& [all, parameter] : base::at(ranges_, u).parameters) {
      const auto& p = c_.flat_group(u).parameters[parameter];
      auto with_ratio = of_parameter(rule, p.rate_scale, p.weight_decay);
      with_ratio.rate_factor = norms_->ratio(u, parameter);
      const kernels::Range elements{0, all.end - all.first};
      const auto decayed = std::span(&elements, p.decays() ? 1 : 0);
      apply(c_.compute, with_ratio, updated(gradients, weights, u, all), decayed);
    }
}

void OptimizerStates::apply_factored(GradientReduction& gradients, Weights& weights, const kernels::Adafactor& rule) {
  // f(part of the gradient with its factors, parameter, working copy) of elements of a parameter
  const auto visit = [&](int u, std::size_t parameter, kernels::Range range, auto&& f) {
    const auto begin = first(u) + range.first - c_.layout(u).offsets[parameter];
    const auto held = factored_->elements(u, parameter, begin, range.end - range.first);
    if (held.count == 0) return;
    const auto elements = updated(gradients, weights, u, {range.first, range.first + held.count});
    f(kernels::AdafactorPart{elements.gradient, held.held, held.row_factors, held.column_factors}, elements);
  };
  norms_->begin();
  for (int u = 0; u < c_.flat_groups(); ++u) {
    factored_->update(rule, u, own(whole() ? gradients.gathered(u) : gradients.shard(u), u), norms_->counted(u));
    for (const auto& counted : norms_->counted(u))
      visit(u, counted.parameter, counted_range(u, counted), [&](const auto& part, const UpdatedRange& elements) {
        kernels::add_adafactor_squares(c_.compute, rule, part, elements.parameter,
                                       norms_->squares(u, counted.parameter));
      });
  }
  norms_->agree();
  for (int u = 0; u < c_.flat_groups(); ++u)
    for (const auto& of : base::at(ranges_, u).parameters)
      visit(u, of.parameter, of.all, [&](const auto& part, const UpdatedRange& elements) {
        const auto& p = c_.flat_group(u).parameters[of.parameter];
        kernels::adafactor_update(c_.compute, {.rule = of_parameter(rule, p.rate_scale, p.weight_decay),
                                               .part = part,
                                               .parameter = elements.parameter,
                                               .working = elements.working,
                                               .squares = norms_->squares(u, of.parameter),
                                               .count = p.count(),
                                               .decays = p.decays()});
      });
}

void OptimizerStates::shards_loaded(Weights& weights) {
  for (int u = 0; u < c_.flat_groups(); ++u)
    if (!streams(u)) masters_.make_working_copies(u);
  if (masters_.beside_working() && c_.offloaded != nullptr) round_loaded_masters(weights);
  if (whole() && c_.shared()) {
    c_.communication.wait(c_.compute.record());
    for (int u = 0; u < c_.flat_groups(); ++u) {
      const auto i = base::size(u);
      auto& group = c_.group(u);
      if (group.size() == 1) continue;
      masters_.gather(u);
      for (std::size_t s = 0; s < states_[i].size() && !c_.is_frozen(u); ++s)
        group.all_gather(c_.communication, state_shard(s, u), states_[i][s]);
    }
    c_.join(c_.communication.record());
  }
  weights.shards_changed(Weights::Changed::loaded);
}

// Masters and working copies may lie in different places. The host rounds them.
void OptimizerStates::round_loaded_masters(Weights& weights) {
  using plan::Held;
  auto& elsewhere = *c_.offloaded;
  for (int u = 0; u < c_.flat_groups(); ++u) {
    if (!streams(u)) continue;
    for (std::int64_t first = 0; first < c_.layout(u).shard; first += elsewhere.tile_elements()) {
      const auto count = std::min(elsewhere.tile_elements(), c_.layout(u).shard - first);
      std::vector<float> masters(base::size(count));
      const auto master = base::View::of(masters.data(), {count});
      if (elsewhere.has(u, Held::master)) elsewhere.read(u, Held::master, 0, first, master);
      else masters_.read(u, first, master), c_.compute.synchronize();
      std::vector<std::byte> rounded(base::size(count * base::size_of(c_.shape.working)));
      const base::View working(rounded.data(), c_.shape.working, {count});
      base::from_f32(c_.shape.working, masters.data(), count, rounded.data());
      if (const auto own = weights.own_shard(u)) {
        tensor::copy(c_.compute, working, flat_range(own, first, count));
        c_.compute.synchronize();
      } else {
        elsewhere.write(u, Held::parameter, 0, first, working);
      }
    }
  }
}

}  // namespace trainyard::params
