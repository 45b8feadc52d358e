// The whole of a text as a number.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace trainyard::base {

// Nothing if the text has other characters too, or the number does not fit T. "nan" and "inf" are numbers of a double.
template <class T> std::optional<T> parsed_number(std::string_view text) {
  T value{};
  const auto* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || text.empty()) return {};
  return value;
}

}  // namespace trainyard::base
