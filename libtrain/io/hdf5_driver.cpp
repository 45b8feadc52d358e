// The library's own file driver with more checks. Files are examined before they are opened for reading. Heap
// collections are checked before the library follows them. A device that answers every call with EINTR counts as
// failed.
#include "libtrain/base/descriptor.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/io/hdf5_detail.h"
#include "libtrain/io/hdf5_heap.h"

#include <hdf5.h>

#include <cerrno>
#include <cstring>
#include <sys/stat.h>
#include <unistd.h>

namespace trainyard::io::hdf5 {

namespace {

const H5FD_class_t* theirs = nullptr;
H5FD_class_t ours;

herr_t refused(const char* function, int number) {
  push_errno(number, function);
  return -1;
}

// Also called for targets of links and virtual datasets. A file that is written is new and is not examined.
H5FD_t* open(const char* name, unsigned flags, hid_t access, haddr_t largest) {
  errno = 0;
  try {
    if ((flags & H5F_ACC_RDWR) == 0) examine(name);
  } catch (const base::Error& e) {
    if (e.code() == base::ExitCode::environment) refused("open", errno != 0 ? errno : EIO);
    return nullptr;
  }
  errno = 0;
  H5FD_t* const file = theirs->open(name, flags, access, largest);
  if (file == nullptr) push_errno(errno, "open");
  return file;
}

int descriptor_of(H5FD_t* file) {
  void* handle = nullptr;
  return theirs->get_handle(file, H5P_DEFAULT, &handle) < 0 ? -1 : *static_cast<int*>(handle);
}

// `call(done)` moves bytes and returns how many; 0 ends the loop. Returns the number of bytes moved, or -1 and sets
// errno.
template <class Call> ssize_t in_pieces(std::size_t bytes, const Call& call) {
  std::size_t done = 0;
  base::Interruptions interruptions;
  while (done < bytes) {
    const auto n = call(done);
    if (n < 0 && interruptions.again()) continue;
    if (n < 0) return -1;
    if (n == 0) break;
    done += base::size(n);
  }
  return static_cast<ssize_t>(done);
}

// The library reads a heap collection that is longer than most in two parts. The first read is only for its length.
herr_t read(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, std::size_t size, void* buffer) {
  const int fd = descriptor_of(file);
  auto* to = static_cast<char*>(buffer);
  const auto n = in_pieces(
      size, [&](std::size_t at) { return ::pread(fd, to + at, size - at, static_cast<off_t>(address + at)); });
  if (n < 0) return refused("read", errno);
  std::memset(to + n, 0, size - base::size(n));  // after the end of the file: zeros, as in the library's
                                                 // driver
  const std::span<const char> bytes(to, size);
  if (!is_collection(bytes)) return 0;
  const auto whole = collection_bytes(bytes);
  constexpr std::uint64_t shortest = 4096;
  return whole >= shortest && (whole > size || is_sound(bytes.first(whole))) ? 0 : -1;
}

herr_t write(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, std::size_t size, const void* buffer) {
  const int fd = descriptor_of(file);
  const auto* from = static_cast<const char*>(buffer);
  const auto n = in_pieces(
      size, [&](std::size_t at) { return ::pwrite(fd, from + at, size - at, static_cast<off_t>(address + at)); });
  if (n < 0) return refused("write", errno);
  return n == static_cast<ssize_t>(size) ? 0 : refused("write", ENOSPC);
}

// The library's driver counts only bytes that went through its own functions, so this asks the system.
haddr_t get_eof(const H5FD_t* file, H5FD_mem_t) {
  struct stat info {};
  const int fd = descriptor_of(const_cast<H5FD_t*>(file));
  if (::fstat(fd, &info) == 0) return static_cast<haddr_t>(info.st_size);
  refused("get_eof", errno);
  return HADDR_UNDEF;
}

herr_t truncate(H5FD_t* file, hid_t, hbool_t) {
  const auto wanted = theirs->get_eoa(file, H5FD_MEM_DEFAULT), found = get_eof(file, H5FD_MEM_DEFAULT);
  if (found == HADDR_UNDEF) return refused("truncate", errno);
  if (wanted == found) return 0;
  const int fd = descriptor_of(file);
  base::Interruptions interruptions;
  while (::ftruncate(fd, static_cast<off_t>(wanted)) != 0)
    if (!interruptions.again()) return refused("truncate", errno);
  return 0;
}

}  // namespace

std::int64_t careful_driver(const std::string& path) {
  static const auto driver = [&]() -> hid_t {
    // Opened only to get the driver's class, for which the library has no function.
    auto* file = H5FDopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT, HADDR_UNDEF);
    if (!file) fail(false, path, "open");
    theirs = file->cls;
    ours = *theirs;
    ours.name = "trainyard";
    ours.open = open;
    ours.read = read;
    ours.write = write;
    ours.get_eof = get_eof;
    ours.truncate = truncate;
    // Some file systems have no locks, and the library always locks the sources of virtual datasets.
    ours.lock = nullptr;
    ours.unlock = nullptr;
    H5FDclose(file);
    const auto id = H5FDregister(&ours);
    if (id < 0) fail(false, path, "set the driver for");
    return id;
  }();
  return driver;
}

}  // namespace trainyard::io::hdf5
