// The text of a rule, medians, and how the window moves.
#include "libtrain/engine/outlier_steps.h"

#include "libtrain/base/error.h"
#include "libtrain/base/parse_number.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/statistics.h"
#include "libtrain/base/text.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::engine {

namespace {

constexpr double most_factor = 1e6;
constexpr std::int64_t shortest_window = 2;

[[noreturn]] void refuse_outliers(const std::string& text, const std::string& why) {
  throw base::UsageError(base::text("$skip-outliers {}: {}", base::one_line(text), why),
                         base::text("$skip-outliers norm:10,loss:2,window:128 (factors of the medians of the gradient "
                                    "norm and of the loss over the last 128 steps), or none"));
}

template <class Number> Number outlier_number(const std::string& text, const std::string& digits, const char* kind) {
  const auto value = base::parsed_number<Number>(digits);
  if (!value) refuse_outliers(text, fmt::format("'{}' is not a {}", base::one_line(digits), kind));
  return *value;
}

double factor_in(const std::string& text, const std::string& digits) {
  const auto value = outlier_number<double>(text, digits, "number");
  if (!(value > 1 && value <= most_factor))
    refuse_outliers(text, fmt::format("a factor is above 1 and at most {}", most_factor));
  return value;
}

std::int64_t window_in(const std::string& text, const std::string& digits) {
  const auto value = outlier_number<std::int64_t>(text, digits, "whole number");
  if (value < shortest_window || value > checkpoint::longest_outlier_window)
    refuse_outliers(text,
                    fmt::format("a window has {} to {} steps", shortest_window, checkpoint::longest_outlier_window));
  return value;
}

// The limit for values in a full window; 0: none.
double limit_above_median(double factor, const std::vector<double>& values) {
  return factor > 0 ? std::max(0.0, factor * base::median(values)) : 0;
}

}  // namespace

OutlierRule outlier_rule(const std::string& text) {
  OutlierRule rule;
  if (text == "none") return rule;
  std::vector<std::string> seen;
  for (const auto& part : base::comma_separated(text)) {
    const auto colon = part.find(':');
    const auto name = part.substr(0, colon), digits = colon == std::string::npos ? "" : part.substr(colon + 1);
    if (name != "norm" && name != "loss" && name != "window")
      refuse_outliers(text,
                      fmt::format("'{}' is none of norm:FACTOR, loss:FACTOR and window:STEPS", base::one_line(part)));
    if (std::find(seen.begin(), seen.end(), name) != seen.end())
      refuse_outliers(text, fmt::format("{} is there twice", name));
    seen.push_back(name);
    if (name == "norm") rule.norm = factor_in(text, digits);
    if (name == "loss") rule.loss = factor_in(text, digits);
    if (name == "window") rule.window = window_in(text, digits);
  }
  if (!rule.skips()) refuse_outliers(text, "a window needs norm:FACTOR, loss:FACTOR, or both");
  return rule;
}

std::string text_of(const OutlierRule& rule) {
  if (!rule.skips()) return "none";
  return fmt::format("{}{}window:{}", rule.norm > 0 ? fmt::format("norm:{},", rule.norm) : "",
                     rule.loss > 0 ? fmt::format("loss:{},", rule.loss) : "", rule.window);
}

OutlierLimits OutlierSteps::limits() const {
  if (!rule_.skips() || !is_full()) return {};
  return {limit_above_median(rule_.norm, state_.gradient_norms), limit_above_median(rule_.loss, state_.losses)};
}

std::optional<Outlier> OutlierSteps::look(double gradient_norm, double loss) const {
  const auto most = limits();
  const auto outlier = [&](bool is_loss, double value, double factor, const std::vector<double>& values) {
    return Outlier{is_loss, value, base::median(values), factor, rule_.window};
  };
  if (most.most_norm > 0 && gradient_norm > most.most_norm)
    return outlier(false, gradient_norm, rule_.norm, state_.gradient_norms);
  if (most.most_loss > 0 && loss > most.most_loss) return outlier(true, loss, rule_.loss, state_.losses);
  return {};
}

void OutlierSteps::count_step(double gradient_norm, double loss) {
  if (!rule_.skips()) return;
  state_.skips_in_a_row = 0;
  state_.gradient_norms.push_back(gradient_norm);
  state_.losses.push_back(loss);
  keep_newest();
}

bool OutlierSteps::count_outlier() { return ++state_.skips_in_a_row < rule_.window; }

std::optional<checkpoint::StoredOutlierWindow> OutlierSteps::stored() const {
  if (!rule_.skips()) return {};
  return state_;
}

void OutlierSteps::go_on_from(const std::optional<checkpoint::StoredOutlierWindow>& stored) {
  state_ = rule_.skips() && stored ? *stored : checkpoint::StoredOutlierWindow();
  keep_newest();
}

void OutlierSteps::keep_newest() {
  for (auto* values : {&state_.gradient_norms, &state_.losses})
    if (std::ssize(*values) > rule_.window) values->erase(values->begin(), values->end() - rule_.window);
}

}  // namespace trainyard::engine
