// Texts that name settings, which every program spells as its users write them: "$steps 0" is "--steps 0" in train.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace trainyard::base {

// The spelling of a setting: "micro-batch" as "--micro-batch".
using SettingSpelling = std::string (*)(std::string_view name);

// Decides how messages name settings, and returns the former spelling. A program calls it once, before anything else of
// the library. Without a spelling, and with nullptr, a setting has its bare name. Thread-safe; texts that exist already
// stay as they are.
SettingSpelling spell_settings(SettingSpelling spelling);

// The setting's name as the program spells it.
std::string setting_name(std::string_view name);

// fmt::format with the spelled name for each $name in `pattern`, such as $micro-batch. Values stay as they are, even if
// they have such a word in them. A name is lower-case letters, digits and hyphens, and begins with a letter.
// Only patterns of text() and of the log may have names in them: tests/structure/setting_names_test.cpp.
std::string formatted_text(fmt::string_view pattern, fmt::format_args values);
template <class... A> std::string text(fmt::format_string<A...> pattern, A&&... values) {
  return formatted_text(pattern, fmt::make_format_args(values...));
}

}  // namespace trainyard::base
