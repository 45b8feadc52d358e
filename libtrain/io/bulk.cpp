// pread and pwrite in chunks, Pace, and checksums on the way.
#include "libtrain/io/bulk.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/read_file.h"
#include "libtrain/io/system_error.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace trainyard::io {

namespace {

// Appending zero bits to a message is a linear map on its CRC register over GF(2). A matrix has 32 columns.
using Matrix = std::array<std::uint32_t, 32>;

std::uint32_t times(const Matrix& m, std::uint32_t vector) {
  std::uint32_t sum = 0;
  for (std::size_t bit = 0; vector != 0; vector >>= 1, ++bit)
    if (vector & 1u) sum ^= m[bit];
  return sum;
}

Matrix squared(const Matrix& m) {
  Matrix out{};
  for (std::size_t i = 0; i < 32; ++i) out[i] = times(m, m[i]);
  return out;
}

}  // namespace

std::uint32_t crc32c_combine(std::uint32_t a, std::uint32_t b, std::int64_t bytes_of_b) {
  if (bytes_of_b <= 0) return a;
  Matrix power{};  // the map for one zero bit
  power[0] = 0x82F63B78u;
  for (std::size_t i = 1; i < 32; ++i) power[i] = 1u << (i - 1);
  for (int i = 0; i < 3; ++i) power = squared(power);  // the map for one zero byte
  for (auto n = static_cast<std::uint64_t>(bytes_of_b); n != 0; n >>= 1) {
    if (n & 1u) a = times(power, a);
    power = squared(power);
  }
  return a ^ b;
}

void Pace::spend(std::int64_t bytes) {
  if (rate_ <= 0) return;
  if (spent_ == 0) start_ = clock_.now();
  spent_ += bytes;
  const double due = start_ + static_cast<double>(spent_) / static_cast<double>(rate_);
  constexpr double moment = 0.02;
  for (double left = due - clock_.now(); left > 0 && !(lifted_ && lifted_()); left = due - clock_.now())
    clock_.sleep(std::min(left, moment));
}

BulkFile::BulkFile(std::string path, Mode mode) : path_(std::move(path)) {
  if (mode == Mode::read) {
    file_ = base::Descriptor(base::open_regular(path_));
    return;
  }
  file_ = base::Descriptor(mode == Mode::create ? base::open_new(path_, O_RDWR)
                                                : ::open(path_.c_str(), O_RDWR | O_CLOEXEC));
  if (!file_.is_open()) throw_cannot_write("open for writing", path_, errno);
}

std::int64_t BulkFile::size() const {
  struct stat info {};
  if (::fstat(file_.get(), &info) != 0) throw_cannot_read("stat", path_, errno);
  return info.st_size;
}

void BulkFile::read(std::int64_t offset, void* out, std::int64_t bytes) const {
  auto* to = static_cast<char*>(out);
  std::int64_t done = 0;
  base::Interruptions interruptions;
  while (done < bytes) {
    const auto n = ::pread(file_.get(), to + done, base::size(bytes - done), offset + done);
    if (n < 0 && interruptions.again()) continue;
    if (n < 0) throw_cannot_read("read", path_, errno);
    if (n == 0)
      throw base::InputError(fmt::format("{} ends at byte {}, expected {} bytes from {}", path_, size(), bytes, offset),
                             "the file was cut short: restore it, or use another copy");
    done += n;
  }
}

void BulkFile::write(std::int64_t offset, const void* data, std::int64_t bytes) {
  const auto* from = static_cast<const char*>(data);
  std::int64_t done = 0;
  base::Interruptions interruptions;
  while (done < bytes) {
    const auto n = ::pwrite(file_.get(), from + done, base::size(bytes - done), offset + done);
    if (n < 0 && interruptions.again()) continue;
    if (n < 0) throw_cannot_write("write", path_, errno);
    done += n;
  }
}

void BulkFile::will_read(std::int64_t offset, std::int64_t bytes) const {
  ::posix_fadvise(file_.get(), offset, bytes, POSIX_FADV_WILLNEED);
}

void BulkFile::begin_sync(std::int64_t offset, std::int64_t bytes) {
  ::sync_file_range(file_.get(), offset, bytes, SYNC_FILE_RANGE_WRITE);
}

void BulkFile::sync() {
  if (::fsync(file_.get()) != 0) throw_cannot_write("sync", path_, errno);
}

void BulkFile::forget() { ::posix_fadvise(file_.get(), 0, 0, POSIX_FADV_DONTNEED); }

// The system keeps its memory of a file in pieces of up to 2 MiB, and drops those that lie in the range as a whole.
void BulkFile::forget(std::int64_t offset, std::int64_t bytes) const {
  const auto from = std::max<std::int64_t>(0, offset - (std::int64_t{4} << 20));
  ::posix_fadvise(file_.get(), from, offset + bytes - from, POSIX_FADV_DONTNEED);
}

void BulkFile::close() {
  if (const int reason = file_.close(); reason != 0) throw_cannot_write("close", path_, reason);
}

void BlockWriter::write(const void* data, std::int64_t bytes) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const auto in_block = written_ % block_bytes;
    const auto n = std::min(bytes, block_bytes - in_block);
    current_ = base::crc32c(from, base::size(n), current_);
    file_.write(offset_ + written_, from, n);
    pace_.spend(n);
    written_ += n;
    from += n;
    bytes -= n;
    if (in_block + n == block_bytes) blocks_.push_back(std::exchange(current_, 0));
  }
}

std::vector<std::uint32_t> BlockWriter::finish() {
  if (written_ % block_bytes != 0) blocks_.push_back(std::exchange(current_, 0));
  return std::move(blocks_);
}

std::uint32_t crc32c_of(const BulkFile& file, std::int64_t offset, std::int64_t bytes) {
  std::vector<char> buffer(base::size(std::min(bytes, block_bytes)));
  std::uint32_t crc = 0;
  for (std::int64_t done = 0; done < bytes;) {
    const auto n = std::min(bytes - done, block_bytes);
    file.read(offset + done, buffer.data(), n);
    crc = base::crc32c(buffer.data(), base::size(n), crc);
    done += n;
  }
  return crc;
}

}  // namespace trainyard::io
