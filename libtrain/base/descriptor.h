// Descriptor: an open file of the system that closes itself; and writing a text to one.
#pragma once

#include <cerrno>
#include <string_view>
#include <utility>

namespace trainyard::base {

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}  // what open(2) gave; below 0: there is none
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  bool is_open() const { return fd_ >= 0; }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }  // the caller closes it
  int close();  // 0 or the system's reason, which the destructor swallows; the file is closed either way

 private:
  int fd_;
};

// Of one loop of calls. A signal is no failure; a device that answers with EINTR for ever is one.
class Interruptions {
 public:
  bool again() { return errno == EINTR && ++count_ < most; }  // after a call that failed

 private:
  static constexpr int most = 10000;
  int count_ = 0;
};

// All of `text`, however many calls that takes. 0 or the system's reason: a disk that is nearly full takes a part, and
// says why only when asked for the rest.
int write_all(int fd, std::string_view text);

}  // namespace trainyard::base
