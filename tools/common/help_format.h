// --help in 80 columns, because CLI11 2.1 does not break lines.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace trainyard::tools {

class HelpFormat : public CLI::Formatter {
 public:
  HelpFormat();
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;  // one blank line between groups
  std::string make_description(const CLI::App* app) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  // A line that begins with two spaces is a command. It is broken with a backslash, so that it runs as written.
  std::string make_footer(const CLI::App* app) const override;
};

}  // namespace trainyard::tools
