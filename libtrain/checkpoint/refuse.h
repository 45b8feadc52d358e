// The error for bytes of a checkpoint that cannot be what a writer wrote.
#pragma once

#include "libtrain/base/error.h"

#include <string>
#include <utility>

namespace trainyard::checkpoint {

// Programs without a setting `resume` say this, too.
inline std::string way_to_whole() {
  return "restore it from a copy, or go on from another checkpoint if there is one (train --resume PATH)";
}

// Throws the InputError "WHERE: ...", whose hint is way_to_whole().
template <class... A>
[[noreturn]] void refuse(const std::string& where, fmt::format_string<A...> format, A&&... values) {
  throw base::InputError(where + ": " + fmt::format(format, std::forward<A>(values)...), way_to_whole());
}

}  // namespace trainyard::checkpoint
