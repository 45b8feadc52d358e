// Error messages and hints for errno.
#include "libtrain/base/system_error.h"

#include <cerrno>
#include <system_error>

namespace trainyard::base {

namespace {

std::string sentence(const std::string& what, const std::string& path, int number) {
  return fmt::format("cannot {} {}: {}", what, path, std::generic_category().message(number));
}

}  // namespace

std::string hint_for(int number) {
  switch (number) {
    case ENOSPC: return "the disk is full: free some space, or point the output elsewhere";
    case EDQUOT: return "the quota is used up: free some space, or point the output elsewhere";
    case EFBIG: return "the file size limit is reached: raise it (ulimit -f), or use another file system";
    case EROFS: return "the file system is read-only: point the output elsewhere";
    case EACCES:
    case EPERM: return "check the permissions of the path and of the folders above it";
    case ENOENT:
    case ENOTDIR: return "check the path";
    case ELOOP: return "the symbolic link leads back to itself: give the file itself";
    case EISDIR: return "a file is expected there, not a folder";
    case EMFILE:
    case ENFILE: return "too many files are open: raise the limit (ulimit -n)";
    case ESTALE: return "the file server has lost it: is the share still mounted?";
    case ENOLCK: return "the file system has no locks: use another one for what is written";
    case EIO: return "the device reports errors: look at the system's log before trusting this disk again";
    default: return {};
  }
}

bool is_unreadable(int number) {
  switch (number) {
    case 0:
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG: return false;
    default: return true;
  }
}

ExitCode code_of_unreadable(int number) {
  return number == EACCES || number == EPERM ? ExitCode::input_refused : ExitCode::environment;
}

void throw_cannot_write(const std::string& what, const std::string& path, int error_number) {
  throw EnvironmentError(sentence(what, path, error_number), hint_for(error_number));
}

void throw_cannot_read(const std::string& what, const std::string& path, int error_number) {
  if (error_number == EMFILE || error_number == ENFILE || error_number == ENOMEM)
    throw_cannot_write(what, path, error_number);  // the error says nothing about the file
  if (is_unreadable(error_number))
    throw Unreadable(sentence(what, path, error_number), hint_for(error_number), code_of_unreadable(error_number));
  throw InputError(sentence(what, path, error_number), hint_for(error_number));
}

}  // namespace trainyard::base
