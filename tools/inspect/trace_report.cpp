// The report on a trace: its contents, or one step of it.
#include "libtrain/base/number_text.h"
#include "libtrain/base/text.h"
#include "tools/common/svg_chart.h"
#include "tools/inspect/report.h"
#include "tools/inspect/text.h"
#include "tools/inspect/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace trainyard::inspect {

namespace {

using Block = TimelineBlock;
constexpr std::size_t most_rows_drawn = 256;

// Neighbouring virtual stages have different colors.
bool is_odd(const Block& b) { return b.chunk % 2 == 1; }
constexpr int communication_color = 3;

int color_of(const Block& b) {
  switch (b.kind) {
    case Block::Kind::forward: return is_odd(b) ? 6 : 0;
    case Block::Kind::backward:
    case Block::Kind::input_gradients: return is_odd(b) ? 4 : 1;
    case Block::Kind::weight_gradients: return 2;
    case Block::Kind::other: return 7;
  }
  return 7;
}

std::string key_of(const Block& b) {
  const char* stage = is_odd(b) ? ", odd virtual stages" : "";
  switch (b.kind) {
    case Block::Kind::forward: return fmt::format("forward{}", stage);
    case Block::Kind::backward: return fmt::format("backward{}", stage);
    case Block::Kind::input_gradients: return fmt::format("input gradients{}", stage);
    case Block::Kind::weight_gradients: return "weight gradients";
    case Block::Kind::other: break;
  }
  return "other work";
}

// The meaning of the colors in the rows, ordered by kind.
std::vector<tools::SvgKey> keys_of(const std::vector<TimelineRow>& rows, std::size_t drawn) {
  std::map<std::pair<int, int>, std::string> keys;
  bool communicating = false;
  for (std::size_t r = 0; r < std::min(drawn, rows.size()); ++r) {
    for (const auto& b : rows[r].blocks)
      keys.insert({{b.kind == Block::Kind::other ? 99 : static_cast<int>(b.kind), color_of(b)}, key_of(b)});
    communicating |= !rows[r].communication.empty();
  }
  std::vector<tools::SvgKey> out;
  for (const auto& [kind, name] : keys) out.push_back({name, kind.second});
  if (communicating) out.push_back({"communicating", communication_color});
  return out;
}

void add_bars(tools::SvgPanel& panel, const TimelineRow& row, double y, double shift) {
  for (const auto& b : row.blocks) {
    const bool numbered = b.kind != Block::Kind::other && b.micro >= 0;
    panel.bars.push_back(
        {1e3 * (b.begin + shift), 1e3 * (b.end + shift), y, 0.8, color_of(b),
         numbered ? fmt::format("{}", b.micro) : "",
         fmt::format("{}{}{}: {}", b.name, numbered ? fmt::format(" of micro-batch {}", b.micro) : "",
                     b.chunk > 0 ? fmt::format(", chunk {}", b.chunk) : "", base::duration_text(b.end - b.begin))});
  }
  for (const auto& t : row.communication)
    panel.bars.push_back({1e3 * (t.begin + shift), 1e3 * (t.end + shift), y - 0.44, 0.08, communication_color, "",
                          fmt::format("communicating: {}", base::duration_text(t.end - t.begin))});
}

nlohmann::json rows_json(const std::vector<TimelineRow>& rows) {
  auto out = nlohmann::json::array();
  for (const auto& row : rows) {
    auto blocks = nlohmann::json::array();
    for (const auto& b : row.blocks)
      blocks.push_back({{"action", b.name},
                        {"micro", b.micro},
                        {"chunk", b.chunk},
                        {"begin_seconds", b.begin},
                        {"end_seconds", b.end}});
    out.push_back({{"name", row.name},
                   {"passes_seconds", row.passes},
                   {"other_seconds", row.other},
                   {"waiting_seconds", row.waiting},
                   {"communicating_seconds", row.communicating},
                   {"blocks", blocks}});
  }
  return out;
}

nlohmann::json timeline_json(const Timeline& t) {
  nlohmann::json out{{"step", t.step},
                     {"step_seconds", t.seconds},
                     {"passes_seconds", t.passes_seconds},
                     {"idle_fraction", t.idle_fraction()},
                     {"ranks", rows_json(t.measured)}};
  if (!t.problem.empty()) out["problem"] = t.problem;
  else
    out["ideal"] = {
        {"seconds", t.ideal_seconds}, {"idle_fraction", t.ideal_idle_fraction}, {"ranks", rows_json(t.ideal)}};
  return out;
}

std::string schedule_text(const Trace& trace) {
  return fmt::format(
      "{}, schedule {}, {}{}, {}{} a step", base::counted(static_cast<std::int64_t>(trace.ranks.size()), "rank"),
      base::one_line(trace.about["schedule"].get<std::string>()), base::counted(trace.stages, "stage"),
      trace.chunks > 1 ? fmt::format(" of {} chunks", trace.chunks) : "",
      trace.about.contains("batch_ramp") ? "up to " : "",
      trace.micro_batches == 1 ? "1 micro-batch" : base::count_text(trace.micro_batches) + " micro-batches");
}

std::string whole_text(const Trace& trace) {
  const auto full = trace.full_steps();
  std::int64_t left_out = 0;
  for (const auto& rank : trace.about["of_ranks"]) left_out += rank["left_out"].get<std::int64_t>();
  std::string out = fmt::format(
      "{}, {}\n{}; {}\n", base::counted(trace.spans, "span"),
      full.empty() ? "no whole step of all ranks" : fmt::format("steps {} to {} whole", full.front(), full.back()),
      schedule_text(trace),
      trace.host_only ? "times on the host, which queues work for a GPU" : "times of the work itself");
  if (left_out > 0) out += fmt::format("{} that came later had no room\n", base::counted(left_out, "span"));
  std::vector<std::vector<std::string>> rows;
  for (std::size_t r = 0; r < std::min<std::size_t>(32, trace.ranks.size()); ++r) {
    std::map<std::string, double> seconds;
    for (const auto& [tid, thread] : trace.ranks[r].threads)
      for (const auto& s : thread.spans) seconds[s.kind] += s.end - s.begin;
    rows.push_back({base::one_line(trace.ranks[r].name), base::duration_text(seconds["action"]),
                    base::duration_text(seconds["wait"]), base::duration_text(seconds["collective"]),
                    base::duration_text(seconds["save"]), base::duration_text(seconds["load"])});
  }
  out += "\n" + tools::table({"", ">actions", ">waits", ">collectives", ">saves", ">loads"}, rows);
  if (rows.size() < trace.ranks.size()) out += fmt::format("and {} ranks more\n", trace.ranks.size() - rows.size());
  return out + "\n--timeline draws a step; ui.perfetto.dev opens the file\n";
}

}  // namespace

std::string timeline_svg(const Timeline& t, const Trace& trace, const std::string& caption) {
  const auto rows = std::min(most_rows_drawn, t.measured.size());
  const auto panel = [&](std::string title, const std::vector<TimelineRow>& from, double shift) {
    tools::SvgPanel p;
    p.title = std::move(title);
    p.x.label = "ms", p.y.label = "";
    for (std::size_t r = 0; r < rows; ++r) {
      p.y.names.push_back(t.measured[r].name);
      if (r < from.size()) add_bars(p, from[r], static_cast<double>(rows - 1 - r), shift);
    }
    // Both panels have the same time axis.
    const double end = 1e3 * std::max(t.seconds, t.passes_begin + t.ideal_seconds);
    p.curves.push_back({"", {{0, -0.5}, {0, -0.5}}, 7});
    p.curves.push_back({"", {{end, -0.5}, {end, -0.5}}, 7});
    return p;
  };
  const auto share = [](double fraction) { return fmt::format("{:.1f} % idle", 100 * fraction); };
  std::vector<tools::SvgPanel> panels{panel(fmt::format("step {}, measured: {}{}", t.step, share(t.idle_fraction()),
                                                        trace.host_only ? ", times of the host alone" : ""),
                                            t.measured, 0)};
  if (t.problem.empty())
    panels.push_back(panel(fmt::format("ideal: {}", share(t.ideal_idle_fraction)), t.ideal, t.passes_begin));
  panels.front().keys = keys_of(t.measured, rows);
  return tools::svg_drawing(panels, caption + "; numbers: micro-batches; blank: idle or waiting",
                            {1, 1100, std::clamp(100.0 + 26.0 * static_cast<double>(rows), 180.0, 1600.0)});
}

Report trace_report(const std::string& file, const Options& options) {
  refuse_verify(options, file, "a trace");
  const auto trace = read_trace(file);
  Report report;
  report.json = {{"kind", "trace"},
                 {"path", file},
                 {"content", trace.about},
                 {"spans", trace.spans},
                 {"steps", trace.full_steps()}};
  report.text = fmt::format("trace {}\n", base::one_line(file));
  if (options.trace == Options::Of::whole) {
    report.text += whole_text(trace);
    return report;
  }
  const auto timeline = timeline_of(trace, options.step, file);
  report.json["timeline"] = timeline_json(timeline);
  report.text += schedule_text(trace) + "\n" +
                 timeline_text(timeline, trace, tools::terminal_columns(), tools::glyphs_of_terminal());
  report.drawing = [timeline, trace, file] {
    return timeline_svg(timeline, trace, fmt::format("{} - {}", file, schedule_text(trace)));
  };
  return report;
}

}  // namespace trainyard::inspect
