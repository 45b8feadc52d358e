// Texts that come from outside (names of files, words of a command line, strings of a file) made fit for a terminal and
// for JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainyard::base {

// The text as it may be shown on a terminal: what a terminal would obey (control characters but for newline and tab,
// the C1 controls, marks that turn the direction of writing) and bytes that are not UTF-8 become \x1b, \xff, \u202e.
// All else stays.
std::string printable(std::string_view text);
// The same for a name inside a sentence or a table: newline and tab, too, become \n and \t.
std::string one_line(std::string_view text);

// What stands between commas, without the spaces around it; an empty text is one empty part.
std::vector<std::string> comma_separated(std::string_view text);

bool is_utf8(std::string_view bytes);

// A path is any bytes, JSON is UTF-8. A path that is UTF-8 stays as it is; another one becomes "percent:" and its
// bytes, those outside printable ASCII and '%' itself as %FF. path_of_text gives back the very bytes.
std::string text_of_path(std::string_view path);
std::string path_of_text(std::string_view text);

}  // namespace trainyard::base
