// Lines of metrics, good and damaged.
#include "libtrain/engine/metrics_reader.h"

#include "libtrain/base/descriptor.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/system_error.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace trainyard::engine {

namespace {

void parse(MetricsLine& line, const std::string& text, const std::string& path) {
  const auto where = fmt::format("{} line {}", path, line.number);
  try {
    line.values = base::parse_json(text, where);
    line.step = base::JsonObject(line.values, where).integer("step", 0);
  } catch (const base::InputError& e) {
    line.damage = e.what();
  }
}

constexpr std::size_t longest_line = std::size_t{16} << 20, block = std::size_t{1} << 20;
constexpr std::size_t distinguished = 4096;  // last bytes that no other line has: it ends in the time it was written

// As many bytes from `offset` on as there are, at most `bytes`.
std::string read_at(int file, std::int64_t offset, std::size_t bytes, const std::string& path) {
  std::string text(bytes, '\0');
  std::size_t done = 0;
  base::Interruptions interruptions;
  while (done < bytes) {
    const auto n = ::pread(file, text.data() + done, bytes - done, offset + static_cast<off_t>(done));
    if (n < 0 && interruptions.again()) continue;
    if (n < 0) base::throw_cannot_read("read", path, errno);
    if (n == 0) break;
    done += base::size(n);
  }
  text.resize(done);
  return text;
}

}  // namespace

// Uses system calls, because a stream cannot distinguish the end of a file from a device that fails. A run truncates
// the file where the lines end, so the difference matters.
void each_metrics_line(const std::string& path, const std::function<bool(const MetricsLine&)>& visit) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    if (base::is_unreadable(error.value())) base::throw_cannot_read("look at", path, error.value());
    throw base::InputError(fmt::format("{} is not a file", path), "metrics.jsonl is a file that train writes");
  }
  const base::Descriptor file(base::open_regular(path));
  MetricsLine line;
  std::string held;
  std::size_t begin = 0;
  bool more = true;
  for (std::int64_t at = 0;;) {
    auto feed = held.find('\n', begin);
    while (more && (feed == std::string::npos || feed + 1 == held.size())) {  // is it the last line?
      held.erase(0, begin);
      begin = 0;
      const auto text = read_at(file.get(), at, block, path);
      at += std::ssize(text);
      more = text.size() == block;
      held += text;
      feed = held.find('\n');
    }
    if (begin == held.size()) return;
    MetricsLine next;
    next.number = line.number + 1;
    next.terminated = feed != std::string::npos;
    const auto text = held.substr(begin, next.terminated ? feed - begin : std::string::npos);
    begin += text.size() + (next.terminated ? 1 : 0);
    next.end = line.end + std::ssize(text) + (next.terminated ? 1 : 0);
    next.last = begin == held.size();
    line = std::move(next);
    if (text.empty()) continue;
    parse(line, text, path);
    if (!visit(line)) return;
  }
}

bool each_whole_metrics_line(const std::string& path, const std::function<bool(const MetricsLine&)>& visit) {
  bool unfinished = false;
  each_metrics_line(path, [&](const MetricsLine& line) {
    if (line.damage.empty()) return visit(line);
    if (!line.unfinished()) throw base::InputError(line.damage, "remove the line, or restore the file from a copy");
    unfinished = true;
    return false;
  });
  return unfinished;
}

// False for a file that was cut and has grown again since, or that has the inode number of a removed file: it has other
// bytes there.
bool MetricsTail::is_same(int file, std::int64_t size) const {
  return size >= end_ && read_at(file, end_ - std::ssize(last_), last_.size(), path_) == last_;
}

// Opens the file each time, so that a file server is asked.
MetricsTail::Change MetricsTail::read(const std::function<void()>& forget,
                                      const std::function<void(const MetricsLine&)>& visit) {
  auto change = Change::none;
  const auto begin_again = [&] {
    if (lines_ > 0) change = Change::anew, forget();
    end_ = lines_ = 0;
    last_.clear();
  };
  struct stat info {};
  if (::stat(path_.c_str(), &info) != 0) {
    if (base::is_unreadable(errno)) base::throw_cannot_read("look at", path_, errno);
    return change;
  }
  const base::Descriptor file(base::open_regular(path_));
  if (::fstat(file.get(), &info) != 0) base::throw_cannot_read("look at", path_, errno);
  if (end_ > 0 && (info.st_ino != inode_ || info.st_dev != device_ || !is_same(file.get(), info.st_size)))
    begin_again();
  inode_ = info.st_ino, device_ = info.st_dev;
  std::string rest;
  for (auto at = end_;;) {
    const auto text = read_at(file.get(), at, block, path_);
    at += std::ssize(text);
    rest += text;
    std::size_t begin = 0;
    for (auto feed = rest.find('\n'); feed != std::string::npos; feed = rest.find('\n', begin)) {
      MetricsLine line;
      line.number = ++lines_;
      line.end = end_ += static_cast<std::int64_t>(feed - begin) + 1;
      last_ = rest.substr(std::max(begin, feed + 1 - std::min(feed + 1, distinguished)),
                          std::min(feed - begin + 1, distinguished));
      if (feed > begin) {
        parse(line, rest.substr(begin, feed - begin), path_);
        if (change == Change::none) change = Change::more;
        visit(line);
      }
      begin = feed + 1;
    }
    rest.erase(0, begin);
    if (text.size() < block) return change;
    if (rest.size() > longest_line)
      throw base::InputError(fmt::format("{} line {} has more than {} bytes", path_, lines_ + 1, longest_line),
                             "metrics.jsonl is a file that train writes, one short line a step");
  }
}

}  // namespace trainyard::engine
