// Content that is no UTF-8 text, recognized by its first bytes: other encodings, archives, binary formats.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::data {

struct ForeignContent {
  std::string what;  // "UTF-16 text", "a tar archive"
  std::string way;   // what to do: a command, in which FILE means the input
};

inline constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";  // the mark of UTF-8

inline constexpr std::size_t foreign_head = std::size_t{1} << 16;

// Examines the first bytes of an input: `foreign_head` bytes, or all if the input is shorter. For JSON lines it also
// recognizes JSON that is not one object a line. Returns nothing where the content may be right.
std::optional<ForeignContent> foreign_content(std::string_view head, bool json_lines);

struct JsonLines {
  std::vector<std::string> text_keys;  // keys of the first line whose value is text, as written there
};

// Whether plain text is JSON lines under another name. It is if every line that ends in `head` is blank or holds an
// object; `whole` means that `head` is the whole input. A single line counts only if it has the key. If the first line
// continues after the head, its beginning counts if it is an object with a key.
std::optional<JsonLines> json_lines_in(std::string_view head, bool whole, std::string_view key);

}  // namespace trainyard::data
