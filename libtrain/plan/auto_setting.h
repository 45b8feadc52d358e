// Settings that may be "auto": what they are is decided later.
#pragma once

#include "libtrain/base/fields.h"

#include <vector>

namespace trainyard::plan {

// Lets the setting with this name be "auto", too. Then `automatic` is set, and the setting itself is "none".
void let_be_auto(std::vector<base::Field>& fields, const char* name, bool& automatic);

}  // namespace trainyard::plan
