// Flags from fields: the command line as the last of the sources of a setting.
#pragma once

#include "libtrain/base/fields.h"

#include <CLI/CLI.hpp>

#include <map>
#include <string>
#include <vector>

namespace trainyard::tools {

// Adds --NAME for every field (grouped, with default and help). The given texts are kept in `given` and applied by apply_flags after file, plan and environment.
class ConfigFlags {
 public:
  ConfigFlags(CLI::App& app, std::vector<base::Field>& fields);
  void apply();   // sets the fields that were given on the command line
  bool given(const std::string& name) const { return texts_.count(name) != 0 && !texts_.at(name).empty(); }

 private:
  std::vector<base::Field>& fields_;
  std::map<std::string, std::string> texts_;
};

}  // namespace trainyard::tools
