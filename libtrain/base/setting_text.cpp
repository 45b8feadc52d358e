// Finds the names of settings in patterns.
#include "libtrain/base/setting_text.h"

#include <algorithm>
#include <atomic>

namespace trainyard::base {

namespace {

constinit std::atomic<SettingSpelling> spelling_of_program = nullptr;

constexpr char name_follows = '$';
constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz", more = "abcdefghijklmnopqrstuvwxyz0123456789-";

// A spelling becomes a part of a pattern, where braces have a meaning.
std::string with_doubled_braces(const std::string& spelled) {
  std::string out;
  for (const char c : spelled) out.append(c == '{' || c == '}' ? 2 : 1, c);
  return out;
}

// The end of the name that begins at `at`; `at` if none does.
std::size_t end_of_name(std::string_view pattern, std::size_t at) {
  if (at >= pattern.size() || letters.find(pattern[at]) == letters.npos) return at;
  auto end = std::min(pattern.find_first_not_of(more, at), pattern.size());
  while (pattern[end - 1] == '-') --end;
  return end;
}

std::string with_names(std::string_view pattern) {
  std::string out;
  for (std::size_t i = 0; i < pattern.size();) {
    const auto end = pattern[i] == name_follows ? end_of_name(pattern, i + 1) : 0;
    if (end <= i + 1) {
      out += pattern[i++];
      continue;
    }
    out += with_doubled_braces(setting_name(pattern.substr(i + 1, end - i - 1)));
    i = end;
  }
  return out;
}

}  // namespace

SettingSpelling spell_settings(SettingSpelling spelling) { return spelling_of_program.exchange(spelling); }

std::string setting_name(std::string_view name) {
  const auto spelling = spelling_of_program.load();
  return spelling == nullptr ? std::string(name) : spelling(name);
}

std::string formatted_text(fmt::string_view pattern, fmt::format_args values) {
  const std::string_view given(pattern.data(), pattern.size());
  return given.find(name_follows) == given.npos ? fmt::vformat(pattern, values)
                                                : fmt::vformat(with_names(given), values);
}

}  // namespace trainyard::base
