// DiskLane: the file, the queue and the thread of one folder of a DiskStorage.
#pragma once

#include "libtrain/base/error.h"
#include "libtrain/base/storage.h"
#include "libtrain/io/disk_file.h"
#include "libtrain/io/disk_queue.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace trainyard::io {

// What a transfer does in one stripe.
struct DiskPiece {
  base::Storage::Ticket ticket = 0;
  bool writes = false;
  int extent = 0;
  std::int64_t stripe = 0, first = 0, bytes = 0;  // bytes [first, first + bytes) of the extent
  std::int64_t block = 0;                         // the number of its first block among those of all extents
  std::int64_t offset = 0;                        // in the file
  std::byte* memory = nullptr;
  // Of the lane:
  std::int64_t done = 0;
  int tries = 0, waits_for = 0;  // earlier pieces of the same blocks
  bool under_way = false;
};

// What the lanes of a storage share. `mutex` is of all but `extents` and `checksums`. The checksum of a block belongs
// to the lane of its stripe, and a lane has no two pieces of a block under way of which one writes.
struct DiskShared {
  std::vector<base::StorageExtent> extents;
  std::vector<std::uint32_t> checksums;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::unordered_map<base::Storage::Ticket, std::int64_t> pieces_left;  // of transfers that are not done
  std::optional<base::EnvironmentError> failure;                        // the first one

  void piece_ended(base::Storage::Ticket ticket);  // under the mutex
};

class DiskLane {
 public:
  // `on_failure` is called without the mutex. It has to call drop() of all lanes.
  struct Owner {
    virtual ~Owner() = default;
    virtual void failed(const base::EnvironmentError& failure) = 0;
  };
  DiskLane(DiskShared& shared, Owner& owner, const DiskFile& file, std::unique_ptr<DiskQueue> queue, int depth);
  ~DiskLane();  // ends what is under way
  DiskLane(const DiskLane&) = delete;

  // Under the mutex of `shared`; wake() afterwards, without it.
  void add(DiskPiece piece);
  void drop();  // the pieces that are not under way
  void wake() { queue_->wake(); }
  void use_memory(std::span<std::byte> memory) { queue_->use_memory(memory); }
  std::string engine() const { return queue_->engine(); }
  const base::StorageTotals& totals() const { return totals_; }  // under the mutex

 private:
  enum class Outcome { ended, again, failed };

  void run();
  void round();
  void begin_ready();
  DiskRequest request_of(int slot) const;
  Outcome judge(DiskPiece& piece, std::int64_t result);
  Outcome give_up(const DiskPiece& piece, const std::string& reason, int error_number);
  bool is_whole(const DiskPiece& piece);
  void end(const std::vector<int>& slots);

  DiskShared& shared_;
  Owner& owner_;
  const DiskFile& file_;
  const std::unique_ptr<DiskQueue> queue_;
  // Under the mutex:
  std::unordered_map<std::int64_t, std::list<DiskPiece>> stripes_;  // pieces that are not done, in the order of calls
  std::deque<DiskPiece*> ready_;
  base::StorageTotals totals_;
  bool stopped_ = false;
  // Of the thread:
  std::vector<DiskPiece*> slots_;  // under way; the index is the request's id
  std::vector<int> free_, ended_;
  std::vector<DiskRequest> requests_;
  std::vector<DiskResult> results_;
  std::thread thread_;
};

}  // namespace trainyard::io
