// Weights that are read when they are leased. Every flat group has its slot (plan::SlotPlan). A thread reads this
// rank's shards of the next leases into free slots. A lease waits for its read, then gathers the shards of all ranks.
// On a GPU the thread reads into host memory, and the lease copies to the slot.
#include "libtrain/params/weights.h"

#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/index.h"
#include "libtrain/params/read_ahead.h"

#include <algorithm>
#include <deque>
#include <stdexcept>

namespace trainyard::params {

namespace {

class StreamedWeights : public Weights {
 public:
  StreamedWeights(StoreContext& c, WeightSource& source, tensor::Arena* host)
      : c_(c), source_(source), plan_(c.set.table, c.shape.gathered_layers), reads_(source) {
    TRAINYARD_ASSERT(!c.compute.on_gpu() || host != nullptr, "streamed weights of a GPU without host memory");
    for (auto elements : plan_.elements()) {
      slots_.push_back({c.arenas.gathered.allocate(c.shape.working, {elements})});
      if (c.compute.on_gpu()) slots_.back().host = host->allocate(c.shape.working, {elements});
    }
  }

  // Slots keep what they hold. So a flat group that nothing has replaced since the last pass is not read again.
  void begin_passes(const plan::LeaseOrder& leases) override {
    leases_ = leases;
    order_.clear();
    next_pass_ = 0;
  }

  // Reads are this rank's own affair. Gathers are collective, so they are issued at lease points alone: whether a lease
  // gathers depends on the order of leases, and not on when reads end.
  void acquire(plan::Occurrence occurrence) override {
    look_ahead(1 + slots_.size());
    TRAINYARD_ASSERT(!order_.empty() && order_.front() == occurrence,
                     "lease of flat group {} occurrence {} is out of the stated order", occurrence.flat_group,
                     occurrence.index);
    read_ahead();
    auto& slot = slot_of(occurrence.flat_group);
    TRAINYARD_ASSERT(slot.flat_group == occurrence.flat_group,
                     "flat group {} is to be read where flat group {} is leased", occurrence.flat_group,
                     slot.flat_group);
    order_.pop_front();
    ++slot.open;
    if (slot.is_whole) return;
    const auto begun = base::steady_seconds();
    reads_.wait(slot.read);
    source_.wait_seconds += base::steady_seconds() - begun;
    if (slot.host) {
      tensor::copy(c_.compute, read_to(occurrence.flat_group), shard_in(occurrence.flat_group));
      slot.copied = c_.compute.record();
    }
    gather(occurrence.flat_group);
    slot.is_whole = true;
  }
  void give_back(plan::Occurrence occurrence) override { --slot_of(occurrence.flat_group).open; }
  base::View whole(int flat_group) override {
    return flat_range(slot_of(flat_group).buffer, 0, c_.layout(flat_group).padded);
  }
  base::View own_shard(int) override { changes_nothing(); }
  void shards_changed(Changed) override { changes_nothing(); }
  void complete() override {}

 private:
  struct Slot {
    base::View buffer;
    int flat_group = -1;
    int open = 0;  // leases that are open
    bool is_whole = false;
    ReadAhead::Ticket read = 0;
    base::View host = {};  // of a GPU: where weights are read to
    tensor::Event copied = {};
  };
  Slot& slot_of(int flat_group) { return base::at(slots_, plan_.slot_of(flat_group)); }

  // Extends order_ to the next `wanted` leases, if there are so many.
  void look_ahead(std::size_t wanted) {
    for (; order_.size() < wanted && next_pass_ < leases_.passes.size(); ++next_pass_)
      for (const auto& occurrence : leases_.lists[leases_.passes[next_pass_]]) order_.push_back(occurrence);
  }

  // Adds the reads of the next leases, up to the first whose slot is not free.
  void read_ahead() {
    for (std::size_t i = 0; i < std::min(order_.size(), 1 + slots_.size()); ++i) {
      const auto flat_group = order_[i].flat_group;
      auto& slot = slot_of(flat_group);
      if (slot.flat_group == flat_group) continue;
      if (!is_free(slot, i)) return;
      reads_.wait(slot.read);  // of a lease that did not come, because other passes were announced
      slot.copied.wait();
      slot.flat_group = flat_group, slot.is_whole = false;
      slot.read = reads_.add(flat_group, read_to(flat_group));
    }
  }

  // True if no open lease uses the slot, and none of the next `leases` leases does.
  bool is_free(const Slot& slot, std::size_t leases) {
    for (std::size_t i = 0; i < leases; ++i)
      if (&slot_of(order_[i].flat_group) == &slot) return false;
    return slot.open == 0;
  }

  base::View shard_in(int flat_group) {
    const auto shard = c_.layout(flat_group).shard;
    return flat_range(whole(flat_group), is_shared(flat_group) ? c_.group(flat_group).rank() * shard : 0, shard);
  }
  base::View read_to(int flat_group) {
    const auto& host = slot_of(flat_group).host;
    return host ? flat_range(host, 0, c_.layout(flat_group).shard) : shard_in(flat_group);
  }
  bool is_shared(int flat_group) const { return c_.layout(flat_group).shard < c_.layout(flat_group).padded; }
  void gather(int flat_group) {
    if (is_shared(flat_group))
      c_.join(c_.transfers.done(c_.gather(flat_group, shard_in(flat_group), whole(flat_group), c_.compute.record())));
  }
  [[noreturn]] static void changes_nothing() {
    throw std::logic_error("streamed weights have no shards that could change");
  }

  StoreContext& c_;
  WeightSource& source_;
  plan::SlotPlan plan_;
  std::vector<Slot> slots_;
  plan::LeaseOrder leases_;
  std::deque<plan::Occurrence> order_;  // the next leases, the current one first
  std::size_t next_pass_ = 0;           // index into leases_.passes: the first pass that is not in order_ yet
  ReadAhead reads_;                     // the last member: its thread writes to slots
};

}  // namespace

std::unique_ptr<Weights> make_streamed_weights(StoreContext& context, WeightSource& source, tensor::Arena* host) {
  return std::make_unique<StreamedWeights>(context, source, host);
}

}  // namespace trainyard::params
