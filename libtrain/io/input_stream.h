// InputStream: a file, a pipe or standard input read front to back, unpacked on the way when it is gzip or zstd.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::io {

// What is packed is known by its first bytes, not by its name; members that follow one another are one text, as with
// gunzip and unzstd. InputError, naming the input: what cannot be opened, is a folder, a socket or a device that is no
// terminal; a packed text that is cut off, damaged, or followed by something else; a
// file that is written while it is read.
class InputStream {
 public:
  // "-" is standard input. Opening a named pipe waits for its writer. `poll` is called after every read, and after
  // every wait that a signal interrupted; what it throws ends the reading.
  InputStream(std::string path, std::function<void()> poll);
  // Bytes [begin, end) of a regular file, as they are. InputError when the file ends before them.
  InputStream(std::string path, std::function<void()> poll, std::int64_t begin, std::int64_t end);
  ~InputStream();
  InputStream(const InputStream&) = delete;

  std::size_t read(char* to, std::size_t bytes);       // some bytes of text, at least one; 0 at the end
  std::int64_t bytes_taken() const { return taken_; }  // of the file, packed
  bool is_pipe() const { return pipe_; }               // standard input counts as one

  // Would the constructor open it? Reads nothing and does not wait. The size of a regular file, -1 for a pipe.
  static std::int64_t check(const std::string& path);
  static bool is_packed(const std::string& path);  // of a regular file: gzip or zstd

 private:
  friend class Unpacker;
  std::size_t read_raw(char* to, std::size_t bytes);
  bool refill();  // buffer_ holds bytes [begin_, end_); false at the end
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

  Version opened_;                      // of a whole file
  std::int64_t taken_ = 0, left_ = -1;  // left_: of a part of a file; -1: up to its end
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;
  std::unique_ptr<class Unpacker> unpacker_;  // null: plain
};

}  // namespace trainyard::io
