// TOML files bounded in size and depth before the library's recursive parser and destructors see them.
#pragma once

#include <toml++/toml.h>

#include <string>
#include <string_view>

namespace trainyard::base {

inline constexpr int deepest_toml = 32;  // brackets and braces in one another, and parts of one dotted key

// InputError that names `where` and the line. Text that is no TOML may pass: the parser's business.
void require_shallow_toml(std::string_view text, const std::string& where);

// A regular file of at most 1 MiB. InputError that names file and line when it is no TOML or nested too deeply.
toml::table read_toml_file(const std::string& path);

}  // namespace trainyard::base
