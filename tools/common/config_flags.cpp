// The adapter between fields and CLI11.
#include "tools/common/config_flags.h"

namespace trainyard::tools {

ConfigFlags::ConfigFlags(CLI::App& app, std::vector<base::Field>& fields) : fields_(fields) {
  for (auto& f : fields) {
    auto& text = texts_[f.name];
    const auto value = f.get();
    app.add_option("--" + f.name, text, f.help + (value.empty() ? "" : " [" + value + "]"))->group(f.group)->type_name(f.type == "text" ? "TEXT" : f.type == "integer" ? "N" : "X")->take_last();
  }
}

void ConfigFlags::apply() {
  for (auto& f : fields_) {
    const auto& text = texts_[f.name];
    if (text.empty()) continue;
    f.set(text);
    f.source = "flag";
  }
}

}  // namespace trainyard::tools
