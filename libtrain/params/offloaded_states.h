// OffloadedStates: the states of a rank that lie in a Storage (on disk) or in the memory of a GPU's host, the buffers
// that they pass through, and how an update streams through them in the background.
#pragma once

#include "kernels/update/update.h"
#include "libtrain/base/index.h"
#include "libtrain/base/storage.h"
#include "libtrain/params/offload_link.h"
#include "libtrain/plan/cost/offload.h"
#include "libtrain/tensor/arena.h"
#include "libtrain/tensor/device_buffer.h"
#include "libtrain/tensor/exec.h"

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace trainyard::params {

// The extents of a storage for these states, one for each of plan.extents() that is on disk, in their order.
std::vector<base::StorageExtent> storage_extents(const plan::OffloadPlan& plan,
                                                 const std::vector<plan::FlatGroup>& flat_groups);

// Where OffloadedStates have their memory. Without a GPU only buffers is used.
struct OffloadMemory {
  tensor::Arena& buffers;             // plan.buffer_bytes()
  tensor::Arena* states = nullptr;    // on the host: plan.host_bytes()
  tensor::Arena* arrivals = nullptr;  // on the device: what plan.arrival_bytes() add up to
  tensor::Arena* sums = nullptr;      // on the device: what plan.sum_bytes() add up to, and buffers of rounded sums
};

// The compute thread calls all methods; read() may be called by another thread while that one waits. EnvironmentError
// where the storage fails.
//
// An update runs in the background, group by group, on a thread of its own. Whoever reads or writes what it changes
// waits first: await_update() for one flat group, finish_update() for all.
class OffloadedStates {
 public:
  using Ticket = base::Storage::Ticket;
  using Held = plan::Held;

  // No storage: nothing lies on disk. It may have more extents behind those of the plan. `threads`: how many compute an
  // update. `gpu`: the Exec of a GPU that computes.
  OffloadedStates(plan::OffloadPlan plan, std::unique_ptr<base::Storage> storage, OffloadMemory memory, int threads = 1,
                  tensor::Exec* gpu = nullptr);
  ~OffloadedStates();

  const plan::OffloadPlan& plan() const { return plan_; }
  base::Storage* storage() { return storage_.get(); }  // null: nothing lies on disk
  OffloadLink* link() { return link_.get(); }          // of a GPU
  bool has(int flat_group, Held held, std::size_t state = 0) const { return plan_.find(flat_group, held, state) >= 0; }

  // From or to the disk, or between a GPU and its host.
  struct Transfer {
    Ticket ticket = 0;
    tensor::Event copied = {};
    explicit operator bool() const { return ticket != 0 || copied.state() != nullptr; }
  };
  // On a GPU: begins what fetch_weights() of the flat group would wait for, if nothing updates the group. Call it in
  // the order of the fetches. forget_fetches(): those that were begun will not be fetched.
  void begin_fetch(int flat_group);
  void forget_fetches();
  // Begins reading the rank's shard of the weights, or writing its gradient. From disk the view has room for
  // storage_bytes. On a GPU the view is the device's, and `free` is when it may be overwritten.
  // A gradient whose extent is narrower is rounded by `compute`, and may be overwritten after that. Before the next
  // gradient of its slot, wait() for this one.
  Transfer fetch_weights(int flat_group, base::View to, const tensor::Event& free = {});
  Transfer write_gradient(tensor::Exec& compute, int flat_group, base::View sum);
  // Blocks until a transfer from or to the disk has ended. After a copy the GPU's compute Exec goes on, and not before.
  void wait(const Transfer& transfer);
  // The buffer where the shard of a flat group arrives that has the slot (SlotPlan); the rotating sum of its gradient.
  base::View arrival(int slot, base::DType dtype, std::int64_t elements) const;
  base::View sum(int flat_group, base::DType dtype, std::int64_t elements) const;

  // A part of a flat group in host memory: elements [range.first, range.end) of the rank's range.
  struct Tile {
    int flat_group = 0;
    kernels::Range range;
    std::vector<base::View> columns = {};  // as OffloadPlan::columns; empty views of what the group has in memory
    const plan::OffloadPlan* plan = nullptr;
    base::View rounded = {};  // where the sums are rounded: what is read, to be widened into the column
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
  // done. What the work reads must stay as it is until then. `on_device` says where a GPU has elements that visit the
  // host: those of a range of the rank's range.
  using OnDevice = std::function<base::View(int flat_group, Held held, std::size_t state, kernels::Range range)>;
  void stream(const std::function<void(const Tile&)>& update, const OnDevice& on_device = {});
  // The numbers of a step, in memory that updates may read; on a GPU a copy, which is made before what comes then.
  const kernels::StepNumbers* numbers_for_update(const kernels::StepNumbers* numbers);
  // Blocks until the flat group is updated, and its writes have begun. Nothing to wait for returns at once. On a GPU
  // the compute Exec goes on once the device has what was changed.
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
  plan::LinkBytes link_in_steps();  // between a GPU and its host
  std::int64_t tile_elements() const { return plan_.tile_elements(); }

 private:
  enum class Way { read, write };
  template <class Work> void blocked(const Work& work);
  // The buffers of a tile, and the transfers that still use them.
  struct Buffers {
    std::vector<std::byte*> columns;
    std::vector<Ticket> under_way;
    tensor::Event copied = {};  // of a GPU: the last copy from or to them
  };
  using Source = plan::OffloadPlan::Source;
  Ticket whole(int flat_group, Held held, base::View memory, Way way);
  base::View on_host(int extent) const;  // of an extent there
  Ticket transfer(int extent, std::int64_t first, std::int64_t elements, std::byte* memory, Way way);
  void make_tiles();
  void find_on_device(const OnDevice& on_device);
  void reserve(const OffloadMemory& memory);
  void pin();
  // The thread of updates calls these with the number of a tile.
  Buffers& buffers_of(std::size_t tile) { return buffers_[tile % buffers_.size()]; }
  void begin_read(std::size_t tile);
  void begin_write(std::size_t tile);
  void finish(Buffers& buffers);

  plan::OffloadPlan plan_;
  tensor::Exec* gpu_;
  std::array<Buffers, plan::tiles_in_memory> buffers_;
  std::vector<std::byte*> arrivals_, sums_, leaving_;
  std::byte *visit_ = nullptr, *widened_ = nullptr;  // of a tile of rounded sums
  // Of a GPU: host memory between device and disk, and what still uses it.
  struct Passage {
    std::byte* memory = nullptr;
    int flat_group = -1;  // whose weights were begun to be read into it
    Ticket ticket = 0;
    tensor::Event copied = {};
  };
  std::vector<Passage> weights_passages_, gradient_passages_;  // of each slot
  bool weights_pass() const { return !weights_passages_.empty(); }
  std::vector<std::byte*> host_;                    // for each extent its memory on the host, or null
  std::vector<int> storage_extents_;                // for each extent its index in the storage, or -1
  std::vector<Tile> tiles_;                         // in the order of an update
  std::vector<std::vector<base::View>> on_device_;  // of a GPU: for each tile and column what visits the host
  std::map<int, tensor::Event> being_updated_;      // by flat group
  std::vector<tensor::Event> changed_on_device_;    // of a GPU: by flat group
  tensor::Event gradients_down_;                    // of a GPU: the last one
  double blocked_ = 0;
  base::StorageTotals outside_;
  plan::LinkBytes outside_link_;
  tensor::PinnedBuffer numbers_;                    // of a GPU
  tensor::Pinning pinned_buffers_, pinned_states_;  // of a GPU
  std::unique_ptr<OffloadLink> link_;               // of a GPU
  std::unique_ptr<base::Storage> storage_;          // its transfers use the buffers
  std::unique_ptr<tensor::Exec> updates_;           // last: its work uses all of this
};

}  // namespace trainyard::params
