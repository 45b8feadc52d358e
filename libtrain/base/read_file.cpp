// Opens regular files and reads them whole.
#include "libtrain/base/read_file.h"

#include "libtrain/base/descriptor.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/system_error.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace trainyard::base {

namespace {

const char* kind_of(mode_t mode) {
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

void require_regular(const std::string& path, const struct stat& info) {
  if (S_ISDIR(info.st_mode)) throw_cannot_read("read", path, EISDIR);
  if (!S_ISREG(info.st_mode))
    throw InputError(fmt::format("cannot read {}: it is {}, not a file", path, kind_of(info.st_mode)),
                     "write its content into a file and give that");
}

[[noreturn]] void refuse_size(const std::string& path, std::int64_t largest) {
  throw InputError(fmt::format("{} is larger than {} bytes, more than is expected of it", path, largest),
                   "is it the right file?");
}

}  // namespace

// Checked before opening, since opening a device may already have an effect. Checked again afterwards, since the path
// may have changed in between.
int open_regular(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) throw_cannot_read("open", path, errno);
  require_regular(path, info);
  Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file.is_open()) throw_cannot_read("open", path, errno);
  if (::fstat(file.get(), &info) != 0) throw_cannot_read("stat", path, errno);
  require_regular(path, info);
  return file.release();
}

int open_readable(const std::string& path) {
  if (!path.starts_with("/dev/fd/") && !path.starts_with("/proc/self/fd/") && path != "/dev/stdin")
    return open_regular(path);
  const int fd = ::open(path.c_str(), O_RDONLY | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) throw_cannot_read("open", path, errno);
  return fd;
}

std::string read_file(const std::string& path, std::int64_t largest) {
  const Descriptor file(open_readable(path));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) throw_cannot_read("stat", path, errno);
  if (info.st_size > largest) refuse_size(path, largest);
  std::string text;
  text.reserve(size(info.st_size));
  char buffer[1 << 16];
  Interruptions interruptions;
  while (true) {  // to the end, not to the size: pipes and /proc have none, and a file may grow
    const auto n = ::read(file.get(), buffer, sizeof buffer);
    if (n < 0 && interruptions.again()) continue;
    if (n < 0) throw_cannot_read("read", path, errno);
    if (n == 0) break;
    text.append(buffer, size(n));
    if (static_cast<std::int64_t>(text.size()) > largest) refuse_size(path, largest);
  }
  require_no_pointer(text, path);
  return text;
}

void require_no_pointer(std::string_view beginning, const std::string& path) {
  if (beginning.starts_with(pointer_beginning))
    throw InputError(fmt::format("{} is a pointer of Git LFS, and not the file itself", path),
                     "git lfs pull, in its folder, gets the file");
}

}  // namespace trainyard::base
