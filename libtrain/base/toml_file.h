// TOML files whose size and depth are bounded before the library's recursive parser and destructors see them.
#pragma once

#include <toml++/toml.h>

#include <string>
#include <string_view>

namespace trainyard::base {

inline constexpr int deepest_toml = 32;  // nested brackets and braces, and parts of one dotted key

// Throws InputError, with `where` and the line, for text that is nested too deeply. Text that is no TOML may pass; the
// parser refuses it.
void require_shallow_toml(std::string_view text, const std::string& where);

// Reads a TOML file of at most 1 MiB. InputError names file and line when it is no TOML or is nested too deeply. For
// JSON it says what the file seems to be (base/advice.h).
toml::table read_toml_file(const std::string& path);
// The same for the text of a file, which messages call `path`.
toml::table toml_of_text(const std::string& text, const std::string& path);

}  // namespace trainyard::base
