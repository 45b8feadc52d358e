// Rounds numbers for people.
#include "libtrain/base/number_text.h"

#include "libtrain/base/index.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <span>

namespace trainyard::base {

namespace {

constexpr const char* decimal[] = {"", "k", "M", "G", "T", "P", "E"};
constexpr const char* binary[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

// Three digits of a number below 1000: 9.99, 99.9, 999.
std::string three_digits(double x) {
  const double size = std::fabs(x);
  return fmt::format("{:.{}f}", x, size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

// A number divided by the base until three digits show it, and the number of divisions.
struct Scaled {
  double value;
  std::size_t times;
};
Scaled scaled(double x, double base, std::span<const char* const> prefixes) {
  Scaled s{x, 0};
  while (std::fabs(s.value) >= base - 0.5 && s.times + 1 < prefixes.size()) s = {s.value / base, s.times + 1};
  return s;
}

}  // namespace

std::string size_text(std::int64_t bytes) {
  if (bytes > -1000 && bytes < 1000) return fmt::format("{} B", bytes);
  const auto s = scaled(static_cast<double>(bytes), 1000, decimal);
  return fmt::format("{} {}B", three_digits(s.value), decimal[s.times]);
}

std::string size_text(std::int64_t bytes, Sizes sizes) {
  return sizes == Sizes::exact ? std::to_string(bytes) : size_text(bytes);
}

std::string size_difference_text(std::int64_t bytes, Sizes sizes) {
  if (bytes == 0 || sizes == Sizes::exact) return std::to_string(bytes);
  return fmt::format("{}{}", bytes > 0 ? "+" : "", size_text(bytes));
}

std::string binary_size_text(std::int64_t bytes) {
  const auto s = scaled(static_cast<double>(bytes), 1024, binary);
  return s.value == std::floor(s.value)
             ? fmt::format("{:.0f} {}", s.value, binary[s.times])
             : fmt::format("{:.{}f} {}", s.value, std::fabs(s.value) < 99.95 ? 1 : 0, binary[s.times]);
}

std::string rate_text(double per_second, const std::string& unit) {
  if (!std::isfinite(per_second)) return fmt::format("{} {}", per_second, unit);
  const auto s = scaled(per_second, 1000, decimal);
  return fmt::format("{} {}{}", three_digits(s.value), decimal[s.times], unit);
}

std::string count_rate_text(double per_second, const std::string& unit) {
  if (!(std::fabs(per_second) >= 99.95 && std::fabs(per_second) < 1e15))
    return fmt::format("{:.3g} {}", per_second, unit);
  const double step = std::pow(10.0, std::floor(std::log10(std::fabs(per_second))) - 2);
  return fmt::format("{} {}", count_text(std::llround(std::round(per_second / step) * step)), unit);
}

std::string number_text(double value) { return std::isnan(value) ? "nan" : fmt::format("{:.4g}", value); }

std::string count_text(std::int64_t count) {
  auto digits = std::to_string(count);
  const std::ptrdiff_t first = count < 0 ? 1 : 0;
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > first; at -= 3) digits.insert(size(at), 1, ',');
  return digits;
}

std::string counted(std::int64_t count, const std::string& one) {
  return count_text(count) + " " + one + (count == 1 ? "" : "s");
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e15) return "?";
  if (seconds == 0) return "0 s";
  if (seconds < 0.9995e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 0.9995) return fmt::format("{:.3g} ms", seconds * 1e3);
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const auto s = static_cast<std::int64_t>(seconds + 0.5);
  if (s < 60) return fmt::format("{} s", s);
  const auto two = [](std::int64_t many, const char* large, std::int64_t few, const char* small) {
    return few == 0 ? fmt::format("{} {}", many, large) : fmt::format("{} {} {} {}", many, large, few, small);
  };
  if (s < 3600) return two(s / 60, "min", s % 60, "s");
  if (s < 100 * 3600) return two(s / 3600, "h", s % 3600 / 60, "min");
  return two(s / 86400, "days", s % 86400 / 3600, "h");
}

}  // namespace trainyard::base
