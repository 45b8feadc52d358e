// The functions of base/system_error.h under the names that this package uses.
#pragma once

#include "libtrain/base/system_error.h"

namespace trainyard::io {

using base::throw_cannot_read;
using base::throw_cannot_write;

}  // namespace trainyard::io
