// ZeRO 3: every rank holds its shards. A lease gathers the flat group into a slot. The flat groups of the next leases
// are gathered ahead, in the announced order. Where that order keeps flat groups, a lease that finds its own in the
// slot gathers nothing. With zero groups a rank has a group shard of each flat group, too. Leases gather group shards,
// and after an update the first of them is preceded by the exchange that makes these anew.
#include "libtrain/params/weights.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/comm/segments.h"
#include "libtrain/plan/cost/zero_group_calls.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace trainyard::params {

namespace {

class GatheredWeights : public Weights {
 public:
  explicit GatheredWeights(StoreContext& c)
      : c_(c), plan_(c.set.table, c.shape.gathered_layers), groups_(c.shape.topology),
        changed_(base::size(c.flat_groups()), false) {
    for (int u = 0; u < c.flat_groups(); ++u) {
      const bool elsewhere = c.is_offloaded(u, plan::Held::parameter);
      shards_.push_back(elsewhere ? base::View{} : c.arenas.parameters.allocate(c.shape.working, {c.layout(u).shard}));
      if (!groups_.any()) continue;
      TRAINYARD_ASSERT(!elsewhere && c.flat_group(u).group == plan::Axes{plan::Axis::data},
                       "zero groups of {}, whose shards are elsewhere or of other ranks", c.flat_group(u).name);
      group_shards_.push_back(c.arenas.parameters.allocate(c.shape.working, {groups_.copies() * c.layout(u).shard}));
    }
    const auto before = c.arenas.gathered.used_bytes();
    for (auto elements : plan_.elements()) slots_.push_back({buffer(elements)});
    if (reads_into_slots() && !slots_.empty())
      c.offloaded->storage()->use_memory(
          {static_cast<std::byte*>(slots_.front().buffer.data), base::size(c.arenas.gathered.used_bytes() - before)});
  }

  void begin_passes(const plan::LeaseOrder& leases) override {
    for (auto& slot : slots_)  // of a step that was abandoned
      if (slot.read) c_.offloaded->wait(std::exchange(slot.read, {}));
    if (c_.offloaded != nullptr) c_.offloaded->forget_fetches();
    leases_ = leases;
    coming_.clear(), fetches_.clear();
    next_pass_ = next_fetch_ = 0;
    acquired_ = 0;
    for (auto& slot : slots_) slot.coming = slot.last_lease = -1;
    // What the host updated came up since the last lease, and `compute` has waited for it. Gathers follow that.
    if (c_.offloaded == nullptr || !c_.compute.on_gpu()) return;
    const auto now = c_.compute.record();
    for (auto& slot : slots_) slot.released = now;
  }

  // A fetch (the gather for a lease) may be issued once the previous lease that used the same slot has ended. All
  // fetches are added here, so their order among the other collectives is the same on every rank.
  void acquire(plan::Occurrence occurrence) override {
    const auto ahead = look_ahead();
    TRAINYARD_ASSERT(!coming_.empty() && coming_.front() == occurrence,
                     "lease of flat group {} occurrence {} is out of the stated order", occurrence.flat_group,
                     occurrence.index);
    while (next_fetch_ < ahead && may_be_issued(fetches_[next_fetch_])) fetch(fetches_[next_fetch_++].flat_group);
    if (c_.offloaded != nullptr && next_fetch_ < fetches_.size())
      c_.offloaded->begin_fetch(fetches_[next_fetch_].flat_group);
    if (!fetches_.empty() && fetches_.front().lease == acquired_) fetches_.pop_front(), --next_fetch_;
    coming_.pop_front(), ++acquired_;
    auto& slot = slot_of(occurrence.flat_group);
    TRAINYARD_ASSERT(slot.flat_group == occurrence.flat_group, "slot holds flat group {}, lease wants {}",
                     slot.flat_group, occurrence.flat_group);
    ++slot.open;
    c_.join(c_.transfers.done(slot.arrives));
    c_.transfers.done(std::exchange(slot.exchanged, 0));
    if (slot.read) c_.offloaded->wait(std::exchange(slot.read, {}));
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
  void shards_changed(Changed changed) override {
    begin_passes({});
    c_.communication.wait(c_.compute.record());
    for (std::size_t u = 0; u < changed_.size(); ++u)
      if (changed == Changed::loaded || !c_.is_frozen(static_cast<int>(u))) changed_[u] = groups_.any();
  }
  void complete() override {
    std::vector<Transfers::Ticket> exchanges;
    for (int u = 0; u < c_.flat_groups(); ++u)
      if (base::at(changed_, u)) c_.await_update(u), exchanges.push_back(exchange(u));
    for (const auto ticket : exchanges) c_.join(c_.transfers.done(ticket));
  }

 private:
  struct Slot {
    base::View buffer;
    int flat_group = -1;
    Transfers::Ticket arrives = 0, exchanged = 0;
    tensor::Event released = {};
    int open = 0;  // leases that are open
    // After all announced leases: the flat group in the slot, and the number of the last lease that uses it.
    int coming = -1;
    std::int64_t last_lease = -1;
    OffloadedStates::Transfer read = {};  // from elsewhere into the buffer itself
  };
  struct Fetch {
    int flat_group;
    std::int64_t lease;   // number of the lease that needs it
    std::int64_t behind;  // number of the lease that uses the slot before; -1: none
  };
  // Shards that one rank has alone are read from disk into the slot, which has room for that.
  bool reads_into_slots() const {
    return c_.offloaded != nullptr && !c_.compute.on_gpu() &&
           c_.offloaded->plan().has_any(plan::Held::parameter, plan::Place::disk);
  }
  base::View buffer(std::int64_t elements) {
    const auto bytes = elements * base::size_of(c_.shape.working);
    auto* memory = c_.arenas.gathered.allocate_bytes(reads_into_slots() ? base::storage_bytes(bytes) : bytes);
    return {memory, c_.shape.working, {elements}, c_.arenas.gathered.device()};
  }
  Slot& slot_of(int flat_group) { return base::at(slots_, plan_.slot_of(flat_group)); }

  // Announces leases up to the next gathered_layers fetches behind the current lease. Returns how many of fetches_ may
  // be issued: these, and the current lease's own.
  std::size_t look_ahead() {
    const auto wanted = [this] {
      const bool own = !fetches_.empty() && fetches_.front().lease == acquired_;
      return base::size(c_.shape.gathered_layers) + (own ? 1 : 0);
    };
    for (; (coming_.empty() || fetches_.size() < wanted()) && next_pass_ < leases_.passes.size(); ++next_pass_)
      for (const auto& occurrence : leases_.lists[leases_.passes[next_pass_]]) announce(occurrence);
    return std::min(fetches_.size(), wanted());
  }

  void announce(plan::Occurrence occurrence) {
    auto& slot = slot_of(occurrence.flat_group);
    const auto lease = acquired_ + std::ssize(coming_);
    if (!leases_.keeps || slot.coming != occurrence.flat_group)
      fetches_.push_back({occurrence.flat_group, lease, slot.last_lease});
    slot.coming = occurrence.flat_group, slot.last_lease = lease;
    coming_.push_back(occurrence);
  }

  // True of the current lease's fetch, and of a later one if no open lease uses the slot, and no lease from the current
  // one on that comes before.
  bool may_be_issued(const Fetch& fetch) {
    return fetch.lease == acquired_ || (fetch.behind < acquired_ && slot_of(fetch.flat_group).open == 0);
  }

  void fetch(int flat_group) {
    auto& slot = slot_of(flat_group);
    TRAINYARD_ASSERT(slot.open == 0, "flat group {} is gathered where flat group {} is leased", flat_group,
                     slot.flat_group);
    slot.flat_group = flat_group;
    // What was changed is there for `compute`, so a gather follows that.
    if (c_.await_update(flat_group) && c_.compute.on_gpu()) slot.released = c_.compute.record();
    auto& group = c_.gathering_group(flat_group);
    if (groups_.any()) {
      if (base::at(changed_, flat_group)) slot.exchanged = exchange(flat_group);
      slot.arrives = c_.gather(group, base::at(group_shards_, flat_group), whole(flat_group), slot.released);
    } else if (c_.is_offloaded(flat_group, plan::Held::parameter)) {
      fetch_from_elsewhere(slot);
    } else if (group.size() == 1) group.all_gather(c_.compute, own_shard(flat_group), whole(flat_group));  // a copy
    else slot.arrives = c_.gather(flat_group, own_shard(flat_group), whole(flat_group), slot.released);
  }

  // Sends this rank's shard to the ranks that have it in their group shards, and receives those of its own.
  Transfers::Ticket exchange(int u) {
    changed_[base::size(u)] = false;
    const auto segments = plan::exchange_segments(c_.layout(u), c_.shape, c_.segment_bytes);
    return c_.transfers.add(segments, [this, u, segments, updated = c_.compute.record()](std::int64_t i) {
      if (i == 0) c_.communication.wait(updated);
      auto& group = c_.group(u);
      const auto shard = c_.layout(u).shard;
      const auto [first, count] = StoreContext::segment(shard, segments, i);
      const auto mine = flat_range(base::at(shards_, u), first, count);
      std::vector<comm::Transfer> transfers;
      for (int k = 0; k < groups_.copies(); ++k) {
        const auto from = groups_.first_source(group.rank()) + k, to = groups_.receiver(group.rank(), k);
        const auto there = flat_range(base::at(group_shards_, u), k * shard + first, count);
        if (from == group.rank()) tensor::copy(c_.communication, mine, there);
        else transfers.push_back({comm::Transfer::Kind::receive, from, there});
        if (to != group.rank()) transfers.push_back({comm::Transfer::Kind::send, to, mine});
      }
      comm::exchange_as(group, c_.communication, "all_to_all", transfers);
    });
  }

  // From the disk, the gather waits for the shard where it runs, so the calls of all ranks keep their order.
  void fetch_from_elsewhere(Slot& slot) {
    const int u = slot.flat_group;
    if (c_.group(u).size() == 1) {
      slot.read = c_.offloaded->fetch_weights(u, whole(u), slot.released);
      return;
    }
    // The lease before has waited for the gather that read this buffer.
    const auto arrival = c_.offloaded->arrival(plan_.slot_of(u), c_.shape.working, c_.layout(u).shard);
    const auto arrives = c_.offloaded->fetch_weights(u, arrival, slot.released);
    if (arrives.ticket == 0) {
      slot.arrives = c_.gather(u, arrival, whole(u), arrives.copied);
      return;
    }
    slot.arrives = c_.gather(u, arrival, whole(u), slot.released,
                             [this, ticket = arrives.ticket] { c_.offloaded->storage()->wait(ticket); });
  }

  StoreContext& c_;
  plan::SlotPlan plan_;
  plan::ZeroGroups groups_;
  std::vector<base::View> shards_, group_shards_;  // the latter with zero groups
  std::vector<bool> changed_;                      // with zero groups: shards that were not exchanged yet
  std::vector<Slot> slots_;
  plan::LeaseOrder leases_;
  std::int64_t acquired_ = 0;            // leases so far: the number of the current one, counted from 0
  std::deque<plan::Occurrence> coming_;  // the announced leases, the current one first
  std::deque<Fetch> fetches_;            // of the announced leases, in order
  std::size_t next_pass_ = 0;            // index into leases_.passes: the first pass that is not announced yet
  std::size_t next_fetch_ = 0;           // index into fetches_: the first that was not issued yet
};

}  // namespace

std::unique_ptr<Weights> make_gathered_weights(StoreContext& context) {
  return std::make_unique<GatheredWeights>(context);
}

}  // namespace trainyard::params
