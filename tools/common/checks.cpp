// Validators for CLI11; its own validators accept NaN and read 010 as eight.
#include "tools/common/checks.h"

#include "libtrain/base/nearest.h"
#include "libtrain/plan/parallel_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <type_traits>

namespace trainyard::tools {

namespace {

template <class T> CLI::Validator number_in(base::Range<T> range, const std::string& shown) {
  return CLI::Validator(
      [range](std::string& text) {
        T value{};
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (end != text.data() + text.size() || error == std::errc::invalid_argument)
          return fmt::format("'{}' is not a {}", text, std::is_floating_point_v<T> ? "number" : "whole number");
        if (error != std::errc() || !range.holds(value))
          return fmt::format("{} must lie between {} and {}", text, range.low, range.high);
        text = fmt::format("{}", value);  // CLI11 converts the value that was checked
        return std::string();
      },
      shown);
}

// The range as text for --help; empty if it is so wide that it only excludes absurd values.
template <class T> std::string words(base::Range<T> range) {
  return range.high <= T{4096} ? fmt::format("{} to {}", range.low, range.high) : std::string();
}

}  // namespace

CLI::Validator in_range(base::Range<std::int64_t> range) { return number_in(range, words(range)); }
CLI::Validator in_range(base::Range<int> range) { return number_in(range, words(range)); }
CLI::Validator in_range(base::Range<double> range) { return number_in(range, words(range)); }
CLI::Validator any_seed() {
  return number_in(base::Range<std::uint64_t>{0, std::numeric_limits<std::uint64_t>::max()}, "");
}

CLI::Validator one_of(const std::vector<std::string>& legal) {
  return CLI::Validator(
      [legal](std::string& text) {
        if (std::find(legal.begin(), legal.end(), text) != legal.end()) return std::string();
        const auto hint = base::value_hint(text, legal);
        return fmt::format("{} is not known; use {}{}", text, fmt::join(legal, ", "), hint.empty() ? "" : "; " + hint);
      },
      "");
}

CLI::Validator one_of_dtypes(const std::vector<std::string>& names) {
  return CLI::Validator(
      [known = one_of(names)](std::string& text) {
        if (const auto ours = plan::dtype_spellings(); ours.contains(text)) text = ours.at(text);
        return known(text);
      },
      "");
}

}  // namespace trainyard::tools
