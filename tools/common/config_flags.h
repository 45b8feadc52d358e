// Flags from settings fields: the command line is the last source of a setting.
#pragma once

#include "libtrain/base/fields.h"

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trainyard::tools {

// Adds --NAME for every field (grouped, with default and help) and its aliases. The field's former name works too but
// is not in --help. A toggle without a value is on. The texts are kept until apply(), which follows file and
// environment.
class ConfigFlags {
 public:
  ConfigFlags(CLI::App& app, std::vector<base::Field>& fields);
  void apply();  // sets the fields given on the command line; one UsageError for all illegal values
  bool given(const std::string& name) const;
  // Messages about settings that were given more than once with different values, and about old spellings. Scripts
  // append flags when they start a program; the last one counts.
  std::vector<std::string> overridden() const;

 private:
  bool is_given(std::size_t i) const;
  std::optional<std::string> joined(std::size_t i) const;  // several values as one, where the field joins them
  std::vector<base::Field>& fields_;
  std::vector<std::string> texts_, former_texts_;  // one for each field
  std::vector<CLI::Option*> options_, former_;     // former_: null where a field has no former name
};

// Adds an old spelling of a flag, which --help leaves out.
CLI::Option* former_flag(CLI::App& app, const std::string& name, std::string& text);

}  // namespace trainyard::tools
