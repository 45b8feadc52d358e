// The terminal behind stdout: how wide it is and what it can show.
#pragma once

namespace trainyard::tools {

enum class Glyphs { unicode, ascii };
// By the locale of the environment (LC_ALL, LC_CTYPE, LANG).
Glyphs glyphs_of_terminal();
// Columns of the terminal, COLUMNS, or 80; between 40 and 160.
int terminal_columns();
// The window behind stdout as it is now; 80 x 24 where it does not say.
struct Window {
  int columns = 80, rows = 24;
};
Window terminal_window();

}  // namespace trainyard::tools
