// OptimizerStates: AdamW's master weights and moments, and the update. Whole with ZeRO 0, this rank's shards with ZeRO
// 1 to 3.
#pragma once

#include "kernels/adamw/adamw.h"
#include "libtrain/params/context.h"
#include "libtrain/params/gradients.h"
#include "libtrain/params/weights.h"

#include <vector>

namespace trainyard::params {

// This rank updates a range of every flat group: all of it with ZeRO 0, else its shard. Whatever the ZeRO stage,
// checkpoints hold the shards of ZeRO 1 (decision 13).
class OptimizerStates {
 public:
  OptimizerStates(StoreContext& context, Weights& weights);

  // Decoupled weight decay applies only to parameters whose inventory entry says so, with `hyper.weight_decay`.
  // `tokens`: the tokens of the step, from which follows the mean load of an expert. A bias of choices (plan::Update)
  // moves an expert's load towards it.
  void update(GradientReduction& gradients, Weights& weights, const kernels::AdamW& hyper, std::int64_t tokens);

  // This rank's shards, f32, [shard] elements. With f32 working weights the master shard is the working copy itself.
  base::View master_shard(int flat_group);
  base::View m_shard(int flat_group) { return own(m_[static_cast<std::size_t>(flat_group)], flat_group); }
  base::View v_shard(int flat_group) { return own(v_[static_cast<std::size_t>(flat_group)], flat_group); }

  // Call it after the shards of master, m and v were written (initial values, a checkpoint). It makes the working
  // copies and, with ZeRO 0, gathers the whole states. Collective.
  void shards_loaded(Weights& weights);

 private:
  // Elements of the range that one AdamW call updates: between parameters with another update rule. `decayed`: where
  // weight decay applies, relative to all.first. Neighbours are joined over the gap between them, where everything is
  // zero.
  struct Stretch {
    kernels::Range all;
    std::vector<kernels::Range> decayed;
  };
  // A part of a bias that moves towards an even load (auxiliary-loss-free load balancing).
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
  std::vector<FlatGroupRanges> ranges_;  // per flat group
};

}  // namespace trainyard::params
