// What is no UTF-8 text, known by its first bytes: other encodings, archives, binary formats.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace trainyard::data {

struct ForeignContent {
  std::string what;  // "UTF-16 text", "a tar archive"
  std::string way;   // what to do: a command, in which FILE stands for the input
};

inline constexpr std::size_t foreign_head = std::size_t{1} << 16;

// Looks at the first bytes of an input, `foreign_head` of them where it has so many. Of JSON lines also what is JSON,
// but no object a line. Nothing: it may be what it should be.
std::optional<ForeignContent> foreign_content(std::string_view head, bool json_lines);

}  // namespace trainyard::data
