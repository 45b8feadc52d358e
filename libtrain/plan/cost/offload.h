// OffloadPlan: which states of a rank lie on disk or on a GPU's host, in which extents, what moves in a step, and the
// buffers that it moves through.
#pragma once

#include "libtrain/base/storage.h"
#include "libtrain/plan/blocks/flat_group_table.h"
#include "libtrain/plan/cost/states.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// An update streams through memory in tiles: while one is updated, the next is read and the one before written.
inline constexpr std::int64_t most_tile_elements = std::int64_t{512} << 10;
inline constexpr int tiles_in_memory = 3;

// What an extent holds of a flat group. master: the f32 master of a narrow working dtype.
enum class Held { parameter, master, state, gradient };

struct OffloadExtent {
  int flat_group = 0;
  Held held = Held::parameter;
  std::size_t state = 0;  // index in OptimizerKind::states
  base::DType dtype = base::DType::f32;
  std::int64_t elements = 0;
  std::int64_t shard = 0;     // of them, those of the shard that the rank saves: fewer with ZeRO 0
  Place place = Place::disk;  // or host
  std::int64_t bytes() const { return elements * base::size_of(dtype); }
};

// Of one rank; equal on every rank of a pipeline stage. Groups that are alike follow one another, and a share of them
// means the first ones, until their bytes reach it.
//
// The host updates what has an extent, also for a GPU (Ren et al. 2021, "ZeRO-Offload"). What the device has of such a
// group then visits the host, tile by tile.
class OffloadPlan {
 public:
  OffloadPlan() = default;  // nothing is offloaded
  OffloadPlan(const FlatGroupTable& table, const StateShape& shape);

  const std::vector<OffloadExtent>& extents() const { return extents_; }
  bool any() const { return !extents_.empty(); }
  // The index of the extent; -1: the flat group has it in memory, or has none.
  int find(int flat_group, Held held, std::size_t state = 0) const;
  bool has_any(Held held, Place place) const;
  bool has_any(Place place) const;
  // Whether the update of the flat group reads or writes any extent, so that it goes by tiles.
  bool streams(int flat_group) const;

  // Where a tile of a flat group that streams has its elements from. memory: they are updated where they are.
  enum class Source { memory, disk, host, device };
  Source source_of(int flat_group, Held held, std::size_t state = 0) const;

  // Elements of a tile, a whole number of blocks of every dtype unless no flat group has more.
  std::int64_t tile_elements() const { return tile_elements_; }
  // The columns of a tile: all that any flat group updates elsewhere than in its memory.
  struct Column {
    Held held;
    std::size_t state;
    base::DType dtype;
    bool operator==(const Column&) const = default;
  };
  const std::vector<Column>& columns() const { return columns_; }
  int column_of(Held held, std::size_t state = 0) const;  // index in columns(); -1: there is none
  // Of the buffer of a tile; 0 where every flat group has this column in host memory.
  std::int64_t column_bytes(const Column& column) const;
  // Whether sums are rounded (StateShape::gradient_sums). Then sums that leave, or that visit a host, pass through
  // narrow buffers, and a tile of them is widened before it is updated.
  bool rounds_sums() const { return rounds_sums_; }
  // Where shards of ZeRO 3 arrive before they are gathered, on a GPU's device: bytes of the buffer of each slot
  // (SlotPlan), 0 for slots whose groups are not shared by ranks.
  const std::vector<std::int64_t>& arrival_bytes() const { return arrival_bytes_; }
  // The rotating sums of gradients that leave, on a GPU's device: the slot of a flat group, and the bytes of each slot.
  const std::vector<std::int64_t>& sum_bytes() const { return sum_bytes_; }
  int sum_slot(int flat_group) const { return base::at(sum_slots_, flat_group); }
  // The same slots with the dtype of sums elsewhere: rounded sums that leave, on a GPU's device.
  const std::vector<std::int64_t>& leaving_bytes() const { return leaving_bytes_; }
  // On a GPU's device: where a tile of a sum is rounded that visits the host. In host memory: where a tile is widened.
  std::int64_t visit_bytes() const;
  std::int64_t widened_bytes() const;
  // Of a GPU whose weights are on disk: the host buffer of each slot (SlotPlan), through which shards pass. Gradients
  // on their way to disk pass through host buffers of leaving_bytes().
  const std::vector<std::int64_t>& passage_bytes() const { return passage_bytes_; }
  int weights_slot(int flat_group) const { return base::at(weights_slots_, flat_group); }

  // Of the buffers above (MemoryCategory::offload_buffers); those on a GPU's device are gathered weights and gradients.
  std::int64_t buffer_bytes() const;
  std::int64_t host_bytes() const;                 // of the extents on the host (MemoryCategory::offloaded_states)
  std::int64_t disk_bytes() const;                 // of the extents on disk, padding included
  base::StorageTotals update_bytes() const;        // of an update with the gradients that it writes and reads
  std::int64_t fetch_bytes(int flat_group) const;  // from disk: of one read of the rank's shard of the weights
  LinkBytes update_link() const;                   // of an update, with the gradients that leave before it
  std::int64_t fetch_link(int flat_group) const;   // up, of one lease of the rank's shard of the weights

 private:
  bool on_gpu() const { return device_ == base::DeviceKind::cuda; }
  void add(const OffloadExtent& extent);
  void add_column(const Column& column);
  // f(held, state, dtype, elements) of all that an update of a flat group reads or writes
  template <class F> void for_each_updated(int flat_group, const F& f) const;

  base::DeviceKind device_ = base::DeviceKind::cpu;
  base::DType working_ = base::DType::f32;
  base::DType gradient_ = base::DType::f32, sum_ = base::DType::f32;  // elsewhere, in memory
  bool rounds_sums_ = false;
  std::vector<base::DType> states_;
  std::vector<std::int64_t> updated_;  // elements that a rank updates of each flat group
  std::vector<OffloadExtent> extents_;
  std::vector<std::vector<int>> by_group_;  // for each flat group the indices of its extents
  std::vector<Column> columns_;
  std::vector<std::int64_t> arrival_bytes_, sum_bytes_, leaving_bytes_;
  std::vector<int> sum_slots_, weights_slots_;
  std::vector<std::int64_t> passage_bytes_;
  std::int64_t tile_elements_ = 0;
};

}  // namespace trainyard::plan
