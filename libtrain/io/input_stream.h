// InputStream: reads a file, a pipe or standard input front to back, and unpacks gzip and zstd on the way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::io {

// Packed input is recognized by its first bytes, not by its name. Consecutive members are one text, as with gunzip and
// unzstd. InputError, naming the input, for:
// - an input that cannot be opened, or is a folder, a socket, or a device that is no terminal;
// - a packed text that is cut off, damaged, or followed by something else;
// - a file that is written while it is read.
class InputStream {
 public:
  // "-" is standard input. Opening a named pipe waits for its writer. `poll` is called after every read, and after
  // every wait that a signal interrupted. If it throws, the reading ends.
  InputStream(std::string path, std::function<void()> poll);
  // Reads bytes [begin, end) of a regular file without unpacking. InputError when the file ends before `end`.
  InputStream(std::string path, std::function<void()> poll, std::int64_t begin, std::int64_t end);
  ~InputStream();
  InputStream(const InputStream&) = delete;

  std::size_t read(char* to, std::size_t bytes);       // returns at least one byte of text; 0 at the end
  std::int64_t bytes_taken() const { return taken_; }  // bytes read from the file, before unpacking
  bool is_pipe() const { return pipe_; }               // standard input counts as a pipe

  // Throws where the constructor would throw, but reads nothing and does not wait. Returns the size of a regular file,
  // -1 for a pipe.
  static std::int64_t check(const std::string& path);
  static bool is_packed(const std::string& path);  // whether a regular file is gzip or zstd

 private:
  friend class Unpacker;
  std::size_t read_raw(char* to, std::size_t bytes);
  bool refill();  // loads bytes [begin_, end_) of buffer_; false at the end
  void recognise();
  void refuse_if_changed() const;

  std::string path_;
  std::function<void()> poll_;
  int fd_ = -1;
  bool pipe_ = false, recognised_ = false;
  struct Version {
    std::int64_t bytes = 0, seconds = 0, nanoseconds = 0;
    bool operator==(const Version&) const = default;
  };
  Version version_of(int fd) const;

  Version opened_;                      // version of a whole file when it was opened
  std::int64_t taken_ = 0, left_ = -1;  // left_: bytes left of a part of a file; -1: to its end
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;
  std::unique_ptr<class Unpacker> unpacker_;  // null: not packed
};

}  // namespace trainyard::io
