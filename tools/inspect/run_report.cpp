// The report on a run: its loss curve, the last metrics, its checkpoints.
#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/io/atomic_file.h"
#include "tools/inspect/curve.h"
#include "tools/inspect/report.h"
#include "tools/inspect/text.h"

#include <cmath>
#include <filesystem>
#include <optional>
#include <sstream>

namespace trainyard::inspect {

using nlohmann::json;

namespace {

struct Metrics {
  std::vector<Point> loss, validation;
  json last;
  std::int64_t lines = 0;
  bool unfinished = false;             // the last line breaks off
};

std::optional<double> number(const json& line, const char* key) {
  if (!line.contains(key) || !line[key].is_number()) return std::nullopt;
  return line[key].get<double>();
}

void take(Metrics& m, const std::string& text, const std::string& where) {
  auto line = base::parse_json<json>(text, where);
  const auto step = static_cast<double>(base::SortedJsonObject(line, where).integer("step", 0));
  ++m.lines;
  if (const auto loss = number(line, "loss")) m.loss.push_back({step, *loss});
  if (const auto loss = number(line, "validation_loss")) m.validation.push_back({step, *loss});
  m.last = std::move(line);
}

// The last line may break off: a run is writing it, or was killed then. A line that is damaged before that is nobody's doing that is known.
Metrics read_metrics(const std::string& path) {
  Metrics m;
  std::istringstream in(io::read_file(path, std::int64_t{1} << 34));
  std::int64_t number = 0;
  for (std::string text; std::getline(in, text);) {
    ++number;
    if (text.empty()) continue;
    try {
      take(m, text, fmt::format("{} line {}", path, number));
    } catch (const base::InputError&) {
      if (in.peek() != std::istringstream::traits_type::eof()) throw;
      m.unfinished = true;
    }
  }
  return m;
}

}  // namespace

Report run_report(const std::string& folder, const Options& options) {
  namespace fs = std::filesystem;
  Report report;
  report.json = {{"kind", "run"}, {"path", folder}};
  report.text = fmt::format("run {}\n", folder);
  std::error_code error;
  const auto metrics_path = folder + "/metrics.jsonl";
  if (fs::symlink_status(metrics_path, error).type() > fs::file_type::not_found) {
    const auto m = read_metrics(metrics_path);
    report.json["metrics"] = {{"path", metrics_path}, {"lines", m.lines}, {"unfinished_line", m.unfinished}, {"last", m.last}};
    for (const auto& p : m.loss) report.json["metrics"]["loss"].push_back({p.x, p.y});
    if (m.unfinished) report.text += "  the last line of metrics.jsonl breaks off: the run is writing it, or was killed\n";
    if (!m.loss.empty()) {
      report.text += fmt::format("\nloss, {} steps\n{}", human_count(static_cast<std::int64_t>(m.loss.size())), draw(m.loss, tools::terminal_columns(), 16, tools::glyphs_of_terminal()));
      report.text += fmt::format("  first {}  last {}\n", number_text(m.loss.front().y), number_text(m.loss.back().y));
    }
    if (!m.validation.empty())
      report.text += fmt::format("  validation loss {} at step {:g}, first {}\n", number_text(m.validation.back().y), m.validation.back().x, number_text(m.validation.front().y));
    if (!m.last.is_null()) report.text += "\nlast metrics\n" + leaves(m.last, 2);
  } else {
    report.text += "  no metrics.jsonl\n";
  }
  const auto checkpoints = folder + "/checkpoints";
  if (fs::is_directory(checkpoints, error)) {
    const auto inner = checkpoints_report(checkpoints, options);
    report.json["checkpoints"] = inner.json["checkpoints"];
    report.text += "\ncheckpoints\n" + inner.text;
  } else if (fs::is_symlink(checkpoints, error)) {
    report.text += fmt::format("\n  checkpoints is a link to {}, which is not there: is its disk mounted?\n", fs::read_symlink(checkpoints, error).string());
  }
  return report;
}

}  // namespace trainyard::inspect
