// Weights: where the working copy of the parameters lives: whole on every rank (stages 0 to 2), or cut and gathered on
// occurrence (stage 3).
#pragma once

#include "libtrain/params/context.h"
#include "libtrain/plan/accesses.h"

#include <memory>
#include <span>
#include <vector>

namespace trainyard::params {

// own_shard(flat group) is this rank's part of the flat group: [shard] elements of the working dtype; the
// optimizer writes it.
class Weights {
 public:
  virtual ~Weights() = default;
  virtual void begin_passes(const plan::LeaseOrder& leases) = 0;  // those to come, in order
  void begin_pass(std::span<const plan::Occurrence> leases) { begin_passes({{{leases.begin(), leases.end()}}, {0}}); }
  virtual void acquire(plan::Occurrence occurrence) = 0;
  virtual void give_back(plan::Occurrence occurrence) = 0;
  virtual base::View whole(int flat_group) = 0;  // [padded], valid between acquire and give_back
  virtual base::View own_shard(int flat_group) = 0;
  virtual void shards_changed() = 0;  // after an update or a load: passes to come see the new shards
  virtual void complete() = 0;        // what a pass to come would gather of changed shards is there: collective, waits
};

std::unique_ptr<Weights> make_whole_weights(StoreContext& context);
std::unique_ptr<Weights> make_gathered_weights(StoreContext& context);

}  // namespace trainyard::params
