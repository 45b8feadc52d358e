// ZeRO 0, 1 and 2: every rank holds all weights. After an update the next pass gathers the shards, flat group by flat
// group, in the order of its leases. A lease waits for its own flat group.
#include "libtrain/params/weights.h"

#include "libtrain/base/index.h"

#include <algorithm>
#include <utility>

namespace trainyard::params {

namespace {

class WholeWeights : public Weights {
 public:
  explicit WholeWeights(StoreContext& c)
      : c_(c), issued_(base::size(c.flat_groups())), arrives_(base::size(c.flat_groups())) {
    for (int u = 0; u < c.flat_groups(); ++u)
      wholes_.push_back(c.arenas.parameters.allocate(c.shape.working, {c.layout(u).padded}));
  }
  // All gathers are added here, so agreements of the engine between two passes do not queue behind them.
  void begin_passes(const plan::LeaseOrder& leases) override {
    if (!changed_) return;
    changed_ = false;
    for (std::size_t u = 0; u < issued_.size(); ++u)
      issued_[u] = only_updated_ && c_.is_frozen(static_cast<int>(u));  // what is frozen is there already
    only_updated_ = true;
    const auto updated = c_.compute.record();  // what no thread updates in the background
    std::vector<bool> seen(leases.lists.size(), false);
    for (const auto pass : leases.passes) {
      if (seen[pass]) continue;
      seen[pass] = true;
      for (const auto& occurrence : leases.lists[pass]) gather(occurrence.flat_group, updated);
    }
    for (int u = 0; u < c_.flat_groups(); ++u) gather(u, updated);
  }
  void acquire(plan::Occurrence occurrence) override {
    auto& arrives = base::at(arrives_, occurrence.flat_group);
    c_.await_update(occurrence.flat_group);  // not as a wait for the gather, which waits for it
    c_.join(c_.transfers.done(arrives));
    arrives = 0;
  }
  void give_back(plan::Occurrence) override {}
  base::View whole(int flat_group) override { return base::at(wholes_, flat_group); }
  base::View own_shard(int flat_group) override {
    return flat_range(whole(flat_group), c_.group(flat_group).rank() * c_.layout(flat_group).shard,
                      c_.layout(flat_group).shard);
  }
  void shards_changed(Changed changed) override {
    changed_ = c_.shared();
    if (changed == Changed::loaded) only_updated_ = false;
  }
  void complete() override {
    begin_pass({});
    for (int u = 0; u < c_.flat_groups(); ++u) {
      c_.join(c_.transfers.done(std::exchange(base::at(arrives_, u), 0)));
      c_.await_update(u);
    }
  }

 private:
  void gather(int flat_group, const tensor::Event& updated) {
    const auto u = base::size(flat_group);
    if (issued_[u] || c_.group(flat_group).size() == 1) return;
    issued_[u] = true;
    auto ready = updated;
    if (c_.offloaded != nullptr && c_.offloaded->is_updating(flat_group)) {
      if (!c_.compute.on_gpu()) ready = c_.offloaded->updated(flat_group);
      else c_.await_update(flat_group), ready = c_.compute.record();
    }
    arrives_[u] = c_.gather(flat_group, own_shard(flat_group), whole(flat_group), ready);
  }

  StoreContext& c_;
  bool changed_ = false, only_updated_ = false;
  std::vector<bool> issued_;
  std::vector<base::View> wholes_;
  std::vector<Transfers::Ticket> arrives_;
};

}  // namespace

std::unique_ptr<Weights> make_whole_weights(StoreContext& context) { return std::make_unique<WholeWeights>(context); }

}  // namespace trainyard::params
