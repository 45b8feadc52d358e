// The formulas of the schedules.
#include "libtrain/engine/learning_rate.h"

#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/nearest.h"
#include "libtrain/base/parse_number.h"
#include "libtrain/base/range.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

namespace trainyard::engine {

namespace {

// How far the rate has gone from peak to final, from 0 to 1, in a schedule that decays at its end.
double decayed(const std::string& schedule, double progress) {
  if (schedule == "wsd-cosine") return 0.5 * (1 - std::cos(std::numbers::pi * progress));
  if (schedule == "wsd-minus-sqrt") return std::sqrt(progress);
  return progress;
}

double half_cosine(double progress) { return 0.5 * (1 + std::cos(std::numbers::pi * progress)); }

// How far a cycle has gone, from above 0 to 1, `t` steps after the warm-up.
double progress_of_cycle(double t, double length, double factor) {
  if (factor == 1) {
    const double within = std::fmod(t, length);
    return within == 0 ? 1 : within / length;
  }
  for (; t > length; length *= factor) t -= length;
  return t / length;
}

constexpr const char *polynomial = "polynomial", *one_cycle = "one-cycle", *restarts = "cosine-restarts";
constexpr base::Range<double> powers{0.1, 10};
constexpr base::Range<std::int64_t> cycle_steps{1, 1'000'000'000'000}, cycle_factors{1, 1000};

template <class T> std::optional<T> number_in(base::Range<T> range, const std::string& text) {
  const auto value = base::parsed_number<T>(text);
  return value && range.holds(*value) ? value : std::nullopt;
}

[[noreturn]] void refuse_numbers(const std::string& said, const std::string& needs, const std::string& example) {
  throw base::UsageError(fmt::format("{}: {}", said, needs), base::text("$lr-schedule {}", example));
}

void take_cycles(const std::string& said, const std::string& numbers, LearningRate& s) {
  const auto parts = base::comma_separated(numbers);
  const auto steps = number_in(cycle_steps, parts[0]);
  const auto factor = parts.size() > 1 ? number_in(cycle_factors, parts[1]) : std::optional<std::int64_t>(1);
  if (!steps || !factor || parts.size() > 2)
    refuse_numbers(said,
                   fmt::format("it takes the steps of the first cycle, and by how much each cycle is longer than "
                               "the one before (from {} to {}), as whole numbers",
                               cycle_factors.low, cycle_factors.high),
                   "cosine-restarts:1000,2");
  s.restart_steps = *steps, s.restart_factor = *factor;
}

// linear, cosine and those that share their decay from the end of the warm-up.
bool decays_from_the_warmup(const std::string& schedule) {
  return schedule == "linear" || schedule == "cosine" || schedule == polynomial || schedule == one_cycle;
}

bool decays_at_the_end(const std::string& schedule) { return schedule.rfind("wsd", 0) == 0; }

}  // namespace

std::vector<std::string> schedule_names() {
  return {"constant", "linear",     "cosine",          polynomial,       one_cycle,     restarts,
          "wsd",      "wsd-cosine", "wsd-exponential", "wsd-minus-sqrt", "inverse-sqrt"};
}

LearningRate schedule_of(const std::string& text, const std::string& spelled) {
  const auto colon = text.find(':');
  const bool has_numbers = colon != std::string::npos;
  const auto numbers = has_numbers ? text.substr(colon + 1) : "", said = spelled + " " + base::excerpt(text);
  LearningRate s;
  s.schedule = text.substr(0, colon);
  const auto names = schedule_names();
  if (std::find(names.begin(), names.end(), s.schedule) == names.end())
    throw base::UsageError(
        fmt::format("{} {} is not known; use one of {}", spelled, base::excerpt(s.schedule), fmt::join(names, ", ")),
        base::value_hint(s.schedule, names));
  if (s.schedule == restarts) take_cycles(said, numbers, s);
  else if (s.schedule == polynomial) {
    const auto power = number_in(powers, numbers);
    if (!power)
      refuse_numbers(said, fmt::format("it takes a power from {} to {}", powers.low, powers.high), "polynomial:2");
    s.power = *power;
  } else if (has_numbers) refuse_numbers(said, "this schedule takes no numbers", s.schedule);
  return s;
}

std::string schedule_text(const LearningRate& s) {
  if (s.schedule == restarts) return fmt::format("{}:{},{}", s.schedule, s.restart_steps, s.restart_factor);
  if (s.schedule == polynomial) return fmt::format("{}:{}", s.schedule, s.power);
  return s.schedule;
}

double LearningRate::at(std::int64_t completed) const {
  const auto t = static_cast<double>(std::min(completed + 1, std::max<std::int64_t>(total_steps, 1)));
  const double rate = at_time(t);
  return rate > 0 ? rate : at_time(t - 0.5);
}

double LearningRate::at_time(double t) const {
  const auto warmup = static_cast<double>(warmup_steps), decay = static_cast<double>(decay_steps);
  if (t <= warmup && schedule == one_cycle)
    return warmup == 1 ? peak : peak + (start - peak) * half_cosine((t - 1) / (warmup - 1));
  if (t <= warmup) return start > 0 ? start + (peak - start) * t / warmup : peak * t / warmup;
  if (decays_at_the_end(schedule)) {
    const double left = static_cast<double>(total_steps) - t;
    if (left >= decay) return peak;
    const double rest = left / decay;
    if (schedule == "wsd") return final + (peak - final) * rest;
    if (schedule == "wsd-exponential") return final * std::pow(peak / final, rest);
    return peak + (final - peak) * decayed(schedule, 1 - rest);
  }
  if (schedule == restarts)
    return final + (peak - final) * half_cosine(progress_of_cycle(t - warmup, static_cast<double>(restart_steps),
                                                                  static_cast<double>(restart_factor)));
  const double span = std::max(1.0, decay_steps > 0 ? decay : static_cast<double>(total_steps) - warmup);
  const double progress = std::min(1.0, (t - warmup) / span);
  if (schedule == "linear") return peak + (final - peak) * progress;
  if (schedule == polynomial) return final + (peak - final) * std::pow(1 - progress, power);
  if (schedule == "cosine" || schedule == one_cycle) return final + (peak - final) * half_cosine(progress);
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
  if (decays_from_the_warmup(s.schedule) && s.schedule != one_cycle && s.final > 0 && s.warmup_steps == s.total_steps)
    out.push_back({base::text("$final-learning-rate {} is never reached: $warmup-steps {} are all $steps", s.final,
                              s.warmup_steps),
                   base::text("fewer $warmup-steps, or more $steps")});
  if (decays_at_the_end(s.schedule) && left >= 1 && (s.decay_steps < 1 || s.decay_steps > left))
    out.push_back(
        {base::text("$lr-schedule {} needs $decay-steps between 1 and $steps minus $warmup-steps ({}), not {}",
                    s.schedule, left, s.decay_steps),
         base::text("$decay-steps {}", std::max<std::int64_t>(1, left / 10))});
  if (s.schedule == "wsd-exponential" && !(s.final > 0))
    out.push_back({base::text("$lr-schedule wsd-exponential needs a $final-learning-rate above 0"),
                   base::text("$final-learning-rate {:.3g}, or $lr-schedule wsd", s.peak / 10)});
  if (decays_from_the_warmup(s.schedule) && s.decay_steps > 0 && s.final == 0 &&
      s.warmup_steps + s.decay_steps < s.total_steps)
    out.push_back(
        {base::text("$decay-steps {} ends before $steps {}, and the steps after it would have a learning rate of 0",
                    s.decay_steps, s.total_steps),
         base::text("a $final-learning-rate above 0, $decay-steps {}, or fewer $steps", left)});
  if (s.schedule == one_cycle && (s.warmup_steps == 0 || s.start == 0))
    out.push_back({base::text("$lr-schedule one-cycle needs {}",
                              s.start > 0          ? base::text("$warmup-steps, at whose end the peak is")
                              : s.warmup_steps > 0 ? base::text("a $start-learning-rate")
                                                   : base::text("$warmup-steps and a $start-learning-rate")),
                   base::text("{}{}", s.warmup_steps > 0 ? "" : base::text("$warmup-steps 30% "),
                              s.start > 0 ? "" : base::text("$start-learning-rate 4%"))});
  if ((s.schedule == one_cycle || s.schedule == restarts || decays_at_the_end(s.schedule)) && left == 0)
    out.push_back(
        {base::text("$lr-schedule {}: no steps are left after $warmup-steps {}", schedule_text(s), s.warmup_steps),
         base::text("fewer $warmup-steps, or more $steps")});
  if (s.schedule == restarts && s.restart_steps > left && left >= 1)
    out.push_back(
        {base::text("$lr-schedule {}: the first cycle is longer than the {} steps after $warmup-steps",
                    schedule_text(s), left),
         base::text("$lr-schedule cosine-restarts:{}, or $lr-schedule cosine", std::max<std::int64_t>(1, left / 2))});
  if (s.schedule == "constant" || s.schedule == "inverse-sqrt" || s.schedule == restarts) {
    const auto unused = [&](const std::string& flag, auto value) {
      out.push_back({base::text("{} {} means nothing to $lr-schedule {}", flag, value, s.schedule),
                     base::text("leave {} out, or $lr-schedule cosine", flag)});
    };
    if (s.final > 0 && s.schedule != restarts) unused(base::setting_name("final-learning-rate"), s.final);
    if (s.decay_steps > 0) unused(base::setting_name("decay-steps"), s.decay_steps);
  }
  return out;
}

}  // namespace trainyard::engine
