// ZeRO 3: every rank holds its shards. A lease gathers the flat group into a slot. The flat groups of the next leases
// are gathered ahead, in the announced order.
#include "libtrain/params/weights.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace trainyard::params {

namespace {

class GatheredWeights : public Weights {
 public:
  explicit GatheredWeights(StoreContext& c) : c_(c), plan_(c.set.table, c.shape.gathered_layers) {
    for (int u = 0; u < c.flat_groups(); ++u)
      shards_.push_back(c.is_offloaded(u, plan::Held::parameter)
                            ? base::View{}
                            : c.arenas.parameters.allocate(c.shape.working, {c.layout(u).shard}));
    for (auto elements : plan_.elements()) slots_.push_back({buffer(elements), -1, 0, {}, 0, 0});
  }

  void begin_passes(const plan::LeaseOrder& leases) override {
    for (auto& slot : slots_)  // of a step that was abandoned
      if (slot.read != 0) c_.offloaded->wait(std::exchange(slot.read, 0));
    leases_ = leases;
    order_.clear();
    next_pass_ = next_fetch_ = 0;
  }

  // A fetch (the gather for a lease) may be issued once the previous lease that used the same slot has ended. All
  // fetches are added here, so their order among the other collectives is the same on every rank.
  void acquire(plan::Occurrence occurrence) override {
    const auto ahead = look_ahead(1 + base::size(c_.shape.gathered_layers));
    TRAINYARD_ASSERT(!order_.empty() && order_.front() == occurrence,
                     "lease of flat group {} occurrence {} is out of the stated order", occurrence.flat_group,
                     occurrence.index);
    while (next_fetch_ < ahead && (next_fetch_ == 0 || slot_is_free(next_fetch_))) fetch(order_[next_fetch_++]);
    order_.pop_front(), --next_fetch_;
    auto& slot = slot_of(occurrence.flat_group);
    TRAINYARD_ASSERT(slot.flat_group == occurrence.flat_group, "slot holds flat group {}, lease wants {}",
                     slot.flat_group, occurrence.flat_group);
    ++slot.open;
    c_.join(c_.transfers.done(slot.arrives));
    if (slot.read != 0) c_.offloaded->wait(std::exchange(slot.read, 0));
  }

  void give_back(plan::Occurrence occurrence) override {
    slot_of(occurrence.flat_group).released = c_.compute.record();
    --slot_of(occurrence.flat_group).open;
  }
  base::View whole(int flat_group) override {
    return flat_range(slot_of(flat_group).buffer, 0, c_.layout(flat_group).padded);
  }
  base::View own_shard(int flat_group) override { return base::at(shards_, flat_group); }
  // Later gathers read the new shards.
  void shards_changed() override {
    begin_passes({});
    c_.communication.wait(c_.compute.record());
  }
  void complete() override {}

 private:
  struct Slot {
    base::View buffer;
    int flat_group;
    Transfers::Ticket arrives;
    tensor::Event released;
    int open = 0;                      // leases that are open
    OffloadedStates::Ticket read = 0;  // from disk into the buffer itself
  };
  // Shards that one rank has alone are read from disk into the slot, which has room for that.
  base::View buffer(std::int64_t elements) {
    const auto bytes = elements * base::size_of(c_.shape.working);
    const bool reads = c_.offloaded != nullptr && c_.offloaded->plan().has_any(plan::Held::parameter);
    auto* memory = c_.arenas.gathered.allocate_bytes(reads ? base::storage_bytes(bytes) : bytes);
    return {memory, c_.shape.working, {elements}, c_.arenas.gathered.device()};
  }
  Slot& slot_of(int flat_group) { return base::at(slots_, plan_.slot_of(flat_group)); }

  // Extends order_ to the next `wanted` leases, the current one included. Returns how many there are.
  std::size_t look_ahead(std::size_t wanted) {
    for (; order_.size() < wanted && next_pass_ < leases_.passes.size(); ++next_pass_)
      for (const auto& occurrence : leases_.lists[leases_.passes[next_pass_]]) order_.push_back(occurrence);
    return std::min(order_.size(), wanted);
  }

  // True if no open lease uses the slot of order_[index], and no lease in order_ before it does.
  bool slot_is_free(std::size_t index) {
    const auto& slot = slot_of(order_[index].flat_group);
    for (std::size_t i = 0; i < index; ++i)
      if (&slot_of(order_[i].flat_group) == &slot) return false;
    return slot.open == 0;
  }

  void fetch(plan::Occurrence occurrence) {
    auto& slot = slot_of(occurrence.flat_group);
    TRAINYARD_ASSERT(slot.open == 0, "flat group {} is gathered where flat group {} is leased", occurrence.flat_group,
                     slot.flat_group);
    slot.flat_group = occurrence.flat_group;
    auto& group = c_.group(occurrence.flat_group);
    if (c_.is_offloaded(occurrence.flat_group, plan::Held::parameter)) fetch_from_disk(slot);
    else if (group.size() == 1)
      group.all_gather(c_.compute, own_shard(occurrence.flat_group), whole(occurrence.flat_group));  // a copy
    else
      slot.arrives = c_.gather(occurrence.flat_group, own_shard(occurrence.flat_group), whole(occurrence.flat_group),
                               slot.released);
  }

  // The gather waits for the shard where it runs, so the calls of all ranks keep their order.
  void fetch_from_disk(Slot& slot) {
    const int u = slot.flat_group;
    if (c_.group(u).size() == 1) {
      slot.read = c_.offloaded->fetch_weights(u, whole(u));
      return;
    }
    // The lease before has waited for the gather that read this buffer.
    const auto arrival = c_.offloaded->arrival(plan_.slot_of(u), c_.shape.working, c_.layout(u).shard);
    const auto ticket = c_.offloaded->fetch_weights(u, arrival);
    slot.arrives = c_.gather(u, arrival, whole(u), slot.released, [this, ticket] { c_.offloaded->wait(ticket); });
  }

  StoreContext& c_;
  plan::SlotPlan plan_;
  std::vector<base::View> shards_;
  std::vector<Slot> slots_;
  plan::LeaseOrder leases_;
  std::deque<plan::Occurrence> order_;  // the next leases, the current one first
  std::size_t next_pass_ = 0;           // index into leases_.passes: the first pass that is not in order_ yet
  std::size_t next_fetch_ = 0;          // index into order_: the first lease whose fetch was not issued yet
};

}  // namespace

std::unique_ptr<Weights> make_gathered_weights(StoreContext& context) {
  return std::make_unique<GatheredWeights>(context);
}

}  // namespace trainyard::params
