// Weights: where the working copy of the parameters is: whole on every rank (ZeRO 0 to 2), or sharded and gathered for
// each lease (ZeRO 3), or streamed: read from a source for each lease.
#pragma once

#include "libtrain/params/context.h"
#include "libtrain/params/weight_source.h"
#include "libtrain/plan/schedule/accesses.h"

#include <memory>
#include <span>
#include <vector>

namespace trainyard::params {

// own_shard(flat_group) is this rank's shard, [shard] elements of the working dtype. The optimizer writes it.
class Weights {
 public:
  virtual ~Weights() = default;
  virtual void begin_passes(const plan::LeaseOrder& leases) = 0;  // the leases to come, in order
  void begin_pass(std::span<const plan::Occurrence> leases) { begin_passes({{{leases.begin(), leases.end()}}, {0}}); }
  virtual void acquire(plan::Occurrence occurrence) = 0;
  virtual void give_back(plan::Occurrence occurrence) = 0;
  virtual base::View whole(int flat_group) = 0;  // [padded], valid between acquire and give_back
  virtual base::View own_shard(int flat_group) = 0;
  // Later passes see the new shards. An update changes those of flat groups that are not frozen, a load changes all.
  enum class Changed { updated, loaded };
  virtual void shards_changed(Changed changed) = 0;
  void shards_changed() { shards_changed(Changed::loaded); }
  // Gathers now what the next pass would gather of changed shards, and waits for it. Collective.
  virtual void complete() = 0;
};

std::unique_ptr<Weights> make_whole_weights(StoreContext& context);
std::unique_ptr<Weights> make_gathered_weights(StoreContext& context);
// No rank keeps anything: the source is read ahead, along the announced leases, into the context's arena `gathered`.
// Several data-parallel ranks read a shard each and gather them, at any ZeRO stage. There is no own_shard(). On a GPU,
// weights are read into `host`, an arena of host memory as large as `gathered`. The source must outlive the result.
std::unique_ptr<Weights> make_streamed_weights(StoreContext& context, WeightSource& source,
                                               tensor::Arena* host = nullptr);

}  // namespace trainyard::params
