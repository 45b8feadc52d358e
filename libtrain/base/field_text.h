// Parts of texts that both fields.cpp and fields_toml.cpp need.
#pragma once

#include "libtrain/base/fields.h"

#include <string>

namespace trainyard::base {

// Text of unknown origin, shortened to what fits in a sentence.
std::string shortened_value(const std::string& text);
std::string hyphenated(std::string name);

// What Field::legal says of fields that TOML may write as a list: words, or blocks and ranges of blocks.
inline constexpr const char* some_of = "some of ";
inline constexpr const char* maybe_list = "a list, or nothing";

}  // namespace trainyard::base
