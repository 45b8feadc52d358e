// Lines of JSON as other programs write and read them, beyond RFC 8259: numbers of any size, NaN and Infinity (Python's
// json, JavaScript's JSON5), and \u escapes of half a surrogate pair.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace trainyard::data {

// Parts of the line as written: the key with its quotation marks, and the value of any kind.
struct JsonMember {
  std::string_view key, value;
};

// The members of the object on the line, in order. Nothing where the line holds no object, holds more than the object,
// or is no JSON even by these rules. Values may be nested to any depth. The line must be UTF-8.
std::optional<std::vector<JsonMember>> members_of(std::string_view line);
// The values of a list, by the same rules.
std::optional<std::vector<std::string_view>> items_of(std::string_view list);

}  // namespace trainyard::data
