// The error for bytes of a checkpoint that cannot be what a writer wrote.
#pragma once

#include "libtrain/base/error.h"

#include <string>
#include <utility>

namespace trainyard::checkpoint {

inline constexpr const char* way_to_whole = "restore it from a copy, or resume from another checkpoint (--resume PATH)";

// Throws the InputError "WHERE: ...", whose hint is way_to_whole.
template <class... A>
[[noreturn]] void refuse(const std::string& where, fmt::format_string<A...> format, A&&... values) {
  throw base::InputError(where + ": " + fmt::format(format, std::forward<A>(values)...), way_to_whole);
}

}  // namespace trainyard::checkpoint
