// Bulk reading and writing without the HDF5 library: pwrite and pread in chunks, with the CRC32C of every block
// computed on the way.
#pragma once

#include "libtrain/base/clock.h"
#include "libtrain/base/descriptor.h"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace trainyard::io {

// Payloads have a checksum for each block of this size, counted from the payload's start. The last block is what
// remains.
inline constexpr std::int64_t block_bytes = std::int64_t{1} << 20;
constexpr std::int64_t blocks_of(std::int64_t bytes) { return (bytes + block_bytes - 1) / block_bytes; }

// CRC32C of a followed by b, computed from the checksums of a and b and the length of b.
std::uint32_t crc32c_combine(std::uint32_t a, std::uint32_t b, std::int64_t bytes_of_b);

// Limits a writer to a number of bytes a second by sleeping; 0 means no limit. `lifted` is called every 0.02 seconds;
// once it returns true, there is no limit any more. Each writer needs its own Pace.
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

// An open file. Several threads may call read() at once.
class BulkFile {
 public:
  // update: an existing file; create: a new file that replaces an existing one (base::open_new).
  enum class Mode { read, update, create };
  BulkFile(std::string path, Mode mode);  // read: throws InputError; else EnvironmentError

  const std::string& path() const { return path_; }
  std::int64_t size() const;
  // Reads all bytes, or throws InputError that names file and offset and says what was found.
  void read(std::int64_t offset, void* out, std::int64_t bytes) const;
  // Asks the system to load these bytes into memory; this is only a hint.
  void will_read(std::int64_t offset, std::int64_t bytes) const;
  // Writes all bytes, or throws EnvironmentError (ENOSPC, EFBIG, EDQUOT, EIO ... with a hint).
  void write(std::int64_t offset, const void* data, std::int64_t bytes);
  // Asks the system to start writing these bytes to disk before sync(); this is only a hint.
  void begin_sync(std::int64_t offset, std::int64_t bytes);
  void sync();  // data and size are durable when this returns
  // Asks the system to drop its copy in memory. If the file system complies, the next read comes from the disk.
  void forget();
  // The same for these bytes and 4 MiB before them. So the memory of a file that is read front to back is dropped.
  void forget(std::int64_t offset, std::int64_t bytes) const;
  void close();  // throws errors that the destructor would ignore

 private:
  std::string path_;
  base::Descriptor file_;
};

// Writes one payload front to back, from `offset` of `file`, and computes the CRC32C of each of its blocks.
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
