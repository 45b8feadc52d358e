// Reading metrics.jsonl: the one place that knows the format of its lines.
#pragma once

#include <nlohmann/json.hpp>

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

namespace trainyard::engine {

struct MetricsLine {
  std::int64_t number = 0;               // from 1
  std::int64_t end = 0;                  // bytes of the file up to the end of this line
  bool last = false, terminated = true;  // terminated: a line feed follows
  // Empty, or why it is not a line of metrics, with file and line. Then only the fields above are known.
  std::string damage;
  std::int64_t step = 0;
  nlohmann::ordered_json values;                               // all keys, whatever version wrote them
  bool unfinished() const { return !damage.empty() && last; }  // a run is writing it, or was killed while writing
};

// Calls `visit` for every line that is not empty, in order, until it returns false. Holds one line in memory.
// InputError if there is no such file.
void each_metrics_line(const std::string& path, const std::function<bool(const MetricsLine& line)>& visit);

// The same for readers that want every line: a damaged line that is not the last is an InputError. Returns true if the
// last line is unfinished.
bool each_whole_metrics_line(const std::string& path, const std::function<bool(const MetricsLine& line)>& visit);

// Reads the lines of a file that a run is writing: each read() looks only at what was appended since the read() before.
// A file that was cut or replaced meanwhile (by a resume, or a run that goes back) is read again from its first line.
// While the file is missing, as for a moment during a replacement, the lines read before stay valid.
class MetricsTail {
 public:
  explicit MetricsTail(std::string path) : path_(std::move(path)) {}
  enum class Change { none, more, anew };
  // Calls `forget` if the lines visited before are no longer valid, then `visit` for every new whole line. A damaged
  // line is visited with its damage. Text without a line feed waits for the next read(). A missing file is no change.
  // InputError for something that is no file or cannot be read, and for a line that no run writes (above 16 MiB).
  Change read(const std::function<void()>& forget, const std::function<void(const MetricsLine&)>& visit);

 private:
  bool is_same(int file, std::int64_t size) const;

  std::string path_, last_;  // last_: the bytes before end_, enough to distinguish one line from another
  ino_t inode_ = 0;
  dev_t device_ = 0;
  std::int64_t end_ = 0, lines_ = 0;  // bytes and lines visited
};

}  // namespace trainyard::engine
