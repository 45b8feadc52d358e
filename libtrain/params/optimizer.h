// OptimizerStates: the master weights, the states of the optimizer, and the update. Whole with ZeRO 0, this rank's
// shards with ZeRO 1 to 3.
#pragma once

#include "libtrain/base/index.h"
#include "libtrain/params/context.h"
#include "libtrain/params/factored_moments.h"
#include "libtrain/params/gradients.h"
#include "libtrain/params/masters.h"
#include "libtrain/params/matrix_updates.h"
#include "libtrain/params/parameter_norms.h"
#include "libtrain/params/update_rule.h"
#include "libtrain/params/weights.h"

#include <optional>
#include <span>
#include <vector>

namespace trainyard::params {

// This rank updates a range of every flat group: all of it with ZeRO 0, else its shard. Whatever the ZeRO stage,
// checkpoints hold the shards of ZeRO 1 (decision 13).
class OptimizerStates {
 public:
  OptimizerStates(StoreContext& context, Weights& weights);

  // With an optimizer that needs whole matrices, this makes the updates of hidden matrices from their gradients, in the
  // shards of gradients. Call it before GradientReduction::gather_sums. Does nothing without a rule. Collective.
  void prepare(GradientReduction& gradients, const UpdateRules& rules);

  // What has states on disk is updated in the background (params/offloaded_states.h): the next begin() or lease waits.
  // Weight decay applies only to parameters whose inventory entry says so. The rules are those of the context's
  // optimizer. `tokens`: the tokens of the step, from which follows the mean load of an expert. A bias of choices
  // (plan::Update) moves an expert's load towards it.
  void update(GradientReduction& gradients, Weights& weights, const UpdateRules& rules, std::int64_t tokens);

  // The masters of this rank's shards, in whatever form they are kept (params/masters.h).
  Masters& masters() { return masters_; }
  // Of masters that are f32: this rank's shard. With f32 working weights it is the working copy itself.
  // Empty if it is elsewhere.
  base::View master_shard(int flat_group) { return masters_.shard(flat_group); }
  // A state of elements (plan::OptimizerKind::element_states), by its place in kind().states.
  base::View state_shard(std::size_t state, int flat_group) {
    const auto state_of_group = base::at(states_, flat_group)[state];
    return state_of_group ? own(state_of_group, flat_group) : state_of_group;
  }
  // The extents that hold them then, of [shard] elements.
  plan::Held held_of_master() const { return masters_.beside_working() ? plan::Held::master : plan::Held::parameter; }
  // A state of rows or columns of a whole parameter, by its place in kind().states; the same on every rank that holds a
  // part of the flat group.
  base::View factored_state(std::size_t state, int flat_group, std::size_t parameter) const {
    return factored_->state(state - kind().element_states(), flat_group, parameter);
  }
  const plan::OptimizerKind& kind() const { return *c_.shape.optimizer; }

  // Call it after the shards of master and states were written (initial values, a checkpoint). It makes the working
  // copies and, with ZeRO 0, gathers the whole states. Collective.
  void shards_loaded(Weights& weights);

 private:
  // Elements of the range that one call of the optimizer updates: between parameters with another update rule.
  // `decayed`: where weight decay applies, relative to all.first. Neighbours are joined over the gap between them,
  // where everything is zero.
  struct Stretch {
    kernels::Range all;
    std::vector<kernels::Range> decayed;
    bool of_matrices = false;
    double rate_scale = 1;                    // plan::Parameter, of all its parameters
    std::optional<double> weight_decay = {};  // likewise
  };
  // A part of a bias that moves towards an even load (auxiliary-loss-free load balancing).
  struct Biases {
    kernels::Range all;
    const plan::Parameter* parameter;
  };
  // A part of one parameter that the optimizer updates.
  struct Part {
    kernels::Range all;
    std::size_t parameter;
  };
  struct FlatGroupRanges {
    std::vector<Stretch> optimizer;
    std::vector<Biases> even_load;
    std::vector<Part> parameters;
  };
  // A range of a flat group for the optimizer. `states` lasts until the next call.
  using Tile = OffloadedStates::Tile;
  // What an update of a flat group reads and writes, if it is in the memory of this rank's device.
  base::View in_memory(GradientReduction& gradients, Weights& weights, int flat_group, plan::Held held,
                       std::size_t state);
  UpdatedRange updated(GradientReduction& gradients, Weights& weights, int flat_group, kernels::Range range,
                       const Tile& tile = {});
  // Of all elements, by the rules of elements and of matrices. What has an extent on disk goes by tiles.
  void apply_elements(GradientReduction& gradients, Weights& weights, const UpdateRules& rules);
  void apply_elements(GradientReduction& gradients, Weights& weights, const UpdateRules& rules, const Tile& tile);
  void update_by_tiles(GradientReduction& gradients, Weights& weights, const UpdateRules& rules, std::int64_t tokens);
  void move_biases(GradientReduction& gradients, Weights& weights, const kernels::StepNumbers* numbers,
                   std::int64_t tokens, const Tile& tile);
  // Of the weights as the update left them. Does nothing without a rule.
  void move_average(GradientReduction& gradients, Weights& weights, const UpdateRules& rules, const Tile& tile);
  // What is updated by tiles is updated in the background.
  tensor::Exec& exec_of(const Tile& tile) { return tile.plan == nullptr ? c_.compute : c_.offloaded->updates(); }
  bool streams(int flat_group) const { return c_.offloaded != nullptr && c_.offloaded->plan().streams(flat_group); }
  Tile all_of(int flat_group) const { return {flat_group, {0, count(flat_group)}}; }
  // With an optimizer that needs norms of whole parameters, after `rule` updated the states.
  void apply_with_ratios(GradientReduction& gradients, Weights& weights, const kernels::Lamb& rule);
  // With states of rows and columns.
  void apply_factored(GradientReduction& gradients, Weights& weights, const kernels::Adafactor& rule);
  // The elements of a counted part, in this rank's range of the flat group.
  kernels::Range counted_range(int flat_group, const ParameterNorms::Counted& counted) const {
    const auto at = (whole() ? c_.group(flat_group).rank() * c_.layout(flat_group).shard : 0) + counted.at;
    return {at, at + counted.count};
  }
  FlatGroupRanges ranges_of(int flat_group) const;
  void round_loaded_masters(Weights& weights);  // of groups on disk
  bool whole() const { return c_.shape.zero == 0; }
  base::View own(base::View range, int flat_group) const;
  std::int64_t first(int flat_group) const {
    return whole() ? 0 : c_.group(flat_group).rank() * c_.layout(flat_group).shard;
  }
  std::int64_t count(int flat_group) const {
    return whole() ? c_.layout(flat_group).padded : c_.layout(flat_group).shard;
  }

  base::View working_range(Weights& weights, int flat_group) const {
    return whole() ? weights.whole(flat_group) : weights.own_shard(flat_group);
  }

  StoreContext& c_;
  Masters masters_;
  std::vector<std::vector<base::View>> states_;  // per flat group, those of elements in the order of kind().states
  std::vector<FlatGroupRanges> ranges_;          // per flat group
  std::optional<MatrixUpdates> matrices_;        // with an optimizer that needs whole matrices
  std::optional<FactoredMoments> factored_;      // with states of rows and columns
  std::optional<ParameterNorms> norms_;          // if kind() needs them
  std::vector<base::View> updated_states_;
  std::vector<kernels::Range> decayed_in_tile_;
};

}  // namespace trainyard::params
