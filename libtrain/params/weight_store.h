// WeightStore: a store of weights alone, at any ZeRO stage, for passes without gradients.
#pragma once

#include "libtrain/params/store.h"
#include "libtrain/params/weights.h"

#include <memory>
#include <span>

namespace trainyard::params {

// Uses the context's arenas `parameters` and, with ZeRO 3, `gathered`. With a source of weights it uses `gathered`
// alone, on a GPU also `host` (make_streamed_weights), and the source must outlive it. The compute thread calls the
// methods, in the same order on every rank.
class WeightStore : public ParameterStore {
 public:
  explicit WeightStore(StoreContext& context, WeightSource* source = nullptr, tensor::Arena* host = nullptr)
      : c_(context), weights_(source != nullptr         ? make_streamed_weights(context, *source, host)
                              : context.shape.zero == 3 ? make_gathered_weights(context)
                                                        : make_whole_weights(context)) {}
  // Begins a pass over one micro-batch. `leases`: the leases to come, in order (plan::evaluation_accesses).
  void begin_evaluation(std::span<const plan::Occurrence> leases) { weights_->begin_pass(leases); }
  // The same for several passes, in their order.
  void begin_evaluations(const plan::LeaseOrder& leases) { weights_->begin_passes(leases); }
  Weights& weights() { return *weights_; }

 protected:
  void acquire(plan::Occurrence occurrence) override { weights_->acquire(occurrence); }
  void give_back(plan::Occurrence occurrence) override { weights_->give_back(occurrence); }
  base::View weight(plan::Occurrence occurrence, int slot) override {
    return slot_view(c_.layout(occurrence.flat_group), weights_->whole(occurrence.flat_group), slot);
  }
  void open(plan::Occurrence, int) override { no_gradients(); }
  base::View gradient(plan::Occurrence, int, int) override { no_gradients(); }
  void commit(plan::Occurrence, int) override { no_gradients(); }

 private:
  [[noreturn]] static void no_gradients();
  StoreContext& c_;
  std::unique_ptr<Weights> weights_;
};

}  // namespace trainyard::params
