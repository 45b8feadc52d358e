// What the lines of a run's metrics say: the numbers that curves and tables are made of.
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

// A line. Losses and norms that are not finite are there as such; what a line lacks is nothing, or, of the
// rest, not a number.
struct Sample {
  std::int64_t step = 0;
  std::optional<double> loss, validation_loss, gradient_norm;
  double learning_rate = absent, tokens_per_second = absent, step_seconds = absent;
  double validation_seconds = 0;  // of the validation behind the step
  double tokens_seen = absent;
  double time = absent;  // when it was written, seconds since 1970
};

struct History {
  std::vector<Sample> samples;
  nlohmann::ordered_json last;     // all of the last line
  std::string began, ended, host;  // times of the first and last line that has one; where that one was written
  std::int64_t steps = 0;          // that the run shall do; 0: no line says so
  std::int64_t damaged = 0;        // lines that cannot be read
  bool unfinished = false;         // the last line breaks off

  void add(const engine::MetricsLine& line);
};

// The number at a key; texts are the numbers that JSON has not ("nan", "inf", "-inf"). Nothing for anything else.
std::optional<double> number_at(const nlohmann::ordered_json& values, const char* key);

// metrics.jsonl of a run's folder, or the path itself. InputError that names `option` where the folder has none.
std::string metrics_file(const std::string& path, const std::string& option);

// All of a file. A line that is damaged before the last is nobody's doing that is known: InputError.
History read_history(const std::string& file);

// Curves over the steps, or what else is across.
enum class Across { step, tokens, time };
std::vector<double> places(const History& history, Across across);  // of every sample; time: seconds of work until then
std::string label_of(Across across);
std::vector<Point> curve_of(const History& history, Across across, std::optional<double> Sample::*value);
std::vector<Point> curve_of(const History& history, Across across, double Sample::*value);
std::int64_t not_finite(const History& history);  // losses

}  // namespace trainyard::inspect
