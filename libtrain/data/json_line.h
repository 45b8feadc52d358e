// Lines of JSON as other programs write and read them, beyond RFC 8259: numbers of any size, NaN and Infinity (Python's
// json, JavaScript's JSON5), and \u escapes of half a surrogate pair.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace trainyard::data {

// Parts of the line, as they stand there: the key with its quotation marks, the value whatever it is.
struct JsonMember {
  std::string_view key, value;
};

// The members of the object that the line holds, in order; nothing where it holds no object, anything beside it, or
// what is no JSON even so. Values may be nested to any depth. The line is UTF-8.
std::optional<std::vector<JsonMember>> members_of(std::string_view line);

}  // namespace trainyard::data
