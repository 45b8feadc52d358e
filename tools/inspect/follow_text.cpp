// Draws the picture of a watched run.
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/text.h"
#include "tools/common/step_pace.h"
#include "tools/common/step_text.h"
#include "tools/inspect/follow.h"
#include "tools/inspect/text.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <vector>

namespace trainyard::inspect {

namespace {

// When the current start began, by its lock. For a run that has ended, a time before every line.
double began(const Watched& run) {
  constexpr std::string_view since = ", since ", form = "0000-00-00T00:00:00Z";
  const auto at = run.state.holder.find(since);
  if (at == std::string::npos) return -INFINITY;
  return base::seconds_of_utc(run.state.holder.substr(at + since.size(), form.size())).value_or(-INFINITY);
}

// The pace of this start, since an earlier one may have had other machines. If this start has no steps yet, the pace of
// all steps.
tools::StepPace pace_of(const Watched& run) {
  tools::StepPace pace, before;
  const double from = began(run);
  for (const auto& s : run.history.samples)
    (s.time < from ? before : pace).add({s.step_seconds, s.validation_seconds, s.tokens_per_second});
  return pace.steps() > 0 ? pace : before;
}

struct Validations {
  std::optional<double> last, best;
  std::int64_t last_step = 0, best_step = 0;
};
Validations validations_of(const History& h) {
  Validations v;
  for (const auto& s : h.samples) {
    if (!s.validation_loss) continue;
    v.last = s.validation_loss, v.last_step = s.step;
    if (std::isfinite(*s.validation_loss) && (!v.best || *s.validation_loss < *v.best))
      v.best = s.validation_loss, v.best_step = s.step;
  }
  return v;
}

std::string latest_loss_text(const History& h) {
  const auto* latest = latest_loss(h);
  if (latest == nullptr) return "?";
  return tools::loss_text(*latest->loss) +
         (latest == &h.samples.back() ? "" : fmt::format(" at step {}", human_count(latest->step)));
}

double seconds_left(const Watched& run, const tools::StepPace& pace) {
  return pace.seconds_left(run.steps - run.history.samples.back().step);
}

std::string bar(double share, int columns) {
  const auto full = std::clamp(static_cast<int>(std::floor(share * columns)), 0, columns);
  return fmt::format("[{}{}]", std::string(static_cast<std::size_t>(full), '#'),
                     std::string(static_cast<std::size_t>(columns - full), '.'));
}

std::string ago(const std::string& time, double now) {
  const auto then = base::seconds_of_utc(time);
  return then && now >= *then ? fmt::format("{} ago ({})", base::duration_text(std::round(now - *then)), time) : time;
}

// Width in columns, one for each character: lines have only ASCII and drawing characters.
bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }
int columns_needed(const std::string& text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), begins_character));
}
// As much of a text as fits into `columns`.
std::string fitting(const std::string& text, int columns) {
  std::size_t end = 0;
  for (int seen = 0; end < text.size(); ++end)
    if (begins_character(text[end]) && seen++ >= columns) break;
  return text.substr(0, end);
}

// A labelled line with parts side by side. A part that does not fit moves as a whole to the next line. A part that is
// wider than the window is broken between words.
class Lines {
 public:
  Lines(const std::string& label, int columns)
      : columns_(std::max(1, columns)), indent_(columns >= 30 ? 12 : std::min(2, columns_ - 1)),
        line_(columns >= 30 ? fmt::format("{:<12}", label) : label + "  ") {}

  void add(const std::string& part) {
    const int gap = line_.ends_with(',') || line_.ends_with(';') ? 1 : 2;
    if (fits(part, gap)) return put(part, gap);
    if (indent_ + columns_needed(part) <= columns_) return below(), put(part, gap);
    std::size_t begin = 0;
    for (bool first = true; begin < part.size(); first = false) {
      const auto end = std::min(part.find(' ', begin), part.size());
      word(part.substr(begin, end - begin), first ? gap : 1);
      begin = end + 1;
    }
  }
  std::string text() const { return out_ + line_ + "\n"; }

 private:
  bool fits(const std::string& part, int gap) const {
    return columns_needed(line_) + (empty_ ? 0 : gap) + columns_needed(part) <= columns_;
  }
  void put(const std::string& part, int gap) {
    line_ += (empty_ ? "" : std::string(static_cast<std::size_t>(gap), ' ')) + part;
    empty_ = false;
  }
  void below() {
    if (empty_ && columns_needed(line_) <= indent_) return;
    out_ += line_.substr(0, line_.find_last_not_of(' ') + 1) + "\n";
    line_ = std::string(static_cast<std::size_t>(indent_), ' ');
    empty_ = true;
  }
  void word(const std::string& given, int gap) {
    if (!fits(given, gap)) below();
    auto rest = given;
    while (!fits(rest, gap)) {  // a long path
      auto part = fitting(rest, std::max(1, columns_ - columns_needed(line_)));
      if (const auto slash = part.rfind('/'); slash != std::string::npos && slash > 0) part.resize(slash + 1);
      put(part, 0);
      below();
      rest = rest.substr(part.size());
    }
    put(rest, gap);
  }

  int columns_, indent_;
  std::string out_, line_;
  bool empty_ = true;  // the current line has no part
};

std::string labelled(const std::string& label, const std::vector<std::string>& parts, int columns) {
  Lines lines(label, columns);
  for (const auto& part : parts) lines.add(part);
  return lines.text();
}

std::string step_lines(const Watched& run, const tools::StepPace& pace, int columns) {
  const auto& last = run.history.samples.back();
  std::vector<std::string> step{human_count(last.step)};
  if (run.steps > 0) {
    const double share = std::min(1.0, static_cast<double>(last.step) / static_cast<double>(run.steps));
    step[0] += " of " + human_count(run.steps);
    step.push_back(fmt::format("{:.0f} %", std::floor(100 * share)));
    if (columns > 71) step.push_back(bar(share, std::min(30, columns - 61)));
    if (const double left = seconds_left(run, pace); last.step < run.steps && std::isfinite(left))
      step.push_back(tools::left_text(left) + " left");
  }
  std::vector<std::string> loss{latest_loss_text(run.history)};
  if (const auto v = validations_of(run.history); v.last) {
    loss.push_back(fmt::format("validation {} at step {}", tools::loss_text(*v.last), human_count(v.last_step)));
    if (v.best && v.best_step != v.last_step) {
      loss.back() += ",";
      loss.push_back(fmt::format("best {} at step {}", tools::loss_text(*v.best), human_count(v.best_step)));
    }
  }
  std::vector<std::string> speed;
  if (const double rate = pace.tokens_per_second(); std::isfinite(rate))
    speed.push_back(base::count_rate_text(rate, "tokens/s"));
  if (const double mean = pace.step_seconds(); std::isfinite(mean)) {
    speed.push_back(base::duration_text(mean) + " a step");
    if (pace.steps() > 1) speed.push_back(fmt::format("mean of the last {}", base::counted(pace.steps(), "step")));
  }
  return labelled("step", step, columns) + labelled("loss", loss, columns) + labelled("speed", speed, columns) +
         labelled("gradient",
                  {fmt::format("norm {}", number_text(last.gradient_norm.value_or(absent))),
                   fmt::format("learning rate {}", number_text(last.learning_rate))},
                  columns);
}

std::vector<std::string> state_parts(const Watched& run, const tools::StepPace& pace, double now) {
  if (const auto v = verdict_on(run); !v.sentence.empty()) return {v.sentence};
  const auto& holder = run.state.holder;
  std::vector<std::string> out{run.state.stage == engine::RunStatus::Stage::unknown
                                   ? "whether it runs is not known"
                                   : base::one_line(holder.substr(0, holder.find(", start ")))};
  if (run.history.samples.empty()) return out;
  const auto& last = run.history.samples.back();
  const double silent = now - last.time, mean = pace.seconds_left(1);
  if (silent > std::max(60.0, 10 * mean)) {
    out.back() += ";";
    out.push_back(fmt::format("no step for {}", base::duration_text(silent)));
  }
  return out;
}

}  // namespace

std::string line_of(const Watched& run) {
  if (run.history.samples.empty()) return {};
  const auto& last = run.history.samples.back();
  const auto pace = pace_of(run);
  return tools::step_text({last.step, run.steps, last.loss, validations_of(run.history).last, pace.tokens_per_second(),
                           seconds_left(run, pace)});
}

std::string picture_of(const Watched& run, tools::Window window, tools::Glyphs glyphs, double now) {
  const int columns = window.columns - 1;
  const auto pace = pace_of(run);
  auto text = labelled("run", {base::one_line(run.path)}, columns);
  if (!run.history.samples.empty()) text += step_lines(run, pace, columns);
  if (!run.state.newest.empty())
    text += labelled("checkpoint", {base::one_line(run.state.newest) + ",", ago(run.state.newest_time, now)}, columns);
  text += labelled("state", state_parts(run, pace, now), columns);
  if (run.went_back >= 0) text += labelled("", {fmt::format("was set back to step {}", run.went_back)}, columns);
  if (run.history.damaged > 0)
    text += labelled("", {base::counted(run.history.damaged, "line") + " of metrics cannot be read"}, columns);
  const auto rows = window.rows - static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  if (constexpr int heading = 2, least = 5; rows >= heading + least && window.columns >= 32) {
    const auto loss = curve_of(run.history, Across::step, &Sample::loss),
               validation = curve_of(run.history, Across::step, &Sample::validation_loss);
    const auto chart = draw({{loss}, {validation, 'o', false}}, columns, rows - heading, glyphs);
    if (!chart.empty()) text += (validation.empty() ? "\nloss\n" : "\nloss, o: validation\n") + chart;
  }
  std::string out;
  std::size_t begin = 0;
  for (int row = 0; row < window.rows && begin < text.size(); ++row) {
    const auto feed = text.find('\n', begin);
    out += fitting(text.substr(begin, feed - begin), columns) + "\n";
    begin = feed + 1;
  }
  return out;
}

}  // namespace trainyard::inspect
