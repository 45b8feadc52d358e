// The report on a run: its loss curve, the last metrics, its checkpoints.
#include "libtrain/base/error.h"
#include "libtrain/base/text.h"
#include "libtrain/engine/run_status.h"
#include "tools/inspect/curve.h"
#include "tools/inspect/drawing.h"
#include "tools/inspect/follow.h"
#include "tools/inspect/history.h"
#include "tools/inspect/report.h"
#include "tools/inspect/text.h"

#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>

namespace trainyard::inspect {

namespace {

std::string when_and_where(const History& h) {
  if (h.began.empty()) return {};
  return fmt::format("  from {} to {}{}\n", h.began, h.ended, h.host.empty() ? "" : " on " + h.host);
}

// Pairs of step and value; values that are not finite are null, because JSON has no number for them.
nlohmann::json pairs_of(const History& h, std::optional<double> Sample::*value) {
  nlohmann::json out;
  for (const auto& s : h.samples)
    if (const auto& v = s.*value)
      out.push_back({static_cast<double>(s.step), std::isfinite(*v) ? nlohmann::json(*v) : nlohmann::json()});
  return out;
}

// The name of the run, not of its metrics file.
std::string name_of(const std::string& metrics) {
  auto path = std::filesystem::absolute(metrics).lexically_normal();
  if (path.filename() == "metrics.jsonl") path = path.parent_path();
  return path.filename().string();
}

std::shared_ptr<const History> add_metrics(Report& report, const std::string& path, const Options& options) {
  const auto read = std::make_shared<const History>(read_history(path));
  const auto& h = *read;
  if (!h.samples.empty())
    report.drawing = [read, name = name_of(path), across = options.across] { return run_drawing(name, *read, across); };
  report.json["metrics"] = {{"path", path},
                            {"lines", h.samples.size()},
                            {"unfinished_line", h.unfinished},
                            {"not_finite", not_finite(h)},
                            {"last", nlohmann::json(h.last)}};
  if (const auto loss = pairs_of(h, &Sample::loss); !loss.is_null()) report.json["metrics"]["loss"] = loss;
  if (const auto loss = pairs_of(h, &Sample::validation_loss); !loss.is_null())
    report.json["metrics"]["validation_loss"] = loss;
  if (h.unfinished)
    report.text += fmt::format("  the last line of {} breaks off: the run is writing it, or was killed\n",
                               std::filesystem::path(path).filename().string());
  report.text += when_and_where(h);
  if (h.samples.empty()) report.text += "  no step is done yet\n";
  const auto loss = curve_of(h, Across::step, &Sample::loss),
             validation = curve_of(h, Across::step, &Sample::validation_loss);
  if (!loss.empty()) {
    const auto chart = draw({{curve_of(h, options.across, &Sample::loss)}}, tools::terminal_columns(), 16,
                            tools::glyphs_of_terminal(), label_of(options.across));
    report.text +=
        fmt::format("\nloss, {} steps\n{}", human_count(std::ssize(loss)),
                    chart.empty() ? fmt::format("  the lines do not say their {}\n", label_of(options.across)) : chart);
    report.text += fmt::format("  first {}  last {}\n", number_text(loss.front().y), number_text(loss.back().y));
  }
  if (!validation.empty())
    report.text += fmt::format("  validation loss {} at step {:.0f}, first {}\n", number_text(validation.back().y),
                               validation.back().x, number_text(validation.front().y));
  if (const auto wrong = not_finite(h); wrong > 0)
    report.text +=
        fmt::format("  {} with a loss that is not finite, which the curve leaves out\n", base::counted(wrong, "line"));
  if (!h.last.is_null())
    report.text += "\nlast metrics\n" + leaves(for_people(nlohmann::json(h.last), options.sizes), 2);
  return read;
}

// Adds whether the run goes on, has stopped, or was killed, as --follow says it. The reasons of ranks are another list.
void add_state(Report& report, const std::string& folder, const History& history) {
  Watched run{folder, history, {}, history.steps};
  try {
    run.state = engine::status_of(folder);
  } catch (const base::Error&) {  // the rest of the report says what is wrong with the folder
    return;
  }
  if (run.state.exit.exit_code != 0) return;
  auto sentence = verdict_on(run).sentence;
  if (sentence.empty() && run.state.stage == engine::RunStatus::Stage::running) sentence = "the run goes on at present";
  if (sentence.empty()) return;
  report.json["state"] = sentence;
  report.text += "  " + sentence + "\n";
}

// Adds the reasons that ranks of a failed start left. The next start removes them.
void add_reasons(Report& report, const std::string& folder) {
  constexpr std::size_t most = 4;
  const auto reasons = engine::exit_reasons(folder);
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    const auto& r = reasons[i];
    report.json["exit"].push_back(
        {{"rank", r.rank}, {"exit_code", r.exit_code}, {"host", r.host}, {"reason", r.reason}});
    if (i < most)
      report.text += fmt::format("  ended with exit code {}: rank {} on {} says: {}\n", r.exit_code, r.rank,
                                 base::one_line(r.host), base::one_line(r.reason));
  }
  if (!reasons.empty())
    report.text +=
        fmt::format("  {}in {}/exit/rank-*.json, until the next start\n",
                    reasons.size() > most ? fmt::format("and {} more: ", reasons.size() - most) : "", folder);
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
  add_reasons(report, folder);
  std::error_code error;
  const auto metrics_path = folder + "/metrics.jsonl";
  if (fs::symlink_status(metrics_path, error).type() > fs::file_type::not_found) {
    const auto state_at = report.text.size();
    const auto history = add_metrics(report, metrics_path, options);
    const auto metrics = report.text.substr(state_at);
    report.text.resize(state_at);
    add_state(report, folder, *history);
    report.text += metrics;
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
