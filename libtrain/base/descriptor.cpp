// Closing and writing with system calls.
#include "libtrain/base/descriptor.h"

#include "libtrain/base/index.h"

#include <cerrno>
#include <unistd.h>

namespace trainyard::base {

int Descriptor::close() {
  if (!is_open()) return 0;
  return ::close(release()) == 0 ? 0 : errno;
}

int write_all(int fd, std::string_view text) {
  Interruptions interruptions;
  while (!text.empty()) {
    const auto n = ::write(fd, text.data(), text.size());
    if (n < 0 && interruptions.again()) continue;
    if (n <= 0) return n < 0 ? errno : ENOSPC;
    text.remove_prefix(size(n));
  }
  return 0;
}

}  // namespace trainyard::base
