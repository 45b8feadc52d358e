// Adapter between settings fields and CLI11.
#include "tools/common/config_flags.h"

#include "libtrain/base/error.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace trainyard::tools {

namespace {

const char* type_of(const base::Field& f) {
  switch (f.kind) {
    case base::FieldKind::integer:
    case base::FieldKind::integer_or_text: return "N";
    case base::FieldKind::number: return "X";
    case base::FieldKind::bytes: return "BYTES";
    case base::FieldKind::toggle: return "[on|off]";
    default: return "TEXT";
  }
}

}  // namespace

ConfigFlags::ConfigFlags(CLI::App& app, std::vector<base::Field>& fields)
    : fields_(fields), texts_(fields.size()), former_texts_(fields.size()) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto& f = fields[i];
    const auto value = f.get();
    std::string spelled = "--" + f.name;
    for (const auto& alias : f.aliases) spelled += ",--" + alias;
    options_.push_back(app.add_option(spelled, texts_[i], f.help + (value.empty() ? "" : " [" + value + "]"))
                           ->group(f.group)
                           ->type_name(type_of(f))
                           ->take_last());
    former_.push_back(f.former.empty() ? nullptr : former_flag(app, "--" + f.former, former_texts_[i]));
    // In CLI11, default_str is the value of an option that stands without a value.
    if (f.kind == base::FieldKind::toggle) options_.back()->expected(0, 1)->default_str("on");
  }
}

CLI::Option* former_flag(CLI::App& app, const std::string& name, std::string& text) {
  return app.add_option(name, text)->group("")->type_name("TEXT")->take_last();
}

bool ConfigFlags::given(const std::string& name) const {
  for (std::size_t i = 0; i < fields_.size(); ++i)
    if (fields_[i].name == name) return is_given(i);
  return false;
}

bool ConfigFlags::is_given(std::size_t i) const {
  return options_[i]->count() > 0 || (former_[i] != nullptr && former_[i]->count() > 0);
}

std::optional<std::string> ConfigFlags::joined(std::size_t i) const {
  const auto& values = options_[i]->results();
  return fields_[i].joined && values.size() > 1 ? fields_[i].joined(values) : std::nullopt;
}

std::vector<std::string> ConfigFlags::overridden() const {
  std::vector<std::string> out;
  auto all = options_;
  for (std::size_t i = 0; i < fields_.size(); ++i)
    if (joined(i)) all[i] = nullptr;
  all.insert(all.end(), former_.begin(), former_.end());
  for (const auto* option : all) {
    if (option == nullptr) continue;
    const auto& values = option->results();
    if (std::any_of(values.begin(), values.end(), [&](const auto& value) { return value != values.back(); }))
      out.push_back(fmt::format("{} is given {} times, and the last counts: {}", "--" + option->get_lnames().front(),
                                values.size(), fmt::join(values, ", ")));
  }
  for (std::size_t i = 0; i < fields_.size(); ++i)
    if (former_[i] != nullptr && former_[i]->count() > 0)
      out.push_back(fmt::format("--{} is --{} now; the old spelling works, too", fields_[i].former, fields_[i].name));
  return out;
}

void ConfigFlags::apply() {
  base::Complaints complaints;
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    if (!is_given(i)) continue;
    const bool by_former = options_[i]->count() == 0;
    complaints.attempt([&] {
      if (!by_former && former_[i] != nullptr && former_[i]->count() > 0 && former_texts_[i] != texts_[i])
        throw base::UsageError(fmt::format("--{} {} and --{} {} are one setting", fields_[i].former, former_texts_[i],
                                           fields_[i].name, texts_[i]),
                               fmt::format("leave --{} out, the old spelling", fields_[i].former));
      fields_[i].set(by_former ? former_texts_[i] : joined(i).value_or(texts_[i]),
                     "--" + (by_former ? fields_[i].former : fields_[i].name));
    });
    fields_[i].source = base::from_flag;
  }
  complaints.raise();
}

}  // namespace trainyard::tools
