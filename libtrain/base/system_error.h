// The system's error numbers turned into exceptions, once.
#pragma once

#include "libtrain/base/error.h"

#include <string>
#include <utility>

namespace trainyard::base {

// The system refused to read what may be whole: a device or file server that fails, too many open files, no permission.
// Nothing is known to be wrong with the content: exit code 4, but 3 where permission is missing, which is the caller's
// to give or to spare.
struct Unreadable : InputError {
  explicit Unreadable(const std::string& m, std::string hint = {}, ExitCode code = ExitCode::environment)
      : InputError(m, hint) {
    Error::operator=(Error(code, m, std::move(hint)));
  }
};
// The exit code of one with this error number.
ExitCode code_of_unreadable(int error_number);

// Is `error_number` such a refusal? Not of a name that is not there, or of something else than a file: there the
// content is wrong.
bool is_unreadable(int error_number);

// What to try after `error_number`, as an error's hint; "" where nothing is known to help.
std::string hint_for(int error_number);

// EnvironmentError "cannot WHAT PATH: reason"; with a hint for a full disk, a quota, a file size limit and missing
// permission.
[[noreturn]] void throw_cannot_write(const std::string& what, const std::string& path, int error_number);
// The same as an InputError: something that should be read is missing; or as its kind Unreadable. Still an
// EnvironmentError where it is this process that can have no more files or memory.
[[noreturn]] void throw_cannot_read(const std::string& what, const std::string& path, int error_number);

}  // namespace trainyard::base
