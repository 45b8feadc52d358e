// The system's error numbers turned into exceptions, once.
#pragma once

#include "libtrain/base/error.h"

#include <string>

namespace trainyard::base {

// The system refused to read what may be whole: a device or file server that fails, too many open files, no permission.
// Nothing is known to be wrong with the content.
struct Unreadable : InputError {
  using InputError::InputError;
};

// Is `error_number` such a refusal? Not of a name that is not there, or of something else than a file: there the
// content is wrong.
bool is_unreadable(int error_number);

// EnvironmentError "cannot WHAT PATH: reason"; with a hint for a full disk, a quota, a file size limit and missing
// permission.
[[noreturn]] void throw_cannot_write(const std::string& what, const std::string& path, int error_number);
// The same as an InputError: something that should be read is missing; or as its kind Unreadable. Still an
// EnvironmentError where it is this process that can have no more files or memory.
[[noreturn]] void throw_cannot_read(const std::string& what, const std::string& path, int error_number);

}  // namespace trainyard::base
