// Reading metrics.jsonl: the one place that knows what a line of it is.
#pragma once

#include <nlohmann/json.hpp>

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

}  // namespace trainyard::engine
