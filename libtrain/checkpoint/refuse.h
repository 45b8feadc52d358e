// The error for bytes of a checkpoint that cannot be what a writer wrote.
#pragma once

#include "libtrain/base/error.h"
#include "libtrain/base/setting_text.h"

#include <string>
#include <utility>

namespace trainyard::checkpoint {

inline std::string way_to_whole() {
  return base::text("restore it from a copy, or resume from another checkpoint ($resume PATH)");
}

// Throws the InputError "WHERE: ...", whose hint is way_to_whole().
template <class... A>
[[noreturn]] void refuse(const std::string& where, fmt::format_string<A...> format, A&&... values) {
  throw base::InputError(where + ": " + fmt::format(format, std::forward<A>(values)...), way_to_whole());
}

}  // namespace trainyard::checkpoint
