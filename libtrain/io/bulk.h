// Bulk reading and writing past the HDF5 library: pwrite and pread in chunks, with a CRC32C of every block computed on
// the way.
#pragma once

#include "libtrain/base/clock.h"
#include "libtrain/base/descriptor.h"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace trainyard::io {

// Payloads are checksummed in blocks of this size, counted from the start of the payload; the last block is the rest.
inline constexpr std::int64_t block_bytes = std::int64_t{1} << 20;
constexpr std::int64_t blocks_of(std::int64_t bytes) { return (bytes + block_bytes - 1) / block_bytes; }

// CRC32C of a followed by b, from the checksums of both and the length of b.
std::uint32_t crc32c_combine(std::uint32_t a, std::uint32_t b, std::int64_t bytes_of_b);

// Holds a writer to so many bytes a second by sleeping; 0 does nothing. Once `lifted` is true (asked every few
// hundredths of a second) it holds nobody any more. One writer each.
class Pace {
 public:
  explicit Pace(std::int64_t bytes_per_second = 0, std::function<bool()> lifted = {},
                const base::Clock& clock = base::real_clock())
      : rate_(bytes_per_second), lifted_(std::move(lifted)), clock_(clock) {}
  void spend(std::int64_t bytes);

 private:
  std::int64_t rate_, spent_ = 0;
  std::function<bool()> lifted_;
  const base::Clock& clock_;
  double start_ = 0;
};

// An open file. Reads may be called from several threads at once.
class BulkFile {
 public:
  enum class Mode { read, update, create };  // update: the file exists; create: a new one in its place (base::open_new)
  BulkFile(std::string path, Mode mode);     // read: InputError; others: EnvironmentError

  const std::string& path() const { return path_; }
  std::int64_t size() const;
  // All bytes or InputError naming file, offset and what was found.
  void read(std::int64_t offset, void* out, std::int64_t bytes) const;
  // Asks the system to bring these bytes into memory; nothing is promised.
  void will_read(std::int64_t offset, std::int64_t bytes) const;
  // All bytes or EnvironmentError (ENOSPC, EFBIG, EDQUOT, EIO ... with a hint).
  void write(std::int64_t offset, const void* data, std::int64_t bytes);
  // Asks the system to begin now what sync() would begin for these bytes; nothing is promised.
  void begin_sync(std::int64_t offset, std::int64_t bytes);
  void sync();    // data and size are durable when this returns
  void forget();  // asks the system to keep no copy in memory: the next read comes from the disk, where the file system
                  // obliges
  void close();   // throws what the destructor would swallow

 private:
  std::string path_;
  base::Descriptor file_;
};

// Writes one payload front to back at `offset` of `file` and computes the CRC32C of each of its blocks.
class BlockWriter {
 public:
  BlockWriter(BulkFile& file, std::int64_t offset, Pace& pace) : file_(file), offset_(offset), pace_(pace) {}
  void write(const void* data, std::int64_t bytes);
  std::int64_t written() const { return written_; }
  std::vector<std::uint32_t> finish();  // one checksum for each block

 private:
  BulkFile& file_;
  std::int64_t offset_, written_ = 0;
  Pace& pace_;
  std::uint32_t current_ = 0;
  std::vector<std::uint32_t> blocks_;
};

// The CRC32C of bytes [offset, offset + bytes) of a file.
std::uint32_t crc32c_of(const BulkFile& file, std::int64_t offset, std::int64_t bytes);

}  // namespace trainyard::io
