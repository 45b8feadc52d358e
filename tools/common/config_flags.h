// Flags from fields: the command line as the last of the sources of a setting.
#pragma once

#include "libtrain/base/fields.h"

#include <CLI/CLI.hpp>

#include <string>
#include <utility>
#include <vector>

namespace trainyard::tools {

// Adds --NAME for every field (grouped, with default and help). A toggle without a value is on. The texts are kept and
// applied by apply(), after file and environment.
class ConfigFlags {
 public:
  ConfigFlags(CLI::App& app, std::vector<base::Field>& fields);
  void apply();  // sets the fields that were given on the command line; UsageError for all that are not legal
  bool given(const std::string& name) const;
  // What is to be said of settings that were given more than once with different values: a script that starts a program
  // may append to its flags, and the last counts.
  std::vector<std::string> overridden() const;

 private:
  std::vector<base::Field>& fields_;
  std::vector<std::string> texts_;  // one for each field
  std::vector<CLI::Option*> options_;
};

}  // namespace trainyard::tools
