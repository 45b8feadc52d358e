// What is no UTF-8 text, known by its first bytes: other encodings, archives, binary formats.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::data {

struct ForeignContent {
  std::string what;  // "UTF-16 text", "a tar archive"
  std::string way;   // what to do: a command, in which FILE stands for the input
};

inline constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";  // of UTF-8

inline constexpr std::size_t foreign_head = std::size_t{1} << 16;

// Looks at the first bytes of an input, `foreign_head` of them where it has so many. Of JSON lines also what is JSON,
// but no object a line. Nothing: it may be what it should be.
std::optional<ForeignContent> foreign_content(std::string_view head, bool json_lines);

struct JsonLines {
  std::vector<std::string> text_keys;  // of the first line: those whose value is text, as they are written
};

// Is plain text JSON lines under another name? Every line that ends in `head` (`whole`: there is no more than that)
// holds an object, but for blank ones; of a single line also only where it has the key. A first line that goes on
// behind the head counts where it begins as an object with a key does.
std::optional<JsonLines> json_lines_in(std::string_view head, bool whole, std::string_view key);

}  // namespace trainyard::data
