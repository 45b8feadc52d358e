// One style for all labels of an axis, chosen by the largest and the smallest value.
#include "tools/common/axis_text.h"

#include "libtrain/base/number_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace trainyard::tools {

namespace {

enum class Style { digits, letters, powers };  // 20,000; 20k; 2e+04

int power_of(double v) { return static_cast<int>(std::floor(std::log10(std::abs(v)) + 1e-9)); }

// Returns whether a value is 0 except for rounding errors of additions.
bool is_zero(double v, double step) { return v == 0 || std::abs(v) < step * 1e-6; }

Style style_of(const std::vector<double>& values, double step) {
  double low = INFINITY, high = 0;
  bool thousands = true;  // all values are multiples of 1000
  for (const double v : values) {
    if (is_zero(v, step)) continue;
    low = std::min(low, std::abs(v)), high = std::max(high, std::abs(v));
    thousands &= std::fmod(std::abs(v), 1000) == 0;
  }
  if (high == 0) return Style::digits;
  if (high >= 1e15 || low < 1e-4) return Style::powers;
  return high >= 1e4 && (step == 0 || thousands) ? Style::letters : Style::digits;
}

double three_digits(double v) {
  const double unit = std::pow(10, power_of(v) - 2);
  return unit >= 1 ? std::round(v / unit) * unit : v;
}

std::string power_text(double v, double step) {
  if (step > 0) return fmt::format("{:.{}e}", v, std::clamp(power_of(v) - power_of(step), 0, 15));
  auto text = fmt::format("{:.2e}", v);
  const auto e = text.find('e');
  auto end = text.find_last_not_of('0', e - 1);
  if (text[end] == '.') --end;
  return text.substr(0, end + 1) + text.substr(e);
}

std::string text_of(double v, double step, Style style) {
  if (is_zero(v, step)) return "0";
  if (style == Style::powers) return power_text(v, step);
  if (step == 0) v = three_digits(v);
  if (style == Style::letters)
    for (const auto& [unit, letter] : {std::pair{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}})
      if (std::abs(v) >= unit) return fmt::format("{:.10g}{}", v / unit, letter);
  if (step == 0) return std::abs(v) >= 1000 ? base::count_text(std::llround(v)) : fmt::format("{:.3g}", v);
  const int decimals = std::clamp(-power_of(step), 0, 9);
  return decimals == 0 ? base::count_text(std::llround(v)) : fmt::format("{:.{}f}", v, decimals);
}

}  // namespace

std::vector<std::string> axis_labels(const std::vector<double>& values, double step) {
  const auto style = style_of(values, step);
  std::vector<std::string> out;
  for (const double v : values) out.push_back(text_of(v, step, style));
  return out;
}

}  // namespace trainyard::tools
