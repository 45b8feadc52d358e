// Decimal: a decimal number as an exact fraction, where a binary floating-point number would be another number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trainyard::base {

// numerator / denominator in lowest terms, both positive.
struct Fraction {
  std::int64_t numerator = 1, denominator = 1;
  bool operator==(const Fraction&) const = default;
};

// The fraction of a decimal text: "1.25" is 5/4. The text has digits with at most one point, at most nine digits before
// the point and nine after it, and is above 0. Any other text gives nothing.
std::optional<Fraction> decimal_of(std::string_view text);
// The fraction whose decimal text has at most nine digits after the point and is the shortest that reads as `value`: of
// 0.29 it is 29/100. The nearest such fraction for numbers without one. `value` must be above 0 and at most 1e9.
Fraction fraction_of(double value);
// The shortest text of the same number: "1.250" is "1.25", "01.0" is "1". `text` must be one that decimal_of accepts.
std::string shortest_decimal(std::string_view text);

}  // namespace trainyard::base
