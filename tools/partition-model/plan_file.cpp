// Writes a plan: temporary name, sync, rename or link.
#include "tools/partition-model/plan_file.h"

#include "libtrain/base/descriptor.h"
#include "libtrain/base/error.h"
#include "libtrain/base/owned.h"
#include "libtrain/base/read_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace trainyard::tools {

namespace {

// Renames to what is not there: 0, or the error, EEXIST among them. A link does it where the file system has no such renaming.
int rename_new(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  if (link(from.c_str(), to.c_str()) != 0) return errno;
  unlink(from.c_str());
  return 0;
}

}  // namespace

std::string read_plan_file(const std::string& path) {
  return base::read_file(path, base::largest_description);
}

void write_plan_file(const std::string& path, const std::string& text, Existing existing, std::vector<std::string> inputs) {
  std::error_code ignored;
  const auto taken = [&] { return base::UsageError(fmt::format("{} exists", path), "--force replaces it"); };
  if (existing == Existing::keep && std::filesystem::symlink_status(path, ignored).type() > std::filesystem::file_type::none) throw taken();
  base::require_own(path, base::own_json_files("a plan", "trainyard.plan/", std::move(inputs)));
  const auto temporary = fmt::format("{}.partial.{}", path, getpid());
  base::Descriptor file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.is_open()) throw base::EnvironmentError(fmt::format("cannot write {}: {}", path, std::strerror(errno)), "is the folder there, and yours?");
  const auto fail = [&](const char* what, int error) {
    unlink(temporary.c_str());
    throw base::EnvironmentError(fmt::format("cannot {} {}: {}", what, path, std::strerror(error)), "is the disk full?");
  };
  if (const int reason = base::write_all(file.get(), text); reason != 0) fail("write", reason);
  if (fsync(file.get()) != 0) fail("sync", errno);
  if (const int reason = file.close(); reason != 0) fail("sync", reason);
  if (existing == Existing::keep) {
    const int reason = rename_new(temporary, path);
    if (reason == EEXIST) {   // another process was faster
      unlink(temporary.c_str());
      throw taken();
    }
    if (reason != 0) fail("rename", reason);
  } else if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    fail("rename", errno);
  }
  const auto folder = std::filesystem::path(path).parent_path();
  const base::Descriptor directory(open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.is_open()) fsync(directory.get());
}

}  // namespace trainyard::tools
