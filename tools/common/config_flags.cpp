// The adapter between fields and CLI11.
#include "tools/common/config_flags.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace trainyard::tools {

namespace {

const char* type_of(const base::Field& f) {
  switch (f.kind) {
    case base::FieldKind::integer: return "N";
    case base::FieldKind::number: return "X";
    case base::FieldKind::bytes: return "BYTES";
    case base::FieldKind::toggle: return "[on|off]";
    default: return "TEXT";
  }
}

}  // namespace

ConfigFlags::ConfigFlags(CLI::App& app, std::vector<base::Field>& fields) : fields_(fields), texts_(fields.size()) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto& f = fields[i];
    const auto value = f.get();
    options_.push_back(app.add_option("--" + f.name, texts_[i], f.help + (value.empty() ? "" : " [" + value + "]"))
                           ->group(f.group)
                           ->type_name(type_of(f))
                           ->take_last());
    // What CLI11 calls the default of an option is what it takes where the option stands without a value.
    if (f.kind == base::FieldKind::toggle) options_.back()->expected(0, 1)->default_str("on");
  }
}

bool ConfigFlags::given(const std::string& name) const {
  for (std::size_t i = 0; i < fields_.size(); ++i)
    if (fields_[i].name == name) return options_[i]->count() > 0;
  return false;
}

std::vector<std::string> ConfigFlags::overridden() const {
  std::vector<std::string> out;
  for (const auto* option : options_) {
    const auto& said = option->results();
    if (std::any_of(said.begin(), said.end(), [&](const auto& value) { return value != said.back(); }))
      out.push_back(fmt::format("{} is given {} times, and the last counts: {}", option->get_name(), said.size(),
                                fmt::join(said, ", ")));
  }
  return out;
}

void ConfigFlags::apply() {
  base::Complaints complaints;
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    if (options_[i]->count() == 0) continue;
    complaints.attempt([&] { fields_[i].set(texts_[i], "--" + fields_[i].name); });
    fields_[i].source = base::from_flag;
  }
  complaints.raise();
}

}  // namespace trainyard::tools
