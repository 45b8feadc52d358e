// One pass of the optimizer over the ranges of every parameter that this rank owns.
#include "libtrain/params/optimizer.h"

#include "kernels/cast/cast.h"
#include "kernels/even_load/even_load.h"
#include "libtrain/base/index.h"
#include "libtrain/plan/blocks/held.h"

namespace trainyard::params {

namespace {

base::View part_of(base::View flat, kernels::Range range) {
  return flat ? flat_range(flat, range.first, range.end - range.first) : flat;
}

}  // namespace

OptimizerStates::OptimizerStates(StoreContext& c, Weights& weights) : c_(c), weights_(weights) {
  if (kind().collective == plan::OptimizerKind::Collective::whole_matrices) {
    TRAINYARD_ASSERT(c.shape.gradient == base::DType::f32, "{} with gradients in {}", kind().name,
                     base::name_of(c.shape.gradient));
    matrices_.emplace(c);
  }
  for (int u = 0; u < c.flat_groups(); ++u) {
    if (plan::master_bytes(c.shape.working) > 0)
      master_.push_back(c.arenas.optimizer.allocate(base::DType::f32, {count(u)}));
    auto& states = states_.emplace_back();
    for (const auto& state : kind().states) states.push_back(c.arenas.optimizer.allocate(state.dtype, {count(u)}));
    ranges_.push_back(ranges_of(u));
  }
}

OptimizerStates::FlatGroupRanges OptimizerStates::ranges_of(int u) const {
  const auto& flat_group = c_.flat_group(u);
  const auto begin = first(u), end = begin + count(u);
  FlatGroupRanges out;
  out.optimizer.push_back({{0, end - begin}, {}});
  bool joins = false;
  for (const auto& held : plan::held_ranges(c_.layout(u), begin, end)) {
    const auto& parameter = flat_group.parameters[held.parameter];
    if (parameter.update.kind == plan::Update::Kind::even_load) {
      out.even_load.push_back({{held.at, held.at + held.count}, &parameter});
      out.optimizer.back().all.end = held.at;
      out.optimizer.push_back({{held.at + held.count, end - begin}, {}});
      joins = false;
      continue;
    }
    if (const bool of_matrices = matrices_ && plan::is_hidden_matrix(flat_group, parameter);
        of_matrices != out.optimizer.back().of_matrices) {
      out.optimizer.back().all.end = held.at;
      out.optimizer.push_back({{held.at, end - begin}, {}, of_matrices});
      joins = false;
    }
    auto& stretch = out.optimizer.back();
    const auto from = held.at - stretch.all.first;
    if (parameter.decay && joins) stretch.decayed.back().end = from + held.count;
    else if (parameter.decay) stretch.decayed.push_back({from, from + held.count});
    joins = parameter.decay;
  }
  return out;
}

base::View OptimizerStates::own(base::View range, int flat_group) const {
  return whole()
             ? flat_range(range, c_.group(flat_group).rank() * c_.layout(flat_group).shard, c_.layout(flat_group).shard)
             : range;
}

base::View OptimizerStates::master_shard(int flat_group) {
  return has_master() ? own(base::at(master_, flat_group), flat_group) : weights_.own_shard(flat_group);
}

// With ZeRO 0 a rank keeps the momentum of its own shard alone up to date, which is what it saves.
void OptimizerStates::prepare(GradientReduction& gradients, const std::optional<kernels::Muon>& of_matrices) {
  TRAINYARD_ASSERT(of_matrices.has_value() == matrices_.has_value(), "{} {} a rule of matrices", kind().name,
                   of_matrices ? "with" : "without");
  if (!matrices_) return;
  for (int u = 0; u < c_.flat_groups(); ++u)
    for (const auto& [first, end] : matrices_->ranges(u))
      kernels::muon_direction(c_.compute, {.hyper = *of_matrices,
                                           .gradient = flat_range(gradients.shard(u), first, end - first),
                                           .m = flat_range(state_shard(0, u), first, end - first)});
  matrices_->orthogonalise(gradients);
}

void OptimizerStates::update(GradientReduction& gradients, Weights& weights, const UpdateRule& rule,
                             std::int64_t tokens, const std::optional<kernels::Muon>& of_matrices) {
  std::vector<base::View> states(kind().states.size());
  for (int u = 0; u < c_.flat_groups(); ++u) {
    const auto gradient = whole() ? gradients.gathered(u) : gradients.shard(u);
    const auto working = working_range(weights, u);
    const auto i = base::size(u);
    const auto exact = has_master() ? master_[i] : working, rounded = has_master() ? working : base::View{};
    const auto& ranges = ranges_[i];
    for (const auto& [all, decayed, is_of_matrices] : ranges.optimizer) {
      if (all.first >= all.end) continue;
      for (std::size_t s = 0; s < states.size(); ++s) states[s] = part_of(states_[i][s], all);
      if (is_of_matrices) {
        kernels::muon_update(c_.compute, {.hyper = *of_matrices,
                                          .update = part_of(gradient, all),
                                          .parameter = part_of(exact, all),
                                          .working = part_of(rounded, all),
                                          .decayed = decayed});
        continue;
      }
      apply(c_.compute, rule,
            {.gradient = part_of(gradient, all),
             .parameter = part_of(exact, all),
             .states = states,
             .working = part_of(rounded, all)},
            decayed);
    }
    for (const auto& [all, parameter] : ranges.even_load) {
      TRAINYARD_ASSERT(tokens > 0, "an update of {} that does not say the tokens of the step", parameter->name);
      const auto& balance = parameter->update;
      const auto mean = static_cast<double>(balance.choices * tokens) / static_cast<double>(parameter->count());
      kernels::even_load_update(c_.compute, part_of(exact, all), part_of(gradient, all), mean,
                                static_cast<float>(balance.rate), numbers_of(rule));
      if (rounded) kernels::cast(c_.compute, part_of(exact, all), part_of(rounded, all));
    }
  }
  if (!whole()) weights.shards_changed();
}

void OptimizerStates::shards_loaded(Weights& weights) {
  for (int u = 0; u < c_.flat_groups(); ++u)
    if (has_master()) kernels::cast(c_.compute, master_shard(u), weights.own_shard(u));
  if (whole() && c_.shared()) {
    c_.communication.wait(c_.compute.record());
    for (int u = 0; u < c_.flat_groups(); ++u) {
      const auto i = base::size(u);
      auto& group = c_.group(u);
      if (group.size() == 1) continue;
      if (has_master()) group.all_gather(c_.communication, master_shard(u), master_[i]);
      for (std::size_t s = 0; s < states_[i].size(); ++s)
        group.all_gather(c_.communication, state_shard(s, u), states_[i][s]);
    }
    c_.join(c_.communication.record());
  }
  weights.shards_changed();
}

}  // namespace trainyard::params
