// Issues the requests of one folder, and looks at what came of them.
#include "libtrain/io/disk_lane.h"

#include "libtrain/base/checksum.h"
#include "libtrain/base/index.h"
#include "libtrain/base/system_error.h"
#include "libtrain/base/thread.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <iterator>
#include <system_error>
#include <utility>

namespace trainyard::io {

namespace {

constexpr int most_tries = 1000;  // of a request that the system interrupts, or does not take

bool conflict(const DiskPiece& a, const DiskPiece& b) {
  return (a.writes || b.writes) && a.first < b.first + b.bytes && b.first < a.first + a.bytes;
}

// Calls what(block number, memory, bytes) for each block of the piece.
template <class What> void each_block(const DiskPiece& piece, const What& what) {
  for (std::int64_t done = 0, block = piece.block; done < piece.bytes; done += base::storage_block_bytes, ++block)
    what(block, piece.memory + done, std::min(base::storage_block_bytes, piece.bytes - done));
}

constexpr const char* from_checkpoint = "then go on from the last checkpoint";

}  // namespace

void DiskShared::piece_ended(base::Storage::Ticket ticket) {
  const auto left = pieces_left.find(ticket);
  if (--left->second > 0) return;
  pieces_left.erase(left);
  changed.notify_all();
}

DiskLane::DiskLane(DiskShared& shared, Owner& owner, const DiskFile& file, std::unique_ptr<DiskQueue> queue, int depth)
    : shared_(shared), owner_(owner), file_(file), queue_(std::move(queue)), slots_(base::size(depth)) {
  for (int slot = depth; slot-- > 0;) free_.push_back(slot);
  ended_.reserve(slots_.size());
  requests_.reserve(slots_.size());
  results_.reserve(slots_.size());
  thread_ = base::start_thread("disk", [this] { run(); });
}

DiskLane::~DiskLane() {
  {
    const std::lock_guard lock(shared_.mutex);
    drop();
    stopped_ = true;
  }
  wake();
  thread_.join();
}

void DiskLane::add(DiskPiece piece) {
  auto& pieces = stripes_[piece.stripe];
  for (const auto& earlier : pieces) piece.waits_for += conflict(earlier, piece);
  pieces.push_back(piece);
  if (piece.waits_for == 0) ready_.push_back(&pieces.back());
}

void DiskLane::drop() {
  ready_.clear();
  for (auto stripe = stripes_.begin(); stripe != stripes_.end();) {
    std::erase_if(stripe->second, [&](const DiskPiece& piece) {
      if (!piece.under_way) shared_.piece_ended(piece.ticket);
      return !piece.under_way;
    });
    stripe = stripe->second.empty() ? stripes_.erase(stripe) : std::next(stripe);
  }
}

void DiskLane::run() {
  for (;;) {
    try {
      begin_ready();
      if (free_.size() == slots_.size()) {
        const std::lock_guard lock(shared_.mutex);
        if (stopped_) return;
      }
      round();
    } catch (const std::exception& e) {  // no memory left
      owner_.failed(base::EnvironmentError(fmt::format("transfers of {} stopped: {}", file_.folder(), e.what())));
    }
  }
}

// Takes ready pieces, as many as may be under way.
void DiskLane::begin_ready() {
  const auto before = requests_.size();
  {
    const std::lock_guard lock(shared_.mutex);
    for (; !ready_.empty() && !free_.empty(); ready_.pop_front(), free_.pop_back()) {
      const int slot = free_.back();
      base::at(slots_, slot) = ready_.front();
      ready_.front()->under_way = true;
      requests_.push_back(request_of(slot));
    }
  }
  for (auto i = before; i < requests_.size(); ++i)
    if (const auto& piece = *base::at(slots_, requests_[i].id); piece.writes)
      each_block(piece, [&](std::int64_t block, const std::byte* memory, std::int64_t bytes) {
        base::at(shared_.checksums, block) = base::crc32c(memory, base::size(bytes));
      });
}

DiskRequest DiskLane::request_of(int slot) const {
  const auto& piece = *base::at(slots_, slot);
  return {.writes = piece.writes,
          .offset = piece.offset + piece.done,
          .bytes = base::storage_bytes(piece.bytes) - piece.done,
          .memory = piece.memory + piece.done,
          .id = slot};
}

void DiskLane::round() {
  queue_->submit(requests_);
  requests_.clear();
  results_.clear();
  queue_->take_results(results_);
  ended_.clear();
  for (const auto& [slot, result] : results_)
    if (judge(*base::at(slots_, slot), result) == Outcome::again) requests_.push_back(request_of(slot));
    else ended_.push_back(slot);
  end(ended_);
}

DiskLane::Outcome DiskLane::judge(DiskPiece& piece, std::int64_t result) {
  const auto request = base::storage_bytes(piece.bytes) - piece.done;
  if (result < 0) {
    const auto number = static_cast<int>(-result);
    if (number != EINTR && number != EAGAIN) return give_up(piece, std::generic_category().message(number), number);
    if (++piece.tries == most_tries)
      return give_up(piece, fmt::format("{}, {} times", std::generic_category().message(number), most_tries), number);
    if (piece.tries > 10) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return Outcome::again;
  }
  if (result == 0) return give_up(piece, "the file ends there", 0);
  if (result < request) {  // direct requests begin at whole blocks of the device
    const auto moved = result / base::storage_alignment * base::storage_alignment;
    piece.tries = moved > 0 ? 0 : piece.tries + 1;
    piece.done += moved;
    return piece.tries < most_tries ? Outcome::again
                                    : give_up(piece, fmt::format("only {} of {} bytes at once", result, request), 0);
  }
  file_.forget(piece.offset, base::storage_bytes(piece.bytes));
  return piece.writes || is_whole(piece) ? Outcome::ended : Outcome::failed;
}

DiskLane::Outcome DiskLane::give_up(const DiskPiece& piece, const std::string& reason, int error_number) {
  const auto known = folder_hint(error_number, file_.setting());
  owner_.failed(base::EnvironmentError(
      fmt::format("cannot {} '{}' from byte {} on {} the unlinked file in {}, at its byte {}: {}",
                  piece.writes ? "write" : "read", base::at(shared_.extents, piece.extent).name,
                  piece.first + piece.done, piece.writes ? "to" : "from", file_.folder(), piece.offset + piece.done,
                  reason),
      fmt::format("{}; {}", known.empty() ? "look at the system's log" : known, from_checkpoint)));
  return Outcome::failed;
}

// Whether each block is what was written.
bool DiskLane::is_whole(const DiskPiece& piece) {
  bool whole = true;
  each_block(piece, [&](std::int64_t block, const std::byte* memory, std::int64_t bytes) {
    const auto found = base::crc32c(memory, base::size(bytes)), written = base::at(shared_.checksums, block);
    if (found == written || !std::exchange(whole, false)) return;
    const auto within = memory - piece.memory;
    owner_.failed(base::EnvironmentError(
        fmt::format("the unlinked file in {} read back other bytes than were written: '{}', block from byte {} on "
                    "(CRC32C {:08x} instead of {:08x}), at byte {} of the file",
                    file_.folder(), base::at(shared_.extents, piece.extent).name, piece.first + within, found, written,
                    piece.offset + within),
        fmt::format("check the drive of {} and the system's log, {}", file_.folder(), from_checkpoint)));
  });
  return whole;
}

// Forgets pieces, and lets those begin that waited for them.
void DiskLane::end(const std::vector<int>& slots) {
  if (slots.empty()) return;
  const std::lock_guard lock(shared_.mutex);
  for (const int slot : slots) {
    auto* const piece = std::exchange(base::at(slots_, slot), nullptr);
    free_.push_back(slot);
    (piece->writes ? totals_.written : totals_.read) += base::storage_bytes(piece->bytes);
    auto& pieces = stripes_.at(piece->stripe);
    const auto here =
        std::find_if(pieces.begin(), pieces.end(), [&](const DiskPiece& other) { return &other == piece; });
    for (auto later = std::next(here); later != pieces.end(); ++later)
      if (conflict(*piece, *later) && --later->waits_for == 0) ready_.push_back(&*later);
    const auto stripe = piece->stripe;
    shared_.piece_ended(piece->ticket);
    pieces.erase(here);
    if (pieces.empty()) stripes_.erase(stripe);
  }
}

}  // namespace trainyard::io
