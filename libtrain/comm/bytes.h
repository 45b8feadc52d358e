// A dense view as messages carry it: its bytes, and ranges of its elements.
#pragma once

#include "libtrain/base/view.h"

#include <cstdint>

namespace trainyard::comm {

inline char* bytes_of(const base::View& v) { return static_cast<char*>(v.data); }

// Elements [first, first + count) of a flat view.
inline base::View elements_of(const base::View& flat, std::int64_t first, std::int64_t count) {
  return {bytes_of(flat) + first * base::size_of(flat.dtype), flat.dtype, {count}, flat.device};
}

}  // namespace trainyard::comm
