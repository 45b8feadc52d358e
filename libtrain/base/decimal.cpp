// Converts digits to a fraction.
#include "libtrain/base/decimal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace trainyard::base {

std::optional<Fraction> decimal_of(std::string_view text) {
  constexpr std::size_t most_digits = 9;
  const auto point = text.find('.');
  const auto whole = text.substr(0, point), part = point == text.npos ? std::string_view() : text.substr(point + 1);
  const auto digits = [](std::string_view t) {
    return std::all_of(t.begin(), t.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  if (whole.empty() || (point != text.npos && part.empty()) || !digits(whole) || !digits(part)) return {};
  if (whole.size() > most_digits || part.size() > most_digits) return {};
  Fraction f{0, 1};
  for (const auto& run : {whole, part})
    for (const char c : run) f.numerator = 10 * f.numerator + (c - '0');
  for (std::size_t i = 0; i < part.size(); ++i) f.denominator *= 10;
  if (f.numerator == 0) return {};
  const auto common = std::gcd(f.numerator, f.denominator);
  return Fraction{f.numerator / common, f.denominator / common};
}

Fraction fraction_of(double value) {
  if (const auto exact = decimal_of(fmt::format("{}", value))) return *exact;
  constexpr std::int64_t parts = 1'000'000'000;
  const auto numerator = std::max<std::int64_t>(1, std::llround(value * static_cast<double>(parts)));
  const auto common = std::gcd(numerator, parts);
  return {numerator / common, parts / common};
}

std::string shortest_decimal(std::string_view text) {
  while (text.size() > 1 && text[0] == '0' && text[1] != '.') text.remove_prefix(1);
  if (text.find('.') != std::string_view::npos) {
    while (text.back() == '0') text.remove_suffix(1);
    if (text.back() == '.') text.remove_suffix(1);
  }
  return std::string(text);
}

}  // namespace trainyard::base
