// The system's error numbers turned into exceptions, once.
#pragma once

#include <string>

namespace trainyard::base {

// EnvironmentError "cannot WHAT PATH: reason"; with a hint for a full disk, a quota, a file size limit and missing permission.
[[noreturn]] void throw_cannot_write(const std::string& what, const std::string& path, int error_number);
// The same as an InputError: something that should be read is missing or unreadable.
[[noreturn]] void throw_cannot_read(const std::string& what, const std::string& path, int error_number);

}  // namespace trainyard::base
