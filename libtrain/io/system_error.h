// The sentences of base for the system's error numbers, under the names that this room uses.
#pragma once

#include "libtrain/base/system_error.h"

namespace trainyard::io {

using base::throw_cannot_read;
using base::throw_cannot_write;

}  // namespace trainyard::io
