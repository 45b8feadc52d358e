// The report on a run: its loss curve, the last metrics, its checkpoints.
#include "libtrain/base/error.h"
#include "libtrain/engine/metrics_reader.h"
#include "tools/inspect/curve.h"
#include "tools/inspect/report.h"
#include "tools/inspect/text.h"

#include <cmath>
#include <filesystem>
#include <optional>

namespace trainyard::inspect {

using nlohmann::json;

namespace {

struct Metrics {
  std::vector<Point> loss, validation;
  json last;
  std::string began;  // the time of the first line that has one
  std::int64_t lines = 0;
  bool unfinished = false;  // the last line breaks off
};

std::optional<double> number(const json& line, const char* key) {
  if (!line.contains(key) || !line[key].is_number()) return std::nullopt;
  return line[key].get<double>();
}

// A line that is damaged before the last is nobody's doing that is known, and refused.
Metrics read_metrics(const std::string& path) {
  Metrics m;
  m.unfinished = engine::each_whole_metrics_line(path, [&](const engine::MetricsLine& line) {
    const json values = line.values;
    const auto step = static_cast<double>(line.step);
    ++m.lines;
    if (const auto loss = number(values, "loss")) m.loss.push_back({step, *loss});
    if (const auto loss = number(values, "validation_loss")) m.validation.push_back({step, *loss});
    if (m.began.empty() && values.contains("time") && values["time"].is_string())
      m.began = values["time"].get<std::string>();
    m.last = values;
    return true;
  });
  return m;
}

std::string when_and_where(const Metrics& m) {
  if (m.began.empty() || !m.last.contains("time") || !m.last["time"].is_string()) return {};
  const auto host = m.last.contains("host") && m.last["host"].is_string()
                        ? fmt::format(" on {}", m.last["host"].get<std::string>())
                        : "";
  return fmt::format("  from {} to {}{}\n", m.began, m.last["time"].get<std::string>(), host);
}

void add_metrics(Report& report, const std::string& path, const Options& options) {
  const auto m = read_metrics(path);
  report.json["metrics"] = {{"path", path}, {"lines", m.lines}, {"unfinished_line", m.unfinished}, {"last", m.last}};
  for (const auto& p : m.loss) report.json["metrics"]["loss"].push_back({p.x, p.y});
  for (const auto& p : m.validation) report.json["metrics"]["validation_loss"].push_back({p.x, p.y});
  if (m.unfinished)
    report.text += fmt::format("  the last line of {} breaks off: the run is writing it, or was killed\n",
                               std::filesystem::path(path).filename().string());
  report.text += when_and_where(m);
  if (m.lines == 0) report.text += "  no step is done yet\n";
  if (!m.loss.empty()) {
    report.text += fmt::format("\nloss, {} steps\n{}", human_count(static_cast<std::int64_t>(m.loss.size())),
                               draw(m.loss, tools::terminal_columns(), 16, tools::glyphs_of_terminal()));
    report.text += fmt::format("  first {}  last {}\n", number_text(m.loss.front().y), number_text(m.loss.back().y));
  }
  if (!m.validation.empty())
    report.text += fmt::format("  validation loss {} at step {:g}, first {}\n", number_text(m.validation.back().y),
                               m.validation.back().x, number_text(m.validation.front().y));
  if (!m.last.is_null()) report.text += "\nlast metrics\n" + leaves(for_people(m.last, options.sizes), 2);
}

}  // namespace

Report metrics_report(const std::string& file, const Options& options) {
  refuse_verify(options, file, "a metrics file");
  Report report;
  report.json = {{"kind", "metrics"}, {"path", file}};
  report.text = fmt::format("metrics {}\n", file);
  add_metrics(report, file, options);
  return report;
}

Report run_report(const std::string& folder, const Options& options) {
  namespace fs = std::filesystem;
  Report report;
  report.json = {{"kind", "run"}, {"path", folder}};
  report.text = fmt::format("run {}\n", folder);
  std::error_code error;
  const auto metrics_path = folder + "/metrics.jsonl";
  if (fs::symlink_status(metrics_path, error).type() > fs::file_type::not_found) {
    add_metrics(report, metrics_path, options);
  } else {
    report.text += "  no metrics.jsonl\n";
  }
  const auto checkpoints = folder + "/checkpoints";
  if (!fs::is_directory(checkpoints, error) || fs::is_empty(checkpoints, error))
    refuse_verify(options, folder, "a run without checkpoints");
  if (fs::is_directory(checkpoints, error)) {
    const auto inner = checkpoints_report(checkpoints, options);
    report.json["checkpoints"] = inner.json["checkpoints"];
    report.text += "\ncheckpoints\n" + inner.text;
  } else if (fs::is_symlink(checkpoints, error)) {
    report.text += fmt::format("\n  checkpoints is a link to {}, which is not there: is its disk mounted?\n",
                               fs::read_symlink(checkpoints, error).string());
  }
  return report;
}

}  // namespace trainyard::inspect
