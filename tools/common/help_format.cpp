// Breaks the lines of --help between words.
#include "tools/common/help_format.h"

#include "tools/common/reference.h"

#include <fmt/format.h>

#include <sstream>
#include <string_view>

namespace trainyard::tools {

namespace {

constexpr std::size_t columns = 80, description_column = 30;

// Breaks `line` at spaces behind the indent. `ending` closes each line but the last; if it is not empty, spaces inside
// single quotes do not count. A word that is longer than a line stays whole.
std::string folded(std::string line, const std::string& indent, std::string_view ending) {
  std::string out;
  while (line.size() > columns) {
    std::size_t space = 0;
    bool quoted = false;
    for (std::size_t i = 0; i + ending.size() <= columns; ++i) {
      quoted ^= line[i] == '\'' && !ending.empty();  // prose has apostrophes, commands have quotes
      if (line[i] == ' ' && i > indent.size() && !quoted) space = i;
    }
    if (space == 0) break;
    out.append(line, 0, space).append(ending).append("\n");
    line = indent + line.substr(space + 1);
  }
  return out + line + "\n";
}

}  // namespace

HelpFormat::HelpFormat() { column_width(description_column); }

std::string HelpFormat::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  auto text = CLI::Formatter::make_help(app, std::move(name), mode);
  for (std::size_t at = 0; (at = text.find("\n\n\n", at)) != std::string::npos;) text.erase(at, 1);
  return text;
}

std::string HelpFormat::make_description(const CLI::App* app) const { return folded(app->get_description(), "", ""); }

std::string HelpFormat::make_option(const CLI::Option* option, bool) const {
  const std::string indent(description_column, ' ');
  const auto entry = entry_of(*option);
  auto name = fmt::format("  {}{}{}", entry.names, entry.value.empty() ? "" : " ", entry.value);
  if (name.size() + 2 > indent.size()) return name + "\n" + folded(indent + entry.text, indent, "");
  name.resize(indent.size(), ' ');
  return folded(name + entry.text, indent, "");
}

std::string HelpFormat::make_footer(const CLI::App* app) const {
  std::istringstream lines(app->get_footer());
  std::string out;
  for (std::string line; std::getline(lines, line);)
    out += line.starts_with("  ") ? folded(line, "      ", " \\") : folded(line, "  ", "");
  return out;
}

}  // namespace trainyard::tools
