// OffloadedStates: the states of a rank that lie in a Storage (on disk), the buffers that they pass through, and how an
// update streams through them.
#pragma once

#include "kernels/update/update.h"
#include "libtrain/base/index.h"
#include "libtrain/base/storage.h"
#include "libtrain/plan/cost/offload.h"
#include "libtrain/tensor/arena.h"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace trainyard::params {

// The extents of a storage for these states, one for each of plan.extents().
std::vector<base::StorageExtent> storage_extents(const plan::OffloadPlan& plan,
                                                 const std::vector<plan::FlatGroup>& flat_groups);

// The compute thread calls all methods but wait_for. EnvironmentError where the storage fails.
class OffloadedStates {
 public:
  using Ticket = base::Storage::Ticket;
  using Held = plan::Held;

  // Takes its buffers from the arena, which has plan.buffer_bytes().
  OffloadedStates(plan::OffloadPlan plan, std::unique_ptr<base::Storage> storage, tensor::Arena& buffers);
  ~OffloadedStates();

  const plan::OffloadPlan& plan() const { return plan_; }
  base::Storage& storage() { return *storage_; }
  bool has(int flat_group, Held held, std::size_t state = 0) const { return plan_.find(flat_group, held, state) >= 0; }

  // Begins reading the rank's shard of the weights, or writing its gradient. The view has room for storage_bytes.
  Ticket fetch_weights(int flat_group, base::View to) { return whole(flat_group, Held::parameter, to, Way::read); }
  Ticket write_gradient(int flat_group, base::View from) { return whole(flat_group, Held::gradient, from, Way::write); }
  void wait(Ticket ticket) { storage_->wait(ticket); }
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
  // Calls `update` for the tiles of all flat groups that have any extent, one after the other, and writes what it
  // changed: everything but the gradient. A narrow parameter is written and not read. Every other call takes the groups
  // in the other order, so that what is still in a cache comes first.
  void stream(const std::function<void(const Tile&)>& update);

  // Copies elements [first, first + to.count()) of an extent to host memory; waits.
  void read(int flat_group, Held held, std::size_t state, std::int64_t first, base::View to);
  // Replaces elements of an extent from host memory. The range is one of whole tiles, or ends with the extent.
  void write(int flat_group, Held held, std::size_t state, std::int64_t first, base::ConstView from);
  void clear(int flat_group, Held held, std::size_t state);  // writes zeros
  // Runs what moves bytes outside of steps, such as saving. in_steps() leaves these bytes out; both wait for the
  // storage.
  void outside_steps(const std::function<void()>& work);
  base::StorageTotals in_steps();
  std::int64_t tile_elements() const { return plan_.tile_elements(); }

 private:
  enum class Way { read, write };
  // The buffers of a tile, and the transfers that still use them.
  struct Buffers {
    std::vector<std::byte*> columns;
    std::vector<Ticket> under_way;
  };
  Ticket whole(int flat_group, Held held, base::View memory, Way way);
  Ticket transfer(int extent, std::int64_t first, std::int64_t elements, std::byte* memory, Way way);
  void begin_read(Buffers& buffers, Tile& tile);
  void begin_write(Buffers& buffers, const Tile& tile);
  void finish(Buffers& buffers);

  plan::OffloadPlan plan_;
  std::array<Buffers, plan::tiles_in_memory> buffers_;
  std::vector<std::byte*> arrivals_, sums_;
  bool descends_ = false;
  base::StorageTotals outside_;
  std::unique_ptr<base::Storage> storage_;  // last: its transfers use the buffers
};

}  // namespace trainyard::params
