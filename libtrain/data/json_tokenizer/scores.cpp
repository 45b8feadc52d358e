// Finds the numbers' texts with simdjson, because the tree of the other JSON library has doubles.
#include "libtrain/data/json_tokenizer/scores.h"

#include "libtrain/base/error.h"

#include <simdjson.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <limits>

namespace trainyard::data::json_tokenizer {

namespace {

constexpr int largest_power = 308;

double power_of_ten(int exponent) {
  static const auto powers = [] {
    std::array<double, largest_power + 1> out{};
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = std::strtod(("1e" + std::to_string(i)).c_str(), nullptr);
    return out;
  }();
  return powers[static_cast<std::size_t>(exponent)];
}

double scaled(double value, std::int64_t exponent) {
  for (; exponent < -largest_power && value != 0; exponent += largest_power) value /= 1e308;
  if (value == 0 || exponent < -largest_power) return 0;
  if (exponent > largest_power) return std::numeric_limits<double>::infinity();
  return exponent >= 0 ? value * power_of_ten(static_cast<int>(exponent))
                       : value / power_of_ten(static_cast<int>(-exponent));
}

bool is_digit_of_number(char c) { return c >= '0' && c <= '9'; }

}  // namespace

double score_of(std::string_view number) {
  const bool negative = number.starts_with('-');
  std::size_t at = negative ? 1 : 0;
  std::uint64_t digits = 0;
  std::int64_t exponent = 0;
  bool full = false;  // no more digits fit
  const auto read = [&](std::int64_t step_taken, std::int64_t step_left) {
    for (; at < number.size() && is_digit_of_number(number[at]); ++at) {
      const auto digit = static_cast<std::uint64_t>(number[at] - '0');
      full |= digits > (std::numeric_limits<std::uint64_t>::max() - digit) / 10;
      if (!full) digits = digits * 10 + digit;
      exponent += full ? step_left : step_taken;
    }
  };
  read(0, 1);
  if (at < number.size() && number[at] == '.') ++at, read(-1, 0);
  if (at < number.size() && (number[at] == 'e' || number[at] == 'E')) {
    constexpr std::int64_t largest = 100'000;
    ++at;
    const bool down = at < number.size() && number[at] == '-';
    if (at < number.size() && (number[at] == '-' || number[at] == '+')) ++at;
    std::int64_t power = 0;
    for (; at < number.size() && is_digit_of_number(number[at]); ++at)
      power = std::min(largest, power * 10 + (number[at] - '0'));
    exponent += down ? -power : power;
  }
  const auto value = scaled(static_cast<double>(digits), exponent);
  return negative ? -value : value;
}

std::vector<double> scores_of(const std::string& json, const std::string& where) {
  std::vector<double> out;
  try {
    simdjson::ondemand::parser parser;
    const simdjson::padded_string padded(json);
    auto document = parser.iterate(padded);
    for (auto entry : document["model"]["vocab"].get_array()) {
      std::size_t place = 0;
      for (auto part : entry.get_array())
        if (++place == 2) out.push_back(score_of(std::string_view(part.raw_json_token())));
    }
  } catch (const simdjson::simdjson_error& e) {
    throw base::InputError(fmt::format("{}: the scores of the vocabulary cannot be read: {}", where, e.what()),
                           "is the file damaged?");
  }
  return out;
}

}  // namespace trainyard::data::json_tokenizer
