// What is seen of a run that is watched.
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/text.h"
#include "tools/common/step_text.h"
#include "tools/inspect/follow.h"
#include "tools/inspect/text.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

namespace trainyard::inspect {

namespace {

constexpr std::size_t last_steps = 100;  // whose mean foretells the next ones

// With the validations between them.
double mean_step_seconds(const History& h) {
  double sum = 0;
  std::size_t n = 0;
  for (auto s = h.samples.rbegin(); s != h.samples.rend() && n < last_steps; ++s)
    if (std::isfinite(s->step_seconds)) sum += s->step_seconds + s->validation_seconds, ++n;
  return n > 0 ? sum / static_cast<double>(n) : absent;
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

double seconds_left(const Watched& run) {
  return mean_step_seconds(run.history) *
         static_cast<double>(std::max<std::int64_t>(0, run.steps - run.history.samples.back().step));
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

std::string step_lines(const Watched& run, int columns) {
  const auto& last = run.history.samples.back();
  std::string out = "step        " + human_count(last.step);
  if (run.steps > 0) {
    const double share = std::min(1.0, static_cast<double>(last.step) / static_cast<double>(run.steps));
    out += fmt::format(" of {}  {:.0f} %  ", human_count(run.steps), std::floor(100 * share));
    if (columns > 72) out += bar(share, std::min(30, columns - 62)) + "  ";
    if (const double left = seconds_left(run); last.step < run.steps && std::isfinite(left))
      out += tools::left_text(left) + " left";
  }
  out += fmt::format("\nloss        {}", last.loss ? tools::loss_text(*last.loss) : "?");
  const auto v = validations_of(run.history);
  if (v.last)
    out += fmt::format("  validation {} at step {}{}", tools::loss_text(*v.last), human_count(v.last_step),
                       v.best && v.best_step != v.last_step
                           ? fmt::format(", best {} at step {}", tools::loss_text(*v.best), human_count(v.best_step))
                           : "");
  out += "\nspeed       ";
  if (std::isfinite(last.tokens_per_second)) out += base::count_rate_text(last.tokens_per_second, "tokens/s") + "  ";
  if (const double mean = mean_step_seconds(run.history); std::isfinite(mean))
    out += base::duration_text(mean) + " a step";
  out += fmt::format("\ngradient    norm {}  learning rate {}\n", number_text(last.gradient_norm.value_or(absent)),
                     number_text(last.learning_rate));
  return out;
}

std::string state_line(const Watched& run, double now) {
  if (const auto v = verdict_on(run); !v.sentence.empty()) return v.sentence;
  auto out = run.state.stage == engine::RunStatus::Stage::unknown ? std::string("whether it runs is not known")
                                                                  : fmt::format("{}", base::one_line(run.state.holder));
  if (run.history.samples.empty()) return out;
  const auto& last = run.history.samples.back();
  const double silent = now - last.time, mean = mean_step_seconds(run.history);
  if (silent > std::max(60.0, 10 * mean)) out += fmt::format("; no step for {}", base::duration_text(silent));
  return out;
}

// Lines of ASCII and of drawings, a column a character.
std::string cut(const std::string& line, int columns) {
  std::size_t end = 0;
  for (int seen = 0; end < line.size(); ++end)
    if ((static_cast<unsigned char>(line[end]) & 0xC0) != 0x80 && seen++ == columns) break;
  return line.substr(0, end);
}

}  // namespace

std::string line_of(const Watched& run) {
  if (run.history.samples.empty()) return {};
  const auto& last = run.history.samples.back();
  return tools::step_text({last.step, run.steps, last.loss.value_or(absent), validations_of(run.history).last,
                           last.tokens_per_second, seconds_left(run)});
}

std::string picture_of(const Watched& run, tools::Window window, tools::Glyphs glyphs, double now) {
  auto text = fmt::format("run         {}\n", base::one_line(run.path));
  if (!run.history.samples.empty()) text += step_lines(run, window.columns);
  if (!run.state.newest.empty())
    text += fmt::format("checkpoint  {}, {}\n", base::one_line(run.state.newest), ago(run.state.newest_time, now));
  text += fmt::format("state       {}\n", state_line(run, now));
  if (run.went_back >= 0) text += fmt::format("            was set back to step {}\n", run.went_back);
  if (run.history.damaged > 0)
    text += fmt::format("            {} of metrics cannot be read\n", base::counted(run.history.damaged, "line"));
  const auto rows = window.rows - static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  if (constexpr int heading = 2, least = 5; rows >= heading + least && window.columns >= 32) {
    const auto loss = curve_of(run.history, Across::step, &Sample::loss),
               validation = curve_of(run.history, Across::step, &Sample::validation_loss);
    const auto chart = draw({{loss}, {validation, 'o', false}}, window.columns - 1, rows - heading, glyphs);
    if (!chart.empty()) text += (validation.empty() ? "\nloss\n" : "\nloss, o: validation\n") + chart;
  }
  std::string out;
  std::size_t begin = 0;
  for (int row = 0; row < window.rows && begin < text.size(); ++row) {
    const auto feed = text.find('\n', begin);
    out += cut(text.substr(begin, feed - begin), window.columns - 1) + "\n";
    begin = feed + 1;
  }
  return out;
}

}  // namespace trainyard::inspect
