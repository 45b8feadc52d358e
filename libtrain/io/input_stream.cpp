// Reads with regard to signals; unpacks with zlib and zstd.
#include "libtrain/io/input_stream.h"

#include "libtrain/base/descriptor.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/read_file.h"
#include "libtrain/io/system_error.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

namespace trainyard::io {

namespace {

constexpr std::size_t buffer_bytes = 256 << 10, longest_magic = 4;
constexpr std::string_view gzip_magic = "\x1f\x8b", zstd_magic = "\x28\xb5\x2f\xfd",
                           skippable_magic = "\x2a\x4d\x18";  // skippable_magic follows a byte 0x50 to 0x5f

bool begins_zstd(std::string_view head) {
  return head.starts_with(zstd_magic) || (head.size() >= 4 && (static_cast<unsigned char>(head[0]) & 0xf0) == 0x50 &&
                                          head.substr(1).starts_with(skippable_magic));
}

// Whether more bytes could still complete a magic number.
bool is_beginning(std::string_view head) {
  if (head.size() >= longest_magic) return false;
  return gzip_magic.starts_with(head) || zstd_magic.starts_with(head) ||
         ((static_cast<unsigned char>(head[0]) & 0xf0) == 0x50 && skippable_magic.starts_with(head.substr(1)));
}

}  // namespace

class Unpacker {
 public:
  virtual ~Unpacker() = default;

  std::size_t read(InputStream& in, char* to, std::size_t bytes) {
    while (true) {
      if (in.begin_ == in.end_ && !pending_ && !in.refill()) {
        if (inside_)
          throw base::InputError(fmt::format("{} is cut off: its {} text has no end", in.path_, name()),
                                 "copy it again");
        return 0;
      }
      if (const auto n = unpack(in, in.buffer_.data() + in.begin_, in.end_ - in.begin_, to, bytes); n > 0) return n;
    }
  }

 protected:
  virtual const char* name() const = 0;
  // Takes bytes from `from`, moving in.begin_, and writes bytes to `to`; it may do only one of the two. Sets pending_
  // and inside_.
  virtual std::size_t unpack(InputStream& in, const char* from, std::size_t held, char* to, std::size_t room) = 0;

  [[noreturn]] void damaged(const InputStream& in, const char* reason) const {
    throw base::InputError(fmt::format("{} is damaged: its {} text cannot be unpacked behind byte {}: {}", in.path_,
                                       name(), in.taken_ - static_cast<std::int64_t>(in.end_ - in.begin_),
                                       reason == nullptr ? "no reason given" : reason),
                           "copy it again");
  }
  [[noreturn]] static void beyond(const InputStream& in, const char* what, const char* hint) {
    throw base::InputError(fmt::format("{} was packed with {}", in.path_, what), hint);
  }
  static void advance(InputStream& in, std::size_t bytes) { in.begin_ += bytes; }

  bool pending_ = false;  // more output may be ready without more input
  bool inside_ = false;   // a member has begun and has not ended
};

namespace {

class Gzip : public Unpacker {
 public:
  Gzip() {
    if (inflateInit2(&z_, 16 + MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~Gzip() override { inflateEnd(&z_); }

 protected:
  const char* name() const override { return "gzip"; }
  std::size_t unpack(InputStream& in, const char* from, std::size_t held, char* to, std::size_t room) override {
    if (!inside_ && members_ > 0) {  // zeros after a member are padding (of a tape), as in gunzip
      const auto zeros = base::size(std::find_if(from, from + held, [](char c) { return c != 0; }) - from);
      padded_ |= zeros > 0;
      advance(in, zeros);
      if (zeros == held) return 0;
      if (padded_) damaged(in, "something follows its end");
      inflateReset(&z_);
    }
    inside_ = true;
    z_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(from)), z_.avail_in = static_cast<uInt>(held);
    z_.next_out = reinterpret_cast<Bytef*>(to), z_.avail_out = static_cast<uInt>(std::min<std::size_t>(room, 1u << 30));
    const auto room_given = z_.avail_out;
    const int result = inflate(&z_, Z_NO_FLUSH);
    advance(in, held - z_.avail_in);
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
      damaged(in, result == Z_NEED_DICT ? "it needs a dictionary" : z_.msg);
    pending_ = result == Z_OK && z_.avail_out == 0;
    if (result == Z_STREAM_END) inside_ = false, ++members_;
    return room_given - z_.avail_out;
  }

 private:
  z_stream z_{};
  std::int64_t members_ = 0;
  bool padded_ = false;
};

class Zstd : public Unpacker {
 public:
  Zstd() : stream_(ZSTD_createDStream()) {
    if (stream_ == nullptr) throw std::bad_alloc();
  }
  ~Zstd() override { ZSTD_freeDStream(stream_); }

 protected:
  const char* name() const override { return "zstd"; }
  std::size_t unpack(InputStream& in, const char* from, std::size_t held, char* to, std::size_t room) override {
    ZSTD_inBuffer take{from, held, 0};
    ZSTD_outBuffer give{to, room, 0};
    const auto result = ZSTD_decompressStream(stream_, &give, &take);
    advance(in, take.pos);
    if (ZSTD_isError(result) && ZSTD_getErrorCode(result) == ZSTD_error_frameParameter_windowTooLarge)
      beyond(in, "a window of more than 128 MiB",
             "unpack it yourself, into a pipe: zstd -dc --long=31 FILE | shard-data --input -");
    if (ZSTD_isError(result)) damaged(in, ZSTD_getErrorName(result));
    inside_ = result != 0;
    pending_ = inside_ && give.pos == give.size;
    return give.pos;
  }

 private:
  ZSTD_DStream* stream_;
};

struct stat status_of(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) throw_cannot_read("read", path, errno);
  return info;
}

}  // namespace

std::int64_t InputStream::check(const std::string& path) {
  if (path == "-") return -1;
  const auto info = status_of(path);
  if (S_ISDIR(info.st_mode))
    throw base::InputError(fmt::format("{} is a folder", path), "name its files, or a list with @FILE");
  if (::access(path.c_str(), R_OK) != 0) throw_cannot_read("read", path, errno);
  if (S_ISREG(info.st_mode)) return info.st_size;
  if (S_ISFIFO(info.st_mode)) return -1;  // not opened here: its writer must not see it closed
  if (S_ISCHR(info.st_mode)) {
    const base::Descriptor device(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (device.is_open() && ::isatty(device.get()) == 1) return -1;
  }
  throw base::InputError(fmt::format("{} is a {}", path, S_ISSOCK(info.st_mode) ? "socket" : "device"),
                         "text comes from files, pipes and terminals");
}

InputStream::InputStream(std::string path, std::function<void()> poll)
    : path_(std::move(path)), poll_(std::move(poll)), buffer_(buffer_bytes) {
  if (path_ == "-") {
    path_ = "standard input";
    fd_ = STDIN_FILENO;
    pipe_ = true;
    return;
  }
  const auto size = check(path_);
  pipe_ = size < 0;
  if (!pipe_) {
    fd_ = base::open_regular(path_);
    opened_ = version_of(fd_);
    return;
  }
  base::Interruptions interruptions;
  // Opening a named pipe waits for its writer.
  while ((fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY)) < 0) {
    const int reason = errno;
    const bool again = interruptions.again();
    if (poll_) poll_();
    if (!again) throw_cannot_read("open", path_, reason);
  }
}

InputStream::InputStream(std::string path, std::function<void()> poll, std::int64_t begin, std::int64_t end)
    : path_(std::move(path)), poll_(std::move(poll)), fd_(base::open_regular(path_)), recognised_(true),
      left_(end - begin), buffer_(buffer_bytes) {
  if (::lseek(fd_, begin, SEEK_SET) < 0) throw_cannot_read("read", path_, errno);
}

bool InputStream::is_packed(const std::string& path) {
  const base::Descriptor file(base::open_regular(path));
  std::array<char, longest_magic> head{};
  const auto n = ::pread(file.get(), head.data(), head.size(), 0);
  if (n < 0) throw_cannot_read("read", path, errno);
  const std::string_view text(head.data(), base::size(n));
  return text.starts_with(gzip_magic) || begins_zstd(text);
}

InputStream::Version InputStream::version_of(int fd) const {
  struct stat info {};
  if (::fstat(fd, &info) != 0) throw_cannot_read("look at", path_, errno);
  return {info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
}

// Called at the end of a whole file.
void InputStream::refuse_if_changed() const {
  if (pipe_ || left_ >= 0) return;
  if (const auto now = version_of(fd_); now != opened_)
    throw base::InputError(
        fmt::format("{} was written while it was read: it had {} bytes and has {}", path_, opened_.bytes, now.bytes),
        "read it when nobody writes to it, or a copy");
}

InputStream::~InputStream() {
  if (fd_ > STDIN_FILENO) ::close(fd_);
}

std::size_t InputStream::read_raw(char* to, std::size_t bytes) {
  if (left_ >= 0) bytes = std::min(bytes, base::size(left_));
  base::Interruptions interruptions;
  while (true) {
    const auto n = ::read(fd_, to, bytes);
    const int reason = errno;
    const bool again = n < 0 && interruptions.again();
    if (poll_) poll_();
    if (n == 0 && bytes > 0 && left_ > 0)
      throw base::InputError(fmt::format("{} has lost its last {} bytes", path_, left_),
                             "it was changed while it was read: restore it");
    if (n == 0 && bytes > 0) refuse_if_changed();
    if (n >= 0) {
      taken_ += n;
      if (left_ >= 0) left_ -= n;
      return base::size(n);
    }
    if (!again) throw_cannot_read("read", path_, reason);
  }
}

bool InputStream::refill() {
  begin_ = 0;
  end_ = read_raw(buffer_.data(), buffer_.size());
  return end_ > 0;
}

// Recognizes the format of the input. The first bytes stay in the buffer.
void InputStream::recognise() {
  recognised_ = true;
  if (!refill()) return;
  while (is_beginning({buffer_.data(), end_})) {
    const auto n = read_raw(buffer_.data() + end_, buffer_.size() - end_);
    if (n == 0) break;
    end_ += n;
  }
  const std::string_view head(buffer_.data(), end_);
  if (head.starts_with(gzip_magic)) unpacker_ = std::make_unique<Gzip>();
  else if (begins_zstd(head)) unpacker_ = std::make_unique<Zstd>();
}

std::size_t InputStream::read(char* to, std::size_t bytes) {
  if (bytes == 0) return 0;
  if (!recognised_) recognise();
  if (unpacker_) return unpacker_->read(*this, to, bytes);
  if (begin_ == end_) return read_raw(to, bytes);
  const auto n = std::min(bytes, end_ - begin_);
  std::copy_n(buffer_.data() + begin_, n, to);
  begin_ += n;
  return n;
}

}  // namespace trainyard::io
