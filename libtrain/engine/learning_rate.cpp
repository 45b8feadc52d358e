// The formulas of the schedules.
#include "libtrain/engine/learning_rate.h"

#include "libtrain/base/nearest.h"
#include "libtrain/base/setting_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trainyard::engine {

namespace {

// How far the rate has gone from peak to final, from 0 to 1, in a schedule that decays at its end.
double decayed(const std::string& schedule, double progress) {
  if (schedule == "wsd-cosine") return 0.5 * (1 - std::cos(std::numbers::pi * progress));
  if (schedule == "wsd-minus-sqrt") return std::sqrt(progress);
  return progress;
}

bool decays_at_the_end(const std::string& schedule) { return schedule.rfind("wsd", 0) == 0; }

}  // namespace

std::vector<std::string> schedule_names() {
  return {"constant", "linear", "cosine", "wsd", "wsd-cosine", "wsd-exponential", "wsd-minus-sqrt", "inverse-sqrt"};
}

double LearningRate::at(std::int64_t completed) const {
  const auto t = static_cast<double>(std::min(completed + 1, std::max<std::int64_t>(total_steps, 1)));
  const double rate = at_time(t);
  return rate > 0 ? rate : at_time(t - 0.5);
}

double LearningRate::at_time(double t) const {
  const auto warmup = static_cast<double>(warmup_steps), decay = static_cast<double>(decay_steps);
  if (t <= warmup) return start > 0 ? start + (peak - start) * t / warmup : peak * t / warmup;
  if (decays_at_the_end(schedule)) {
    const double left = static_cast<double>(total_steps) - t;
    if (left >= decay) return peak;
    const double rest = left / decay;
    if (schedule == "wsd") return final + (peak - final) * rest;
    if (schedule == "wsd-exponential") return final * std::pow(peak / final, rest);
    return peak + (final - peak) * decayed(schedule, 1 - rest);
  }
  const double span = std::max(1.0, decay_steps > 0 ? decay : static_cast<double>(total_steps) - warmup);
  const double progress = std::min(1.0, (t - warmup) / span);
  if (schedule == "linear") return peak + (final - peak) * progress;
  if (schedule == "cosine") return final + (peak - final) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
  if (schedule == "inverse-sqrt") return peak * std::sqrt(std::max(1.0, warmup) / std::max(t, 1.0));
  return peak;
}

std::vector<plan::Problem> problems(const LearningRate& s) {
  std::vector<plan::Problem> out;
  const auto names = schedule_names();
  const auto left = s.total_steps - s.warmup_steps;  // steps after the warm-up
  if (std::find(names.begin(), names.end(), s.schedule) == names.end())
    out.push_back({base::text("$lr-schedule {} is not known; use one of {}", s.schedule, fmt::join(names, ", ")),
                   base::value_hint(s.schedule, names)});
  if (!(s.peak > 0) || !std::isfinite(s.peak))
    out.push_back(
        {base::text("$learning-rate {} must be a positive number", s.peak), base::text("$learning-rate 1e-3")});
  if (!(s.final >= 0 && s.final <= s.peak))
    out.push_back(
        {base::text("$final-learning-rate {} must lie between 0 and $learning-rate {}", s.final, s.peak),
         s.peak > 0 ? base::text("$final-learning-rate {:.3g}, or a larger $learning-rate", s.peak / 10) : ""});
  if (s.warmup_steps < 0 || s.warmup_steps > s.total_steps)
    out.push_back(
        {base::text("$warmup-steps {0} is more than $steps {1}: give at most {1}", s.warmup_steps, s.total_steps),
         base::text("$warmup-steps {}, or more $steps", s.total_steps / 10)});
  if (s.start != 0 && !(s.start > 0 && s.start <= s.peak))
    out.push_back({base::text("$start-learning-rate {} must lie between 0 and $learning-rate {}", s.start, s.peak),
                   base::text("leave $start-learning-rate out, or a larger $learning-rate")});
  else if (s.start > 0 && s.warmup_steps == 0)
    out.push_back({base::text("$start-learning-rate {} means nothing without $warmup-steps", s.start),
                   base::text("add $warmup-steps, or leave $start-learning-rate out")});
  if ((s.schedule == "linear" || s.schedule == "cosine") && s.final > 0 && s.warmup_steps == s.total_steps)
    out.push_back({base::text("$final-learning-rate {} is never reached: $warmup-steps {} are all $steps", s.final,
                              s.warmup_steps),
                   base::text("fewer $warmup-steps, or more $steps")});
  if (decays_at_the_end(s.schedule) && (s.decay_steps < 1 || s.decay_steps > left))
    out.push_back(
        {base::text("$lr-schedule {} needs $decay-steps between 1 and $steps minus $warmup-steps ({}), not {}",
                    s.schedule, left, s.decay_steps),
         left >= 1 ? base::text("$decay-steps {}", std::max<std::int64_t>(1, left / 10))
                   : base::text("fewer $warmup-steps, or more $steps")});
  if (s.schedule == "wsd-exponential" && !(s.final > 0))
    out.push_back({base::text("$lr-schedule wsd-exponential needs a $final-learning-rate above 0"),
                   base::text("$final-learning-rate {:.3g}, or $lr-schedule wsd", s.peak / 10)});
  if ((s.schedule == "linear" || s.schedule == "cosine") && s.decay_steps > 0 && s.final == 0 &&
      s.warmup_steps + s.decay_steps < s.total_steps)
    out.push_back(
        {base::text("$decay-steps {} ends before $steps {}, and the steps after it would have a learning rate of 0",
                    s.decay_steps, s.total_steps),
         base::text("a $final-learning-rate above 0, $decay-steps {}, or fewer $steps", left)});
  if (s.schedule == "constant" || s.schedule == "inverse-sqrt") {
    const auto unused = [&](const std::string& flag, auto value) {
      out.push_back({base::text("{} {} means nothing to $lr-schedule {}", flag, value, s.schedule),
                     base::text("leave {} out, or $lr-schedule cosine", flag)});
    };
    if (s.final > 0) unused(base::setting_name("final-learning-rate"), s.final);
    if (s.decay_steps > 0) unused(base::setting_name("decay-steps"), s.decay_steps);
  }
  return out;
}

}  // namespace trainyard::engine
