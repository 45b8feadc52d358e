// Storage: bytes of one rank outside its memory, in extents of fixed sizes. Transfers run in the background.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trainyard::base {

// `name` says in messages what the extent holds, such as "m of flat group layers.03".
struct StorageExtent {
  std::string name;
  std::int64_t bytes = 0;
};

// Bytes that transfers moved so far, padding included.
struct StorageTotals {
  std::int64_t read = 0, written = 0;
  bool operator==(const StorageTotals&) const = default;
};

// Transfers begin at a multiple of this and end at one, or at the end of the extent. So they cover whole blocks, and
// each block has a checksum.
inline constexpr std::int64_t storage_block_bytes = std::int64_t{256} << 10;
// Memory of transfers begins at a multiple of this, and has room for a multiple of it: what direct I/O needs.
inline constexpr std::int64_t storage_alignment = 4096;
// The bytes that a transfer of `bytes` moves, and that it needs in memory.
constexpr std::int64_t storage_bytes(std::int64_t bytes) {
  return (bytes + storage_alignment - 1) / storage_alignment * storage_alignment;
}

// Any thread may call any method. Two transfers that share a block of an extent happen in the order of the calls.
class Storage {
 public:
  using Ticket = std::int64_t;  // names a transfer; 0: none, which is done
  virtual ~Storage() = default;

  virtual const std::vector<StorageExtent>& extents() const = 0;
  // Memory that transfers will use, announced before the first one. It stays valid until the storage is destroyed.
  virtual void use_memory(std::span<std::byte> memory) = 0;

  // Begins a transfer of bytes [first, first + count) of an extent. `to` and `from` have storage_bytes(count) bytes and
  // belong to the storage until wait() has returned. std::logic_error for a range that is not one of whole blocks, for
  // memory that is not aligned, and for reading a block that was never written.
  virtual Ticket read(int extent, std::int64_t first, std::int64_t count, std::byte* to) = 0;
  virtual Ticket write(int extent, std::int64_t first, std::int64_t count, const std::byte* from) = 0;
  // Blocks until the transfer is done. A ticket may be waited for any number of times; 0 returns at once.
  // EnvironmentError if the transfer failed, or if a block that was read is not what was written: it names the file and
  // the extent. After a failure every later call throws the same, and memory of transfers that are under way may be
  // used until the storage is destroyed.
  virtual void wait(Ticket ticket) = 0;
  virtual void wait_all() = 0;

  virtual StorageTotals totals() const = 0;
  virtual std::int64_t space() const = 0;   // bytes that its files have, or its memory
  virtual double wait_seconds() const = 0;  // that callers were blocked in wait() so far
};

}  // namespace trainyard::base
