// OptimizerStates: AdamW's master weights and moments, whole (stage 0) or the own shards (stages 1 to 3), and the
// update.
#pragma once

#include "kernels/adamw/adamw.h"
#include "libtrain/params/context.h"
#include "libtrain/params/gradients.h"
#include "libtrain/params/weights.h"

#include <vector>

namespace trainyard::params {

// The range of a flat group that this rank updates: everything at stage 0, else its shard. Shards of ranks are the
// ZeRO-1 partition at every stage; that is what checkpoints hold (decision 13).
class OptimizerStates {
 public:
  OptimizerStates(StoreContext& context, Weights& weights);

  // Decoupled weight decay applies only to parameters whose inventory entry says so. `hyper.weight_decay` is the value
  // for those. `tokens` of all choices of the step's gates: what the biases of choices (plan::Update) are moved by.
  void update(GradientReduction& gradients, Weights& weights, const kernels::AdamW& hyper, std::int64_t tokens);

  // Own shards, f32, [shard] elements; master is the working copy itself when that is f32.
  base::View master_shard(int flat_group);
  base::View m_shard(int flat_group) { return own(m_[static_cast<std::size_t>(flat_group)], flat_group); }
  base::View v_shard(int flat_group) { return own(v_[static_cast<std::size_t>(flat_group)], flat_group); }

  // After master, m and v shards were written (initial values, a checkpoint): makes working copies and, at stage 0,
  // whole states. Collective.
  void shards_loaded(Weights& weights);

 private:
  // Elements of the range of a flat group that AdamW changes together: between parameters that change otherwise. Where
  // weight decay applies there; neighbours are joined over the gap between them, where everything is zero.
  struct Stretch {
    kernels::Range all;
    std::vector<kernels::Range> decayed;
  };
  // A part of a bias that changes towards an even load.
  struct Biases {
    kernels::Range all;
    const plan::Parameter* parameter;
  };
  struct FlatGroupRanges {
    std::vector<Stretch> adamw;
    std::vector<Biases> even_load;
  };
  FlatGroupRanges ranges_of(int flat_group) const;
  bool whole() const { return c_.shape.zero == 0; }
  bool has_master() const { return !master_.empty(); }
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
  Weights& weights_;
  std::vector<base::View> master_, m_, v_;
  std::vector<FlatGroupRanges> ranges_;  // of each flat group
};

}  // namespace trainyard::params
