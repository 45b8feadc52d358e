// Reading metrics.jsonl: the one place that knows what a line of it is.
#pragma once

#include <nlohmann/json.hpp>

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

namespace trainyard::engine {

struct MetricsLine {
  std::int64_t number = 0;               // from 1
  std::int64_t end = 0;                  // bytes of the file through this line
  bool last = false, terminated = true;  // terminated: a line feed follows
  std::string damage;  // empty, or why it is not a line of metrics, naming file and line; then only the above is known
  std::int64_t step = 0;
  nlohmann::ordered_json values;                               // of all keys, whatever version wrote them
  bool unfinished() const { return !damage.empty() && last; }  // a run is writing it, or was killed then
};

// Calls `visit` for every line that is not empty, in order, until it returns false. Memory: one line. InputError when
// there is no such file.
void each_metrics_line(const std::string& path, const std::function<bool(const MetricsLine& line)>& visit);

// For readers that want everything: as above, but a damaged line that is not the last is an InputError. True when the
// last one breaks off.
bool each_whole_metrics_line(const std::string& path, const std::function<bool(const MetricsLine& line)>& visit);

// The lines of a file that a run is writing, as they come: each read() looks only at what was appended since the one
// before. A file that was cut or replaced meanwhile, as a resume and a run that goes back do, is read from its first
// line again; what was read stands while the file is not there, as it is for a moment when it is replaced.
class MetricsTail {
 public:
  explicit MetricsTail(std::string path) : path_(std::move(path)) {}
  enum class Change { none, more, anew };
  // Calls `forget` when what was visited before holds no more, then `visit` for every whole line that is new; a damaged
  // one says so, and what has no line feed yet is for the next time. A file that is not there is no news. InputError
  // for what is no file or cannot be read, and for a line that no run writes (above 16 MiB).
  Change read(const std::function<void()>& forget, const std::function<void(const MetricsLine&)>& visit);

 private:
  bool is_same(int file, std::int64_t size) const;

  std::string path_, last_;  // the bytes before end_, as many as tell one line from another
  ino_t inode_ = 0;
  dev_t device_ = 0;
  std::int64_t end_ = 0, lines_ = 0;  // what was visited
};

}  // namespace trainyard::engine
