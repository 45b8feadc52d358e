// The flags of a program as a page: one source for --help, man pages, completions and the pages of
// tools/guide/reference.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace trainyard::tools {

// The names of an option that are shown: the first one and short ones. Earlier spellings work, but are left out.
std::vector<std::string> shown_names(const CLI::Option& option);

// An option as help, pages and completions show it. `names` are its names. `value` is what it takes: N a whole number,
// X a number, empty for a switch. `text` is its description, with the range and, in brackets, the default.
struct OptionEntry {
  std::string names, value, text;
};
OptionEntry entry_of(const CLI::Option& option);

// `format` is markdown (a page), man (troff, for man(1)) or bash (a completion for bash(1)). UsageError for any other.
std::string reference_of(const CLI::App& app, const std::string& format);

}  // namespace trainyard::tools
