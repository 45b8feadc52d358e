// Descriptor: a file descriptor of the system that closes itself; and writing a text to one.
#pragma once

#include <cerrno>
#include <string_view>
#include <utility>

namespace trainyard::base {

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}  // the result of open(2); below 0: no file
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  bool is_open() const { return fd_ >= 0; }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }  // the caller closes it
  int close();  // 0 or the system's reason, which the destructor ignores; the file is closed either way

 private:
  int fd_;
};

// Counts how often signals interrupted the calls of one loop. A signal is no failure. A device that answers with EINTR
// for ever is a failure.
class Interruptions {
 public:
  bool again() { return errno == EINTR && ++count_ < most; }  // call it after a failed call

 private:
  static constexpr int most = 10000;
  int count_ = 0;
};

// Writes all of `text`, in as many calls as that takes. Returns 0 or the system's reason. A disk that is nearly full
// takes a part, and gives its reason only at the next call.
int write_all(int fd, std::string_view text);

}  // namespace trainyard::base
