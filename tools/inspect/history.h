// The numbers in a run's metrics lines, from which curves and tables are made.
#pragma once

#include "libtrain/engine/metrics_reader.h"
#include "tools/inspect/curve.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::inspect {

inline constexpr double absent = std::numeric_limits<double>::quiet_NaN();

// One line of metrics. Losses and norms that are not finite are kept as such. A loss or norm that a line lacks is
// unset; any other number that it lacks is NaN.
struct Sample {
  std::int64_t step = 0;
  std::optional<double> loss, validation_loss, gradient_norm;
  double learning_rate = absent, tokens_per_second = absent, step_seconds = absent;
  double validation_seconds = 0;  // of the validation after the step
  double tokens_seen = absent;
  double time = absent;  // when the line was written, in seconds since 1970
};

struct History {
  std::vector<Sample> samples;
  nlohmann::ordered_json last;     // the whole last line
  std::string began, ended, host;  // times of the first and last line with a time; host of that last line
  std::int64_t steps = 0;          // steps of the whole run; 0: no line has it
  std::int64_t damaged = 0;        // lines that cannot be parsed
  bool unfinished = false;         // the last line is cut off

  void add(const engine::MetricsLine& line);
};

// The number at a key. The texts "nan", "inf" and "-inf" are numbers too, because JSON has no such numbers. Unset for
// anything else.
std::optional<double> number_at(const nlohmann::ordered_json& values, const char* key);

// The path of metrics.jsonl in a run's folder, or the path itself. InputError, naming `option`, if the folder has none.
std::string metrics_file(const std::string& path, const std::string& option);

// Reads a whole file. InputError for a damaged line before the last, which no known interruption leaves.
History read_history(const std::string& file);

// What the x axis of curves counts.
enum class Across { step, tokens, time };
std::vector<double> places(const History& history, Across across);  // x of every sample; time: seconds of work up to it
std::string label_of(Across across);
std::vector<Point> curve_of(const History& history, Across across, std::optional<double> Sample::*value);
std::vector<Point> curve_of(const History& history, Across across, double Sample::*value);
// The last line with a loss: a step of which no token counts has none. Null if there is none.
const Sample* latest_loss(const History& history);
std::int64_t not_finite(const History& history);  // number of losses that are not finite

}  // namespace trainyard::inspect
