// Tests compare messages as users of the programs read them: a setting is named by its flag.
#include "libtrain/base/setting_text.h"

#include <string>
#include <string_view>

namespace {

__attribute__((constructor)) void spell_settings_as_flags() {
  trainyard::base::spell_settings([](std::string_view name) { return "--" + std::string(name); });
}

}  // namespace
