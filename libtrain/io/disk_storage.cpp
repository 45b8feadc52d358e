// Cuts transfers at stripes, gives the pieces to the lanes of the folders, and waits for them.
#include "libtrain/io/disk_storage.h"

#include "libtrain/base/clock.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/storage_stripes.h"
#include "libtrain/io/disk_file.h"
#include "libtrain/io/disk_lane.h"
#include "libtrain/io/said_once.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace trainyard::io {

namespace {

std::vector<double> weights_of(const std::vector<DiskFolder>& folders) {
  std::vector<double> weights;
  for (const auto& folder : folders) weights.push_back(folder.weight);
  return weights;
}

constexpr std::int64_t blocks_in(std::int64_t bytes) {
  return (bytes + base::storage_block_bytes - 1) / base::storage_block_bytes;
}

std::unique_ptr<DiskQueue> make_queue(const DiskStorageOptions& options, int file) {
  std::string why;
  std::unique_ptr<DiskQueue> queue;
  if (options.engine != DiskEngine::threads) queue = make_uring_queue(file, options.depth, why);
  if (queue == nullptr && options.engine == DiskEngine::io_uring)
    throw base::EnvironmentError(fmt::format("io_uring cannot be used: {}", why), "let threads read and write");
  if (queue == nullptr && options.engine == DiskEngine::automatic)
    say_once(fmt::format("threads read and write local disks, because io_uring cannot be used: {}", why));
  if (queue == nullptr) queue = make_thread_queue(file, options.depth, std::min(options.threads, options.depth));
  return options.around_queue ? options.around_queue(std::move(queue)) : std::move(queue);
}

}  // namespace

class DiskStorage::Parts : public DiskLane::Owner {
 public:
  explicit Parts(DiskStorageOptions options);
  ~Parts() override;
  void failed(const base::EnvironmentError& failure) override;
  Ticket begin(DiskPiece whole);

  base::StorageStripes stripes;
  DiskShared shared;
  std::vector<std::int64_t> first_block;  // of each extent
  std::vector<DiskFile> files;
  // Under the mutex of `shared`:
  std::vector<bool> was_written;  // of each block
  Ticket last = 0;
  double waited = 0;
  bool ends = false;

  std::vector<std::unique_ptr<DiskLane>> lanes;  // they end before what they use

  void throw_failure() const {  // under the mutex
    if (shared.failure) throw base::EnvironmentError(*shared.failure);
  }
  void require(const DiskPiece& whole) const;
  template <class IsDone> void wait_until(const IsDone& is_done);
};

DiskStorage::Parts::Parts(DiskStorageOptions options) : stripes(options.extents, weights_of(options.folders)) {
  TRAINYARD_ASSERT(options.depth > 0 && options.depth <= 4096 && options.threads > 0, "depth {}, threads {}",
                   options.depth, options.threads);
  std::int64_t blocks = 0;
  for (const auto& extent : options.extents) {
    first_block.push_back(blocks);
    blocks += blocks_in(extent.bytes);
  }
  shared.extents = std::move(options.extents);
  shared.checksums.resize(base::size(blocks));
  was_written.resize(base::size(blocks));
  files.reserve(options.folders.size());
  for (std::size_t i = 0; i < options.folders.size(); ++i)
    files.emplace_back(options.folders[i].path, stripes.folder_bytes()[i], options.setting);
  for (const auto& file : files)
    lanes.push_back(std::make_unique<DiskLane>(shared, *this, file, make_queue(options, file.get()), options.depth));
}

// What is under way may still fail while lanes end, one after the other.
DiskStorage::Parts::~Parts() {
  const std::lock_guard lock(shared.mutex);
  ends = true;
  for (auto& lane : lanes) lane->drop();
}

void DiskStorage::Parts::failed(const base::EnvironmentError& failure) {
  const std::lock_guard lock(shared.mutex);
  if (ends) return;
  if (!shared.failure) shared.failure = failure;
  for (auto& lane : lanes) lane->drop();
  shared.changed.notify_all();
}

void DiskStorage::Parts::require(const DiskPiece& whole) const {
  const auto& extent = base::at(shared.extents, whole.extent);
  const auto end = whole.first + whole.bytes;
  TRAINYARD_ASSERT(
      whole.first >= 0 && whole.bytes >= 0 && end <= extent.bytes && whole.first % base::storage_block_bytes == 0 &&
          (end % base::storage_block_bytes == 0 || end == extent.bytes),
      "bytes {} to {} of '{}', which has {}, are no whole blocks", whole.first, end, extent.name, extent.bytes);
  TRAINYARD_ASSERT(reinterpret_cast<std::uintptr_t>(whole.memory) % base::storage_alignment == 0,
                   "memory at {} for '{}' is not aligned", static_cast<const void*>(whole.memory), extent.name);
  if (whole.writes) return;
  for (std::int64_t block = 0; block < blocks_in(whole.bytes); ++block)
    TRAINYARD_ASSERT(was_written[base::size(whole.block + block)], "the block at byte {} of '{}' was never written",
                     whole.first + block * base::storage_block_bytes, extent.name);
}

base::Storage::Ticket DiskStorage::Parts::begin(DiskPiece whole) {
  TRAINYARD_ASSERT(whole.extent >= 0 && whole.extent < std::ssize(shared.extents), "extent {} of {}", whole.extent,
                   shared.extents.size());
  whole.block = base::at(first_block, whole.extent) + whole.first / base::storage_block_bytes;
  std::vector<bool> woken(lanes.size());
  {
    const std::lock_guard lock(shared.mutex);
    throw_failure();
    require(whole);
    if (whole.bytes == 0) return 0;
    whole.ticket = ++last;
    const auto end = whole.first + whole.bytes;
    auto& left = shared.pieces_left[whole.ticket];
    for (auto first = whole.first; first < end;) {
      const auto in_extent = first / base::storage_stripe_bytes, within = first % base::storage_stripe_bytes;
      auto piece = whole;
      piece.stripe = stripes.first_stripe(whole.extent) + in_extent;
      const auto& place = stripes.place(piece.stripe);
      piece.first = first;
      piece.bytes = std::min(end - first, base::storage_stripe_bytes - within);
      piece.block = whole.block + (first - whole.first) / base::storage_block_bytes;
      piece.offset = place.offset + within;
      piece.memory = whole.memory + (first - whole.first);
      base::at(lanes, place.folder)->add(piece);
      woken[base::size(place.folder)] = true;
      ++left;
      first += piece.bytes;
    }
    if (whole.writes)
      for (std::int64_t block = 0; block < blocks_in(whole.bytes); ++block)
        was_written[base::size(whole.block + block)] = true;
  }
  for (std::size_t i = 0; i < lanes.size(); ++i)
    if (woken[i]) lanes[i]->wake();
  return whole.ticket;
}

template <class IsDone> void DiskStorage::Parts::wait_until(const IsDone& is_done) {
  std::unique_lock lock(shared.mutex);
  if (!is_done()) {
    const auto& clock = base::real_clock();
    const double start = clock.now();
    shared.changed.wait(lock, is_done);
    waited += clock.now() - start;
  }
  throw_failure();
}

DiskStorage::DiskStorage(DiskStorageOptions options) : parts_(std::make_unique<Parts>(std::move(options))) {}
DiskStorage::~DiskStorage() = default;

const std::vector<base::StorageExtent>& DiskStorage::extents() const { return parts_->shared.extents; }

void DiskStorage::use_memory(std::span<std::byte> memory) {
  {
    const std::lock_guard lock(parts_->shared.mutex);
    parts_->throw_failure();
  }
  for (auto& lane : parts_->lanes) lane->use_memory(memory);
}

base::Storage::Ticket DiskStorage::read(int extent, std::int64_t first, std::int64_t count, std::byte* to) {
  DiskPiece whole;
  whole.extent = extent, whole.first = first, whole.bytes = count, whole.memory = to;
  return parts_->begin(whole);
}

base::Storage::Ticket DiskStorage::write(int extent, std::int64_t first, std::int64_t count, const std::byte* from) {
  DiskPiece whole;
  whole.writes = true;
  whole.extent = extent, whole.first = first, whole.bytes = count, whole.memory = const_cast<std::byte*>(from);
  return parts_->begin(whole);
}

void DiskStorage::wait(Ticket ticket) {
  if (ticket == 0) return;
  auto& left = parts_->shared.pieces_left;
  parts_->wait_until([&] {
    TRAINYARD_ASSERT(ticket > 0 && ticket <= parts_->last, "ticket {} of {}", ticket, parts_->last);
    return !left.contains(ticket);
  });
}

void DiskStorage::wait_all() {
  parts_->wait_until([&left = parts_->shared.pieces_left] { return left.empty(); });
}

base::StorageTotals DiskStorage::totals() const {
  base::StorageTotals all;
  for (const auto& of_folder : folder_totals()) {
    all.read += of_folder.read;
    all.written += of_folder.written;
  }
  return all;
}

double DiskStorage::wait_seconds() const {
  const std::lock_guard lock(parts_->shared.mutex);
  return parts_->waited;
}

std::string DiskStorage::engine() const { return parts_->lanes.front()->engine(); }

std::vector<base::StorageTotals> DiskStorage::folder_totals() const {
  const std::lock_guard lock(parts_->shared.mutex);
  std::vector<base::StorageTotals> totals;
  for (const auto& lane : parts_->lanes) totals.push_back(lane->totals());
  return totals;
}

std::int64_t DiskStorage::space() const {
  std::int64_t bytes = 0;
  for (const auto& file : parts_->files) bytes += file.bytes();
  return bytes;
}
const std::vector<std::int64_t>& DiskStorage::folder_bytes() const { return parts_->stripes.folder_bytes(); }

}  // namespace trainyard::io
