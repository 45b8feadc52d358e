// A dense view as messages carry it: its bytes.
#pragma once

#include "libtrain/base/view.h"

namespace trainyard::comm {

inline char* bytes_of(const base::View& v) { return static_cast<char*>(v.data); }

}  // namespace trainyard::comm
