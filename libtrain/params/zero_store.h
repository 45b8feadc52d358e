// ZeroStore: the parameter store of data-parallel training at ZeRO 0 to 3, made of weights, gradients and optimizer
// states.
#pragma once

#include "kernels/square_sum/square_sum.h"
#include "libtrain/params/gradients.h"
#include "libtrain/params/optimizer.h"
#include "libtrain/params/stage_sums.h"
#include "libtrain/params/store.h"
#include "libtrain/params/weights.h"
#include "libtrain/plan/blocks/ownership.h"
#include "libtrain/plan/schedule/accesses.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace trainyard::params {

// The compute thread calls all methods. All ranks of the world call the collective ones, in the same order.
class ZeroStore : public ParameterStore {
 public:
  explicit ZeroStore(StoreContext& context);

  // Sets initial values: each rank computes its own shards from (seed, name, index). The states of the optimizer are
  // zero. Collective.
  void initialize(std::uint64_t seed);
  // The same for one flat group, while others are loaded: call shards_loaded() after all have values.
  void initialize(std::uint64_t seed, int flat_group);

  // `leases`: the leases to come, in order, of all micro-batches of a step, or of an evaluation.
  void begin_step(const plan::LeaseOrder& leases) {
    weights_->begin_passes(leases);
    gradients_.begin();
    squares_of_disk_ = {};
  }
  void begin_evaluation(std::span<const plan::Occurrence> leases) { weights_->begin_pass(leases); }
  // The next gradients belong to this micro-batch. If it is empty, gradients of its own tokens add nothing, and those
  // of experts count for the ranks whose tokens came here.
  void begin_backward(GradientReduction::Position position) { gradients_.begin_micro(position); }
  // In place of a micro-batch that this rank does not have: the same collectives in the same order, without
  // contributing.
  void idle(std::span<const plan::Access> accesses, GradientReduction::Position position);

  // Ends the reductions of a step. The engine then takes the norm of counted_gradients() and calls update().
  // Collective.
  void finish() {
    gradients_.finish();
    stage_sums_.add_up(gradients_);
    gradients_.round_sums();
  }
  // In memory; std::logic_error for a gradient on disk.
  base::View shard_gradient(int flat_group) { return gradients_.shard(flat_group); }
  // Calls f for this rank's shard of the gradient, in parts where it is on disk. The view is valid during the call.
  void for_gradient(int flat_group, const std::function<void(std::int64_t first, base::View part)>& f);
  // The ranges of gradient shards that this rank counts for the norm. Over the whole world every logical parameter
  // counts once (plan/blocks/ownership.h). Valid until the next call.
  // Those on disk are in squares_of_disk() instead.
  std::span<const base::ConstView> counted_gradients();
  const kernels::FixedPointSum& squares_of_disk() const { return squares_of_disk_; }  // after finish()
  // `tokens`: the tokens of the step, counting whole sequences. Needed if a bias takes part in the choice of experts
  // (plan::Update).
  void update(const UpdateRules& rules, std::int64_t tokens = 0);

  OptimizerStates& states() { return states_; }
  Weights& weights() { return *weights_; }
  // Call it once the shards of states() have been filled, in memory or on disk. Collective.
  void shards_loaded() { states_.shards_loaded(*weights_), weights_->complete(), has_values_ = true; }
  bool has_values() const { return has_values_; }    // initialize() or shards_loaded() has been called
  void complete_weights() { weights_->complete(); }  // collective: gathers now what the next pass would gather first

 protected:
  void acquire(plan::Occurrence occurrence) override { weights_->acquire(occurrence); }
  void give_back(plan::Occurrence occurrence) override { weights_->give_back(occurrence); }
  base::View weight(plan::Occurrence occurrence, int slot) override {
    return slot_view(c_.layout(occurrence.flat_group), weights_->whole(occurrence.flat_group), slot);
  }
  void open(plan::Occurrence occurrence, int source) override { gradients_.open(occurrence, source); }
  base::View gradient(plan::Occurrence occurrence, int source, int slot) override {
    return slot_view(c_.layout(occurrence.flat_group), gradients_.whole(occurrence, source), slot);
  }
  bool wanted(plan::Occurrence occurrence, int source) override { return gradients_.wanted(occurrence, source); }
  void commit(plan::Occurrence occurrence, int source) override;

 private:
  class InitialValues;
  void add_initial_values(InitialValues& values, std::vector<float>& part, int flat_group);
  void clear_states(int flat_group);
  void count_squares(int flat_group, base::ConstView sum);
  void clear_gaps(plan::Occurrence occurrence, int source);

  StoreContext& c_;
  bool has_values_ = false;
  std::unique_ptr<Weights> weights_;
  GradientReduction gradients_;
  StageSums stage_sums_;
  OptimizerStates states_;
  std::vector<std::vector<plan::ShardRange>> counted_;  // per flat group
  std::vector<base::ConstView> counted_views_;
  kernels::FixedPointSum squares_of_disk_;
};

}  // namespace trainyard::params
