// Turns the system's error numbers into exceptions.
#pragma once

#include "libtrain/base/error.h"

#include <string>
#include <utility>

namespace trainyard::base {

// The system refused to read a file that may be whole: a failing device or file server, too many open files, no
// permission. Nothing is known to be wrong with the content. The exit code is 4, but 3 where permission is missing,
// because the user can grant it.
struct Unreadable : InputError {
  explicit Unreadable(const std::string& m, std::string hint = {}, ExitCode code = ExitCode::environment)
      : InputError(m, hint) {
    Error::operator=(Error(code, m, std::move(hint)));
  }
};
// The exit code of an Unreadable with this error number.
ExitCode code_of_unreadable(int error_number);

// Whether `error_number` is such a refusal. It is not for a missing name, or for something that is no file: there the
// input itself is wrong.
bool is_unreadable(int error_number);

// The hint of an error with this number; "" where nothing is known to help.
std::string hint_for(int error_number);

// Throws EnvironmentError "cannot WHAT PATH: reason". It has a hint for a full disk, a quota, a file size limit,
// missing permission and other known reasons.
[[noreturn]] void throw_cannot_write(const std::string& what, const std::string& path, int error_number);
// Throws the same as an InputError when something that should be read is missing, or as its subclass Unreadable. Throws
// an EnvironmentError where this process may have no more files or memory.
[[noreturn]] void throw_cannot_read(const std::string& what, const std::string& path, int error_number);

}  // namespace trainyard::base
