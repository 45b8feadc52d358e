// MemoryStorage: a storage in memory whose transfers happen as late as they may. A buffer that is used before wait(),
// or changed after a write begins, gives wrong numbers.
#pragma once

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/storage.h"

#include <cstring>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

namespace trainyard::test {

class MemoryStorage : public base::Storage {
 public:
  explicit MemoryStorage(std::vector<base::StorageExtent> extents) : extents_(std::move(extents)) {
    for (const auto& e : extents_) {
      contents_.emplace_back(base::size(e.bytes));
      written_.emplace_back(base::size(e.bytes / base::storage_block_bytes + 1));
    }
  }
  const std::vector<base::StorageExtent>& extents() const override { return extents_; }
  void use_memory(std::span<std::byte> memory) override { memory_.push_back(memory); }

  Ticket read(int extent, std::int64_t first, std::int64_t count, std::byte* to) override {
    std::memset(to, 0xff, base::size(base::storage_bytes(count)));  // NaN until it has arrived
    return begin({extent, first, count, to, nullptr});
  }
  Ticket write(int extent, std::int64_t first, std::int64_t count, const std::byte* from) override {
    return begin({extent, first, count, nullptr, from});
  }
  void wait(Ticket ticket) override {
    const std::lock_guard lock(mutex_);
    for (; done_ < ticket; ++done_) run(waiting_.front()), waiting_.pop_front();
  }
  void wait_all() override {
    const std::lock_guard lock(mutex_);
    for (; !waiting_.empty(); ++done_) run(waiting_.front()), waiting_.pop_front();
  }
  base::StorageTotals totals() const override { return totals_; }
  std::int64_t space() const override {
    std::int64_t bytes = 0;
    for (const auto& content : contents_) bytes += base::storage_bytes(std::ssize(content));
    return bytes;
  }
  double wait_seconds() const override { return 0; }

 private:
  struct Transfer {
    int extent;
    std::int64_t first, count;
    std::byte* to;
    const std::byte* from;
  };
  Ticket begin(const Transfer& t) {
    const std::lock_guard lock(mutex_);
    const auto& extent = base::at(extents_, t.extent);
    const auto* memory = t.to != nullptr ? t.to : t.from;
    TRAINYARD_ASSERT(t.first % base::storage_block_bytes == 0 && t.first + t.count <= extent.bytes &&
                         (t.count % base::storage_block_bytes == 0 || t.first + t.count == extent.bytes),
                     "bytes {} + {} of {}", t.first, t.count, extent.bytes);
    TRAINYARD_ASSERT(reinterpret_cast<std::uintptr_t>(memory) % base::storage_alignment == 0, "{} bytes at {}", t.count,
                     static_cast<const void*>(memory));
    bool announced = false;
    for (const auto& span : memory_)
      announced |= memory >= span.data() && memory + base::storage_bytes(t.count) <= span.data() + span.size();
    TRAINYARD_ASSERT(announced, "{} bytes of {} in memory that was not announced", t.count, extent.name);
    (t.to != nullptr ? totals_.read : totals_.written) += base::storage_bytes(t.count);
    waiting_.push_back(t);
    return done_ + std::ssize(waiting_);
  }
  void run(const Transfer& t) {
    auto& content = base::at(contents_, t.extent);
    auto& written = base::at(written_, t.extent);
    for (auto block = t.first; block < t.first + t.count; block += base::storage_block_bytes) {
      auto&& was = base::at(written, block / base::storage_block_bytes);
      TRAINYARD_ASSERT(t.from != nullptr || was, "byte {} of {} was never written", block,
                       base::at(extents_, t.extent).name);
      was = 1;
    }
    if (t.to != nullptr) std::memcpy(t.to, &base::at(content, t.first), base::size(t.count));
    else std::memcpy(&base::at(content, t.first), t.from, base::size(t.count));
  }

  std::vector<base::StorageExtent> extents_;
  std::vector<std::vector<std::byte>> contents_;
  std::vector<std::vector<char>> written_;
  std::vector<std::span<std::byte>> memory_;
  std::mutex mutex_;
  std::deque<Transfer> waiting_;
  Ticket done_ = 0;
  base::StorageTotals totals_;
};

}  // namespace trainyard::test
