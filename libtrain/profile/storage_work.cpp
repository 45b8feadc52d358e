// Transfers of a DiskStorage, as a run makes them: several under way, through memory that is used in turns.
#include "libtrain/profile/storage_work.h"

#include "libtrain/base/index.h"
#include "libtrain/io/disk_storage.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#include <string>

namespace trainyard::profile {

namespace {

constexpr std::int64_t transfer_bytes = std::int64_t{8} << 20;
constexpr int transfers_at_once = 8;

enum class Use { write, read, update };

std::unique_ptr<io::DiskStorage> storage_in(const std::vector<std::string>& folders, std::int64_t bytes) {
  io::DiskStorageOptions o;
  o.setting = "storage";
  for (const auto& folder : folders) o.folders.push_back({folder, 1});
  o.extents = {{"a measurement", bytes}};
  return std::make_unique<io::DiskStorage>(std::move(o));
}

class StorageWork {
 public:
  StorageWork(const std::vector<std::string>& folders, std::int64_t bytes)
      : bytes_(bytes), transfers_(static_cast<int>((bytes + transfer_bytes - 1) / transfer_bytes)),
        slot_bytes_(base::storage_bytes(std::min(bytes, transfer_bytes))),
        memory_(static_cast<std::byte*>(
                    std::aligned_alloc(base::size(base::storage_alignment), base::size(memory_bytes()))),
                std::free),
        storage_(storage_in(folders, bytes)) {
    if (memory_ == nullptr) throw std::bad_alloc();
    for (std::int64_t i = 0; i < memory_bytes(); ++i)  // bytes that a drive cannot compress
      memory_.get()[i] = static_cast<std::byte>(static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15ull >> 51);
    storage_->use_memory({memory_.get(), base::size(memory_bytes())});
  }
  ~StorageWork() { storage_.reset(); }  // before its memory
  StorageWork(const StorageWork&) = delete;

  void run(Use use) {
    // An update writes a part back while later parts are read.
    const int lag = use == Use::update ? transfers_at_once / 2 : 0;
    for (int i = 0; i < transfers_ + lag; ++i) {
      if (i < transfers_) begin(i, use == Use::write);
      if (use == Use::update && i >= lag) begin(i - lag, true);
    }
    storage_->wait_all();
  }

 private:
  std::int64_t memory_bytes() const { return slot_bytes_ * std::min(transfers_, transfers_at_once); }
  void begin(int transfer, bool writes) {
    const int slot = transfer % transfers_at_once;
    auto& ticket = base::at(tickets_, slot);
    storage_->wait(ticket);
    const auto first = transfer * transfer_bytes, count = std::min(transfer_bytes, bytes_ - first);
    auto* const memory = memory_.get() + slot * slot_bytes_;
    ticket = writes ? storage_->write(0, first, count, memory) : storage_->read(0, first, count, memory);
  }

  std::int64_t bytes_;
  int transfers_;
  std::int64_t slot_bytes_;
  std::unique_ptr<std::byte, void (*)(void*)> memory_;
  std::unique_ptr<io::DiskStorage> storage_;
  std::array<base::Storage::Ticket, transfers_at_once> tickets_{};
};

Ceiling storage_ceiling(const std::vector<std::string>& folders, std::int64_t bytes, Use use) {
  const double amount = static_cast<double>(bytes) * (use == Use::update ? 2 : 1);
  const std::array names{"storage.write", "storage.read", "storage.update"};
  return {.name = names[static_cast<std::size_t>(use)],
          .shape = fmt::format("{}", fmt::join(folders, ", ")),
          .unit = "B/s",
          .threads = 1,
          .make =
              [=] {
                const auto work = std::make_shared<StorageWork>(folders, bytes);
                if (use != Use::write) work->run(Use::write);
                return Work{amount, [=] { work->run(use); }, work};
              },
          .amount = amount};
}

}  // namespace

std::vector<Ceiling> storage_ceilings(const CeilingOptions& o) {
  std::vector<std::vector<std::string>> kinds;
  for (const auto& folder : o.storage_folders) kinds.push_back({folder});
  if (kinds.size() > 1) kinds.push_back(o.storage_folders);
  std::vector<Ceiling> list;
  for (const auto& folders : kinds)
    for (const auto use : {Use::write, Use::read, Use::update})
      list.push_back(storage_ceiling(folders, o.disk_bytes, use));
  return list;
}

std::shared_ptr<void> reserved_storage(const CeilingOptions& o) {
  const auto all = std::make_shared<std::vector<std::unique_ptr<io::DiskStorage>>>();
  for (const auto& folder : o.storage_folders) all->push_back(storage_in({folder}, o.disk_bytes));
  return all;
}

}  // namespace trainyard::profile
