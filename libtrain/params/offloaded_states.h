// OffloadedStates: the states of a rank that lie in a Storage (on disk), the buffers that they pass through, and how an
// update streams through them in the background.
#pragma once

#include "kernels/update/update.h"
#include "libtrain/base/index.h"
#include "libtrain/base/storage.h"
#include "libtrain/plan/cost/offload.h"
#include "libtrain/tensor/arena.h"
#include "libtrain/tensor/exec.h"

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace trainyard::params {

// The extents of a storage for these states, one for each of plan.extents().
std::vector<base::StorageExtent> storage_extents(const plan::OffloadPlan& plan,
                                                 const std::vector<plan::FlatGroup>& flat_groups);

// The compute thread calls all methods; read() may be called by another thread while that one waits. EnvironmentError
// where the storage fails.
//
// An update runs in the background, group by group, on a thread of its own. Whoever reads or writes what it changes
// waits first: await_update() for one flat group, finish_update() for all.
class OffloadedStates {
 public:
  using Ticket = base::Storage::Ticket;
  using Held = plan::Held;

  // Takes its buffers from the arena, which has plan.buffer_bytes(). `threads`: how many compute an update.
  OffloadedStates(plan::OffloadPlan plan, std::unique_ptr<base::Storage> storage, tensor::Arena& buffers,
                  int threads = 1);
  ~OffloadedStates();

  const plan::OffloadPlan& plan() const { return plan_; }
  base::Storage& storage() { return *storage_; }
  bool has(int flat_group, Held held, std::size_t state = 0) const { return plan_.find(flat_group, held, state) >= 0; }

  // Begins reading the rank's shard of the weights, or writing its gradient. The view has room for storage_bytes.
  Ticket fetch_weights(int flat_group, base::View to) { return whole(flat_group, Held::parameter, to, Way::read); }
  Ticket write_gradient(int flat_group, base::View from) { return whole(flat_group, Held::gradient, from, Way::write); }
  void wait(Ticket ticket);  // counts in blocked_seconds()
  // The buffer where the shard of a flat group arrives that has the slot (SlotPlan); the rotating sum of its gradient.
  base::View arrival(int slot, base::DType dtype, std::int64_t elements) const;
  base::View sum(int flat_group, base::DType dtype, std::int64_t elements) const;

  // A part of a flat group in memory: elements [range.first, range.end) of the rank's range.
  struct Tile {
    int flat_group = 0;
    kernels::Range range;
    std::vector<base::View> columns = {};  // as OffloadPlan::columns; empty views of what the group has in memory
    const plan::OffloadPlan* plan = nullptr;
    base::View of(Held held, std::size_t state = 0) const {
      const int column = plan == nullptr ? -1 : plan->column_of(held, state);
      return column < 0 ? base::View{} : base::at(columns, column);
    }
  };
  // Where updates run: work that is put there between stream() and await_update() belongs to them.
  tensor::Exec& updates() { return *updates_; }
  // Calls `update` for the tiles of all flat groups that have any extent, in the order of the groups, which is about
  // the order of their first leases. `update` puts work on updates(); it runs once the tile was read. Then what it
  // changed is written: everything but the gradient. A narrow parameter is written and not read. Returns before that is
  // done. What the work reads must stay as it is until then.
  void stream(const std::function<void(const Tile&)>& update);
  // Blocks until the flat group is updated, and its writes have begun. Nothing to wait for returns at once.
  void await_update(int flat_group);
  bool is_updating(int flat_group) const { return being_updated_.contains(flat_group); }
  const tensor::Event& updated(int flat_group) const { return being_updated_.at(flat_group); }
  void finish_update();            // of all flat groups
  void abandon_update() noexcept;  // waits as well; who waited before got the error of an update that fails
  // Seconds that the compute thread was blocked in wait(), await_update() and finish_update() so far.
  double blocked_seconds() const { return blocked_; }

  // Copies elements [first, first + to.count()) of an extent to host memory; waits.
  void read(int flat_group, Held held, std::size_t state, std::int64_t first, base::View to);
  // Replaces elements of an extent from host memory. The range is one of whole tiles, or ends with the extent.
  void write(int flat_group, Held held, std::size_t state, std::int64_t first, base::ConstView from);
  void clear(int flat_group, Held held, std::size_t state);  // writes zeros
  // Runs what moves bytes outside of steps, such as saving. in_steps() leaves these bytes out; both wait for the
  // update and the storage.
  void outside_steps(const std::function<void()>& work);
  base::StorageTotals in_steps();
  std::int64_t tile_elements() const { return plan_.tile_elements(); }

 private:
  enum class Way { read, write };
  template <class Work> void blocked(const Work& work);
  // The buffers of a tile, and the transfers that still use them.
  struct Buffers {
    std::vector<std::byte*> columns;
    std::vector<Ticket> under_way;
  };
  Ticket whole(int flat_group, Held held, base::View memory, Way way);
  Ticket transfer(int extent, std::int64_t first, std::int64_t elements, std::byte* memory, Way way);
  void make_tiles();
  // The thread of updates calls these with the number of a tile.
  Buffers& buffers_of(std::size_t tile) { return buffers_[tile % buffers_.size()]; }
  void begin_read(std::size_t tile);
  void begin_write(std::size_t tile);
  void finish(Buffers& buffers);

  plan::OffloadPlan plan_;
  std::array<Buffers, plan::tiles_in_memory> buffers_;
  std::vector<std::byte*> arrivals_, sums_;
  std::vector<Tile> tiles_;                     // in the order of an update
  std::map<int, tensor::Event> being_updated_;  // by flat group
  double blocked_ = 0;
  base::StorageTotals outside_;
  std::unique_ptr<base::Storage> storage_;  // its transfers use the buffers
  std::unique_ptr<tensor::Exec> updates_;   // last: its work uses all of this
};

}  // namespace trainyard::params
