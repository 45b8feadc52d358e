// Converts metrics lines to numbers.
#include "tools/inspect/history.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace trainyard::inspect {

std::optional<double> number_at(const nlohmann::ordered_json& values, const char* key) {
  const auto found = values.find(key);
  if (found == values.end()) return {};
  if (found->is_number()) return found->get<double>();
  if (!found->is_string()) return {};
  const auto& text = found->get_ref<const std::string&>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  return {};
}

void History::add(const engine::MetricsLine& line) {
  if (!line.damage.empty()) {
    ++damaged;
    return;
  }
  const auto& v = line.values;
  Sample s;
  s.step = line.step;
  s.loss = number_at(v, "loss");
  s.validation_loss = number_at(v, "validation_loss");
  s.learning_rate = number_at(v, "learning_rate").value_or(absent);
  s.gradient_norm = number_at(v, "gradient_norm");
  s.tokens_per_second = number_at(v, "tokens_per_second").value_or(absent);
  s.step_seconds = number_at(v, "step_seconds").value_or(absent);
  if (const auto seconds = number_at(v, "validation_seconds"); seconds && *seconds >= 0 && std::isfinite(*seconds))
    s.validation_seconds = *seconds;
  s.tokens_seen = number_at(v, "tokens_seen").value_or(absent);
  if (const auto time = v.find("time"); time != v.end() && time->is_string()) {
    ended = time->get<std::string>();
    if (began.empty()) began = ended;
    s.time = base::seconds_of_utc(ended).value_or(absent);
  }
  if (const auto where = v.find("host"); where != v.end() && where->is_string()) host = where->get<std::string>();
  if (const auto all = v.find("steps"); all != v.end() && all->is_number_unsigned())
    steps = static_cast<std::int64_t>(
        std::min(all->get<std::uint64_t>(), std::uint64_t{std::numeric_limits<std::int64_t>::max()}));
  samples.push_back(s);
  last = v;
}

std::string metrics_file(const std::string& path, const std::string& option) {
  if (!base::exists(path)) throw base::InputError(fmt::format("{} does not exist", path), "check the path");
  if (!base::is_folder(path)) return path;
  const auto file = path + "/metrics.jsonl";
  if (!base::exists(file))
    throw base::InputError(fmt::format("{} holds no metrics.jsonl", path),
                           option + " is for the metrics of a run: give its folder, or a metrics file");
  return file;
}

History read_history(const std::string& file) {
  History history;
  history.unfinished = engine::each_whole_metrics_line(file, [&](const engine::MetricsLine& line) {
    history.add(line);
    return true;
  });
  return history;
}

std::vector<double> places(const History& history, Across across) {
  std::vector<double> out;
  out.reserve(history.samples.size());
  double seconds = 0;
  for (const auto& s : history.samples) {
    const bool known = std::isfinite(s.step_seconds) && s.step_seconds >= 0;
    if (known) seconds += s.step_seconds;
    out.push_back(across == Across::step     ? static_cast<double>(s.step)
                  : across == Across::tokens ? s.tokens_seen
                  : known                    ? seconds
                                             : absent);
    seconds += s.validation_seconds;
  }
  return out;
}

std::string label_of(Across across) {
  return across == Across::step ? "step" : across == Across::tokens ? "tokens" : "seconds";
}

std::vector<Point> curve_of(const History& history, Across across, std::optional<double> Sample::*value) {
  std::vector<Point> out;
  const auto x = places(history, across);
  for (std::size_t i = 0; i < x.size(); ++i)
    if (const auto& y = history.samples[i].*value; y && std::isfinite(*y) && std::isfinite(x[i]))
      out.push_back({x[i], *y});
  return out;
}

std::vector<Point> curve_of(const History& history, Across across, double Sample::*value) {
  std::vector<Point> out;
  const auto x = places(history, across);
  for (std::size_t i = 0; i < x.size(); ++i)
    if (const double y = history.samples[i].*value; std::isfinite(y) && std::isfinite(x[i])) out.push_back({x[i], y});
  return out;
}

const Sample* latest_loss(const History& history) {
  const auto& all = history.samples;
  const auto found = std::find_if(all.rbegin(), all.rend(), [](const Sample& s) { return s.loss.has_value(); });
  return found == all.rend() ? nullptr : &*found;
}

std::int64_t not_finite(const History& history) {
  return std::count_if(history.samples.begin(), history.samples.end(), [](const Sample& s) {
    return (s.loss && !std::isfinite(*s.loss)) || (s.validation_loss && !std::isfinite(*s.validation_loss));
  });
}

}  // namespace trainyard::inspect
