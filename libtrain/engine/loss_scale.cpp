// The text of a rule, and how a scale follows overflows.
#include "libtrain/engine/loss_scale.h"

#include "libtrain/base/error.h"
#include "libtrain/base/parse_number.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace trainyard::engine {

namespace {

constexpr std::int64_t most_count = 1'000'000'000;  // of a window and of overflows

[[noreturn]] void refuse_loss_scale(const std::string& text, const std::string& why) {
  throw base::UsageError(base::text("$loss-scale {}: {}", base::one_line(text), why),
                         base::text("$loss-scale dynamic:65536,2000,2 (first scale, window, hysteresis), static:1024, "
                                    "none, or auto"));
}

std::int64_t whole_number(const std::string& text, const std::string& number) {
  const auto value = base::parsed_number<std::int64_t>(number);
  if (!value) refuse_loss_scale(text, fmt::format("'{}' is not a whole number", base::one_line(number)));
  return *value;
}

double power_of_two(const std::string& text, const std::string& number) {
  const auto value = whole_number(text, number);
  if (value < 1 || value > static_cast<std::int64_t>(most_loss_scale) || (value & (value - 1)) != 0)
    refuse_loss_scale(text, fmt::format("a scale is a power of two from 1 to {}, so that gradients lose no bits by it",
                                        static_cast<std::int64_t>(most_loss_scale)));
  return static_cast<double>(value);
}

std::int64_t count_from_one(const std::string& text, const std::string& number, const char* what) {
  const auto value = whole_number(text, number);
  if (value < 1 || value > most_count)
    refuse_loss_scale(text, fmt::format("{} must be from 1 to {}", what, most_count));
  return value;
}

}  // namespace

LossScaleRule loss_scale_rule(const std::string& text, base::DType dtype) {
  LossScaleRule rule;
  if (text == "none" || (text == "auto" && !base::has_narrow_range(dtype))) return rule;
  rule.kind = LossScaleRule::Kind::dynamic;
  if (text == "auto" || text == "dynamic") return rule;
  const auto colon = text.find(':');
  const auto kind = text.substr(0, colon);
  const auto numbers = base::comma_separated(colon == std::string::npos ? "" : text.substr(colon + 1));
  if (kind == "static") {
    if (numbers.size() != 1 || colon == std::string::npos) refuse_loss_scale(text, "a static scale is one number");
    rule.kind = LossScaleRule::Kind::fixed;
    rule.first = power_of_two(text, numbers[0]);
    return rule;
  }
  if (kind != "dynamic" || colon == std::string::npos)
    refuse_loss_scale(text, "no such rule; a number alone is static:N");
  if (numbers.empty() || numbers.size() > 3)
    refuse_loss_scale(text, "a dynamic scale has one to three numbers: first scale, window, hysteresis");
  rule.first = power_of_two(text, numbers[0]);
  if (numbers.size() > 1) rule.window = count_from_one(text, numbers[1], "the window, in steps,");
  if (numbers.size() > 2) rule.hysteresis = count_from_one(text, numbers[2], "the hysteresis, in overflows,");
  return rule;
}

std::string text_of(const LossScaleRule& rule) {
  const auto first = static_cast<std::int64_t>(rule.first);
  if (rule.kind == LossScaleRule::Kind::none) return "none";
  if (rule.kind == LossScaleRule::Kind::fixed) return fmt::format("static:{}", first);
  return fmt::format("dynamic:{},{},{}", first, rule.window, rule.hysteresis);
}

LossScale::LossScale(const LossScaleRule& rule) : rule_(rule) {
  state_.scale = rule.first;
  state_.hysteresis = rule.hysteresis;
}

double LossScale::token_factor(std::int64_t tokens) const {
  if (!rule_.scales()) return 1;
  int exponent = 0;
  while ((std::int64_t{1} << exponent) < tokens) ++exponent;
  return std::ldexp(state_.scale, -exponent);
}

void LossScale::count_step() {
  state_.skips_in_a_row = 0;
  if (rule_.kind != LossScaleRule::Kind::dynamic || ++state_.clean_steps < rule_.window) return;
  state_.scale = std::min(2 * state_.scale, most_loss_scale);
  state_.clean_steps = 0;
  state_.hysteresis = rule_.hysteresis;
}

bool LossScale::count_overflow() {
  if (!rule_.scales()) return true;
  ++state_.skips_in_a_row;
  if (rule_.kind == LossScaleRule::Kind::fixed) return state_.skips_in_a_row < most_skips_in_a_row;
  state_.clean_steps = 0;
  if (state_.hysteresis > 1) {
    --state_.hysteresis;
    return true;
  }
  if (state_.scale <= least_loss_scale) return false;
  state_.scale /= 2;
  return true;
}

std::optional<checkpoint::StoredLossScale> LossScale::stored() const {
  if (!rule_.scales()) return {};
  return state_;
}

void LossScale::go_on_from(const std::optional<checkpoint::StoredLossScale>& stored) {
  *this = LossScale(rule_);
  if (!stored) return;
  state_.skips_in_a_row = stored->skips_in_a_row;
  if (rule_.kind != LossScaleRule::Kind::dynamic) return;
  state_.scale = stored->scale;
  state_.clean_steps = std::min(stored->clean_steps, rule_.window - 1);
  state_.hysteresis = std::min(stored->hysteresis, rule_.hysteresis);
}

}  // namespace trainyard::engine
