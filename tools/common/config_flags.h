// Flags from fields: the command line as the last of the sources of a setting.
#pragma once

#include "libtrain/base/fields.h"

#include <CLI/CLI.hpp>

#include <string>
#include <utility>
#include <vector>

namespace trainyard::tools {

// Adds --NAME for every field (grouped, with default and help), its aliases, and, left out of --help, the name that it
// had in earlier versions. A toggle without a value is on. The texts are kept and
// applied by apply(), after file and environment.
class ConfigFlags {
 public:
  ConfigFlags(CLI::App& app, std::vector<base::Field>& fields);
  void apply();  // sets the fields that were given on the command line; UsageError for all that are not legal
  bool given(const std::string& name) const;
  // What is to be said of settings that were given more than once with different values (a script that starts a program
  // may append to its flags, and the last counts), and of old spellings.
  std::vector<std::string> overridden() const;

 private:
  bool is_given(std::size_t i) const;
  std::vector<base::Field>& fields_;
  std::vector<std::string> texts_, former_texts_;  // one for each field
  std::vector<CLI::Option*> options_, former_;     // null where a field has no former name
};

// An old spelling of a flag, which --help leaves out.
CLI::Option* former_flag(CLI::App& app, const std::string& name, std::string& text);

}  // namespace trainyard::tools
