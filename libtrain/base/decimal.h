// Decimal: a decimal number as the fraction that it is, where a binary one would be another number.
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

// "1.25" is 5/4. Digits with at most one point, above 0, of at most nine digits before it and nine behind it; nothing
// for any other text.
std::optional<Fraction> decimal_of(std::string_view text);
// The shortest text of the same number: "1.250" is "1.25", "01.0" is "1". Of a text that is one.
std::string shortest_decimal(std::string_view text);

}  // namespace trainyard::base
