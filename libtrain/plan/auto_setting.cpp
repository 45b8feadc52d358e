// Wraps the functions of a field.
#include "libtrain/plan/auto_setting.h"

#include <string>
#include <utility>

namespace trainyard::plan {

void let_be_auto(std::vector<base::Field>& fields, const char* name, bool& automatic) {
  constexpr const char *by_itself = "auto", *until_then = "none";
  auto& field = base::field_named(fields, name, "the settings");
  field.get = [&automatic, get = std::move(field.get)] { return automatic ? by_itself : get(); };
  field.set = [&automatic, set = std::move(field.set)](const std::string& text, const std::string& spelled) {
    automatic = text == by_itself;
    set(automatic ? until_then : text, spelled);
  };
}

}  // namespace trainyard::plan
