// The terminal behind stdout: how wide it is and what it can show.
#pragma once

namespace trainyard::tools {

enum class Glyphs { unicode, ascii };
// Chosen by the locale of the environment (LC_ALL, LC_CTYPE, LANG).
Glyphs glyphs_of_terminal();
// The columns of the terminal, else COLUMNS, else 80; between 40 and 160.
int terminal_columns();
// The current window behind stdout; 80 x 24 if unknown.
struct Window {
  int columns = 80, rows = 24;
};
Window terminal_window();

}  // namespace trainyard::tools
