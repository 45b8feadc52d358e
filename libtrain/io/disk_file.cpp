// Makes the file, reserves its space, and finds out whether it can be read and written directly.
#include "libtrain/io/disk_file.h"

#include "libtrain/base/error.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/storage.h"
#include "libtrain/io/said_once.h"
#include "libtrain/io/system_error.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace trainyard::io {

namespace {

// Returns a file that nobody else can open, or -1 with errno.
int open_without_name(const std::string& folder) {
  const int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return file;
  auto name = folder + "/.trainyard-XXXXXX";
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0 && ::unlink(name.c_str()) != 0) {
    const int reason = errno;
    ::close(named);
    errno = reason;
    return -1;
  }
  return named;
}

int open_or_refuse(const std::string& folder, const std::string& setting) {
  const int file = open_without_name(folder);
  if (file >= 0) return file;
  const int reason = errno;
  throw base::EnvironmentError(
      fmt::format("cannot make a file in {}: {}", folder, std::generic_category().message(reason)),
      folder_hint(reason, setting));
}

// Free bytes of the file system for this user; -1 if it does not say. Some are kept for root alone.
std::int64_t free_bytes(int file) {
  struct statvfs info {};
  if (::fstatvfs(file, &info) != 0) return -1;
  const auto blocks = ::geteuid() == 0 ? info.f_bfree : info.f_bavail;
  return static_cast<std::int64_t>(blocks) * static_cast<std::int64_t>(info.f_frsize);
}

// Whether the file takes direct requests of the storage's alignment.
bool takes_direct(int file, std::int64_t bytes) {
#ifdef STATX_DIOALIGN
  struct statx info {};
  if (::statx(file, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) == 0 && (info.stx_mask & STATX_DIOALIGN) != 0 &&
      (info.stx_dio_offset_align == 0 || base::storage_alignment % info.stx_dio_offset_align != 0 ||
       info.stx_dio_mem_align == 0 || base::storage_alignment % info.stx_dio_mem_align != 0))
    return false;
#endif
  const int flags = ::fcntl(file, F_GETFL);
  if (flags < 0 || ::fcntl(file, F_SETFL, flags | O_DIRECT) != 0) return false;
  constexpr auto block = static_cast<std::size_t>(base::storage_alignment);
  const std::unique_ptr<void, void (*)(void*)> memory(std::aligned_alloc(block, block), std::free);
  if (bytes < base::storage_alignment || memory == nullptr) return true;
  std::memset(memory.get(), 0, block);
  base::Interruptions interruptions;
  ssize_t written = 0;
  do written = ::pwrite(file, memory.get(), block, 0);
  while (written < 0 && interruptions.again());
  if (written >= 0 || errno != EINVAL) return true;  // another error is for the first transfer to report
  static_cast<void>(::fcntl(file, F_SETFL, flags));
  return false;
}

}  // namespace

std::string folder_hint(int error_number, const std::string& setting) {
  const auto others =
      "name other folders" + (setting.empty() ? std::string() : fmt::format(" with {}", base::setting_name(setting)));
  switch (error_number) {
    case ENOSPC: return "free some space, or " + others + ", or more of them";
    case EDQUOT: return "the quota is used up: free some space, or " + others;
    case EROFS: return "the file system is read-only: " + others;
    case ENOENT: return "make the folder on every machine of the run, or look from one that has it, or " + others;
    case ENOTDIR: return others;
    default: return base::hint_for(error_number);
  }
}

FolderRoom look_at_folder(const std::string& folder, const std::string& setting) {
  const base::Descriptor file(open_or_refuse(folder, setting));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) base::throw_cannot_read("look at", folder, errno);
  return {fmt::format("{}", info.st_dev), free_bytes(file.get())};
}

DiskFile::DiskFile(std::string folder, std::int64_t bytes, std::string setting)
    : folder_(std::move(folder)), setting_(std::move(setting)), file_(open_or_refuse(folder_, setting_)) {
  reserve(bytes);
  avoid_page_cache(bytes);
}

std::int64_t DiskFile::bytes() const {
  struct stat info {};
  if (::fstat(file_.get(), &info) != 0) base::throw_cannot_read("look at", folder_, errno);
  return info.st_size;
}

void DiskFile::reserve(std::int64_t bytes) {
  if (bytes == 0) return;
  const auto free = free_bytes(get());
  base::Interruptions interruptions;
  int reason = 0;
  do reason = ::fallocate(get(), 0, 0, bytes) == 0 ? 0 : errno;
  while (reason == EINTR && interruptions.again());
  // Where the file system cannot reserve, glibc's posix_fallocate would write the whole file.
  if (reason == EOPNOTSUPP || reason == ENOSYS) {
    say_once(fmt::format("the file system of {} cannot reserve space, so a transfer may find the disk full", folder_));
    reason = free >= 0 && free < bytes ? ENOSPC : ::ftruncate(get(), bytes) == 0 ? 0 : errno;
  }
  if (reason == 0) return;
  throw base::EnvironmentError(
      fmt::format("cannot reserve {} in {}: {}{}", base::size_text(bytes), folder_,
                  std::generic_category().message(reason),
                  reason == ENOSPC && free >= 0 ? fmt::format("; {} are free", base::size_text(free)) : ""),
      folder_hint(reason, setting_));
}

void DiskFile::avoid_page_cache(std::int64_t bytes) {
  is_direct_ = takes_direct(get(), bytes);
  if (!is_direct_)
    say_once(fmt::format("the file system of {} has no direct input and output, so transfers go through the page cache",
                         folder_));
}

void DiskFile::forget(std::int64_t offset, std::int64_t bytes) const {
  if (!is_direct_) static_cast<void>(::posix_fadvise(get(), offset, bytes, POSIX_FADV_DONTNEED));
}

}  // namespace trainyard::io
