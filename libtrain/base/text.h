// Makes text from outside (file names, command lines, strings in files) fit for a terminal and for JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainyard::base {

// The text as it may be shown on a terminal. Characters that a terminal would obey are escaped as \x1b or \u202e:
// control characters except newline and tab, the C1 controls, and marks that change the writing direction. Bytes that
// are not UTF-8 become \xff. Everything else stays.
std::string printable(std::string_view text);
// The same for a name inside a sentence or a table: newline and tab become \n and \t too.
std::string one_line(std::string_view text);

// The parts between commas, without the spaces around them. An empty text gives one empty part.
std::vector<std::string> comma_separated(std::string_view text);

// The words as a sentence lists them: "a, b and c", where `last` is "and".
std::string listed(const std::vector<std::string>& words, std::string_view last);

bool is_utf8(std::string_view bytes);

// Converts between a path, which is any bytes, and JSON text, which is UTF-8. A path that is UTF-8 stays as it is.
// Another path becomes "percent:" and its bytes, where '%' and bytes outside printable ASCII are written as %FF.
// path_of_text restores the exact bytes.
std::string text_of_path(std::string_view path);
std::string path_of_text(std::string_view text);

}  // namespace trainyard::base
