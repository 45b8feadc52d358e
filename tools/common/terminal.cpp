// Asks the locale and the terminal driver.
#include "tools/common/terminal.h"

#include <algorithm>
#include <clocale>
#include <cstdlib>
#include <langinfo.h>
#include <string>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>

namespace trainyard::tools {

Glyphs glyphs_of_terminal() {
  const std::string before = std::setlocale(LC_CTYPE, nullptr);
  std::setlocale(LC_CTYPE, "");
  const bool utf8 = std::string_view(::nl_langinfo(CODESET)) == "UTF-8";
  std::setlocale(LC_CTYPE, before.c_str());
  return utf8 ? Glyphs::unicode : Glyphs::ascii;
}

int terminal_columns() {
  winsize size{};
  int columns = 0;
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) columns = size.ws_col;
  if (columns == 0)
    if (const char* given = std::getenv("COLUMNS")) columns = std::atoi(given);
  return std::clamp(columns == 0 ? 80 : columns, 40, 160);
}

Window terminal_window() {
  winsize size{};
  Window window;
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0)
    window = {size.ws_col, size.ws_row};
  return window;
}

}  // namespace trainyard::tools
