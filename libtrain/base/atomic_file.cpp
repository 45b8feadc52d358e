// Atomic files and folders on top of POSIX.
#include "libtrain/base/atomic_file.h"

#include "libtrain/base/atomic_stream.h"
#include "libtrain/base/descriptor.h"
#include "libtrain/base/error.h"
#include "libtrain/base/folder_lock.h"
#include "libtrain/base/log.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/system_error.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace trainyard::base {

namespace fs = std::filesystem;

namespace {

void sync_path(const std::string& path, int flags) {
  const Descriptor file(::open(path.c_str(), flags | O_CLOEXEC));
  if (!file.is_open()) throw_cannot_write("open for syncing", path, errno);
  // Some file systems cannot sync a folder and return EINVAL; they have nothing to sync.
  if (::fsync(file.get()) != 0 && errno != EINVAL) throw_cannot_write("sync", path, errno);
}

void rename_path(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) throw_cannot_write("rename to " + to, from, errno);
}

bool exchange_paths(const std::string& a, const std::string& b) {
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
}

bool ends_partial(const std::string& name) { return std::string_view(name).ends_with(partial_suffix); }

// publish_folder gives this suffix to the old folder until it removes it.
const std::string replaced_suffix = ".replaced" + std::string(partial_suffix);

// Whether a path exists. EnvironmentError where the system cannot tell, because a caller would overwrite what it took
// for missing.
bool is_there(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0) return true;
  if (is_unreadable(errno)) throw_cannot_write("look at", path, errno);
  return false;
}

// Renames NAME.replaced.partial back to NAME when a replacement was interrupted. Returns false when there is nothing to
// rename back.
bool give_name_back(const std::string& final_path) {
  const auto old = final_path + replaced_suffix;
  if (!is_there(old) || is_there(final_path)) return false;
  rename_durably(old, final_path);
  log_warning("{} is back under its name: a program was interrupted while it replaced it", final_path);
  return true;
}

bool cannot_do_so(int number) {
  return number == EINVAL || number == ENOSYS || number == EPERM || number == EOPNOTSUPP || number == EMLINK ||
         number == EXDEV;
}

// Renames only if `to` does not exist. Returns 0 or the error, for example EEXIST. On a file system without such a
// rename it uses a link. Without links too, an empty file first claims the name. If the process ends just then, the
// empty file stays.
int rename_new(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (!cannot_do_so(errno)) return errno;
  if (::link(from.c_str(), to.c_str()) == 0) {
    ::unlink(from.c_str());
    return 0;
  }
  if (!cannot_do_so(errno)) return errno;
  if (!Descriptor(::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)).is_open()) return errno;
  if (::rename(from.c_str(), to.c_str()) == 0) return 0;
  const int reason = errno;
  ::unlink(to.c_str());
  return reason;
}

[[noreturn]] void throw_exists(const std::string& path) {
  throw UsageError(fmt::format("{} exists", path), text("$force replaces it"));
}

// Writes and syncs `partial`, and calls `rename` to give it its name; `rename` returns 0 or the reason for its failure.
// On failure the file is removed. `shown` is the path that errors name.
void write_as(const std::string& partial, const std::string& shown, const std::function<void(const Sink&)>& produce,
              const std::function<int()>& rename) {
  Descriptor file(open_new(partial, O_WRONLY));
  if (!file.is_open()) throw_cannot_write("create", shown, errno);
  const auto give_up = [&](const char* what, int reason) {
    ::unlink(partial.c_str());
    throw_cannot_write(what, shown, reason);
  };
  try {
    produce([&](std::string_view text) {
      if (const int reason = write_all(file.get(), text); reason != 0) throw_cannot_write("write", shown, reason);
    });
  } catch (...) {
    ::unlink(partial.c_str());
    throw;
  }
  if (::fsync(file.get()) != 0) give_up("sync", errno);
  if (const int reason = file.close(); reason != 0) give_up("close", reason);
  if (const int reason = rename(); reason != 0) give_up("rename", reason);
}

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

// Lists the entries of an open folder. Returns 0 or the system's reason.
int list_names(DIR* folder, std::vector<std::string>& names) {
  ::rewinddir(folder);
  names.clear();
  for (errno = 0; const auto* entry = ::readdir(folder); errno = 0)
    if (const std::string name = entry->d_name; name != "." && name != "..") names.push_back(name);
  return errno;
}

// Whether a file server gave this name to a file that was removed while open. The file stays until the last process
// closes it, and until then its folder cannot be removed.
bool is_kept_by_server(const std::string& name) { return name.starts_with(".nfs"); }

// Removes `name` in the open folder `parent`, with all entries below it. It works by handles, so that no link is
// followed. Returns 0 or the system's reason. `kept` becomes true where a file server keeps a part.
int remove_below(int parent, const std::string& name, bool& kept) {
  if (::unlinkat(parent, name.c_str(), 0) == 0 || errno == ENOENT) return 0;
  const int reason = errno;
  if (reason == EBUSY && is_kept_by_server(name)) {
    kept = true;
    return 0;
  }
  if (reason != EISDIR && reason != EPERM) return reason;  // for a folder: EISDIR on Linux, EPERM in POSIX
  Descriptor file(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!file.is_open())
    return errno == ENOENT ? 0 : errno == ENOTDIR ? reason : errno;  // ENOENT: another process did it
  const std::unique_ptr<DIR, CloseFolder> folder(::fdopendir(file.get()));
  if (folder == nullptr) return errno;
  file.release();
  std::vector<std::string> names;
  if (const int failed = list_names(folder.get(), names); failed != 0) return failed;
  for (const auto& inner : names)
    if (const int failed = remove_below(::dirfd(folder.get()), inner, kept); failed != 0) return failed;
  if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return 0;
  if (errno != ENOTEMPTY && errno != EEXIST) return errno;
  if (const int failed = list_names(folder.get(), names); failed != 0) return failed;
  kept = true;
  for (const auto& inner : names)
    if (!is_kept_by_server(inner)) {
      struct stat info {};
      if (::fstatat(::dirfd(folder.get()), inner.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(info.st_mode))
        return ENOTEMPTY;
    }
  return 0;
}

// Retries for half a second, because other processes may have a lock file open for a moment.
void remove_all(const std::string& path) {
  for (int tries = 0; tries < 10; ++tries) {
    if (tries > 0) ::usleep(50000);
    bool kept = false;
    if (const int reason = remove_below(AT_FDCWD, path, kept); reason != 0) throw_cannot_write("remove", path, reason);
    if (!kept) return;
  }
  log_debug("{} stays until the last process has closed the files in it", path);
}

void remove_all_but(const std::string& folder, const std::string& name) {
  std::error_code error;
  std::vector<std::string> paths;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (it->path().filename() != name) paths.push_back(it->path().string());
  if (error && error != std::errc::no_such_file_or_directory) throw_cannot_read("list", folder, error.value());
  for (const auto& path : paths) remove_all(path);
}

// Chooses a name for a folder that is to be removed, so that it is recognized if this process ends first. The name is
// NAME.removed.partial, or NAME.removed.N.partial where a file server keeps a part of an earlier one. Also removes old
// folders with such names, as far as the file server allows.
std::string name_to_remove(const std::string& path) {
  std::string free;
  for (int n = 1;; ++n) {
    auto partial = n == 1 ? removed_name(path) : fmt::format("{}.removed.{}{}", path, n, partial_suffix);
    const bool was_there = is_there(partial);
    if (was_there) remove_all(partial);
    if (free.empty() && !is_there(partial)) free = std::move(partial);
    if (!was_there) return free;
  }
}

}  // namespace

std::string removed_name(const std::string& path) {
  return fmt::format("{}.removed{}", without_slashes(path), partial_suffix);
}

std::string without_slashes(std::string path) {
  while (path.size() > 1 && (path.back() == '/' || path.ends_with("/."))) path.pop_back();
  return path;
}

int open_new(const std::string& path, int access) {
  for (int tries = 0;; ++tries) {
    const int file = ::open(path.c_str(), access | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (file >= 0 || errno != EEXIST || tries == 3) return file;
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return -1;
  }
}

void write_file(const std::string& path, std::string_view content) {
  const std::string partial = path + std::string(partial_suffix);
  write_as(
      partial, partial, [&](const Sink& take) { take(content); },
      [&] { return ::rename(partial.c_str(), path.c_str()) == 0 ? 0 : errno; });
  sync_folder(parent_of(path));
}

void write_file(const std::string& path, std::string_view content, Existing existing) {
  write_file(
      path, [&](const Sink& take) { take(content); }, existing);
}

void write_file(const std::string& path, const std::function<void(const Sink&)>& produce, Existing existing) {
  if (existing == Existing::refuse && is_there(path)) throw_exists(path);
  const auto partial = fmt::format("{}.{}{}", path, ::getpid(), partial_suffix);
  write_as(partial, path, produce, [&] {
    if (existing == Existing::replace) return ::rename(partial.c_str(), path.c_str()) == 0 ? 0 : errno;
    const int reason = rename_new(partial, path);
    if (reason == EEXIST) {  // another process was faster
      ::unlink(partial.c_str());
      throw_exists(path);
    }
    return reason;
  });
  if (const auto folder = parent_of(path); ::access(folder.c_str(), R_OK) == 0)
    sync_folder(folder);  // a folder without read permission cannot be opened for syncing
}

void replace_file(const std::string& path, const std::string& partial,
                  const std::function<void(const Sink&)>& produce) {
  write_as(partial, path, produce, [&] { return ::rename(partial.c_str(), path.c_str()) == 0 ? 0 : errno; });
  if (const auto folder = parent_of(path); ::access(folder.c_str(), R_OK) == 0) sync_folder(folder);
}

std::vector<std::string> missing_folders(const std::string& path) {
  std::vector<std::string> missing;
  for (auto folder = without_slashes(path);; folder = parent_of(folder)) {
    struct stat info {};
    if (::lstat(folder.c_str(), &info) == 0) return missing;
    const bool last = parent_of(folder) == folder;
    if (last || (errno != ENOENT && errno != ENOTDIR)) throw_cannot_write("look at", folder, errno);
    missing.push_back(folder);
  }
}

void make_folders(const std::string& given) {
  const auto path = without_slashes(given);
  std::error_code error;
  const auto made = missing_folders(path);
  fs::create_directories(path, error);
  if (error) throw_cannot_write("create the folder", path, error.value());
  for (const auto& folder : made)
    if (const auto above = parent_of(folder); ::access(above.c_str(), R_OK) == 0)
      sync_folder(above);  // a folder without read permission cannot be opened for syncing
}

void require_folder_or_nothing(const std::string& path) {
  std::error_code error;
  const auto status = fs::symlink_status(path, error);
  if (status.type() == fs::file_type::not_found) return;
  if (error) throw_cannot_read("look at", path, error.value());
  const auto target = fs::status(path, error);
  if (status.type() == fs::file_type::symlink && target.type() == fs::file_type::not_found)
    throw InputError(
        fmt::format("{} is a link to {}, which is not there", path, fs::read_symlink(path, error).string()),
        "is its disk mounted on this machine? To begin anew, remove the link");
  if (target.type() == fs::file_type::none) throw_cannot_read("look at", path, error.value());
  if (target.type() != fs::file_type::directory)
    throw InputError(fmt::format("{} is no folder", path), "move it away, or choose another folder");
  const fs::directory_iterator list(path, error);
  if (error) throw_cannot_read("list", path, error.value());
}

std::string free_name(const std::string& wanted) {
  auto name = wanted;
  for (int n = 2; is_there(name); ++n) name = fmt::format("{}.{}", wanted, n);
  return name;
}

void rename_durably(const std::string& from, const std::string& to) {
  rename_path(from, to);
  sync_folder(parent_of(to));
  if (parent_of(from) != parent_of(to)) sync_folder(parent_of(from));
}

void sync_folder(const std::string& path) { sync_path(path, O_RDONLY | O_DIRECTORY); }
void sync_file(const std::string& path) { sync_path(path, O_RDONLY); }

namespace {

// Looks at a path, following its links. Returns false if nothing is there. Unreadable where the system cannot tell.
bool look_at(const std::string& path, struct stat& info) {
  if (::stat(path.c_str(), &info) == 0) return true;
  if (is_unreadable(errno)) throw_cannot_read("look at", path, errno);
  return false;
}

}  // namespace

std::int64_t file_size(const std::string& path) {
  struct stat info {};
  return look_at(path, info) && S_ISREG(info.st_mode) ? info.st_size : -1;
}

bool exists(const std::string& path) {
  struct stat info {};
  return look_at(path, info);
}

bool is_folder(const std::string& path) {
  struct stat info {};
  return look_at(path, info) && S_ISDIR(info.st_mode);
}

std::string parent_of(const std::string& path) {
  const auto parent = fs::path(without_slashes(path)).parent_path().string();
  return parent.empty() ? "." : parent;
}

void remove_tree(const std::string& given) {
  const auto path = without_slashes(given);
  std::error_code error;
  const auto status = fs::symlink_status(path, error);
  if (status.type() == fs::file_type::not_found) return;
  if (status.type() != fs::file_type::directory || ends_partial(path)) return remove_all(path);
  remove_tree(path, nullptr);
}

void remove_tree(const std::string& given, std::unique_ptr<FolderLock> lock, const std::string& last) {
  const auto path = without_slashes(given);
  if (!is_there(path)) return;
  auto partial = path;
  if (lock != nullptr || !ends_partial(path)) {
    partial = name_to_remove(path);
    rename_path(path, partial);
  }
  lock.reset();  // its destructor finds that the folder has lost its name
  if (!last.empty()) remove_all_but(partial, last);
  remove_all(partial);
}

void publish_folder(const std::string& partial, const std::string& final_path) {
  if (!is_there(final_path)) return rename_durably(partial, final_path);
  const auto old = final_path + replaced_suffix;
  remove_all(old);
  const auto removed = name_to_remove(final_path);
  if (is_there(old)) rename_path(old, removed);  // a part that a file server keeps
  if (exchange_paths(partial, final_path)) {
    rename_path(partial, old);
  } else {
    rename_path(final_path, old);
    rename_path(partial, final_path);
  }
  sync_folder(parent_of(final_path));
  remove_all(old);
}

std::vector<std::string> remove_stale_partials(const std::string& folder,
                                               const std::function<bool(std::string_view)>& is_ours, const Owned& own) {
  std::vector<std::string> names;
  std::error_code error;
  if (!fs::is_directory(folder, error)) return names;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (const auto name = it->path().filename().string(); ends_partial(name) && is_ours(name)) names.push_back(name);
  if (error) throw_cannot_read("list", folder, error.value());
  std::sort(names.begin(), names.end());
  for (const auto& name : names) require_own(folder + "/" + name, own);
  std::erase_if(names, [&](const std::string& name) {
    return name.ends_with(replaced_suffix) &&
           give_name_back(folder + "/" + name.substr(0, name.size() - replaced_suffix.size()));
  });
  for (const auto& name : names) remove_all(folder + "/" + name);
  return names;
}

AtomicFolder::AtomicFolder(std::string final_path, Existing existing, Owned own)
    : final_(without_slashes(std::move(final_path))), partial_(final_ + std::string(partial_suffix)),
      existing_(existing), own_(std::move(own)) {
  require_free();
  for (const auto& unfinished : {partial_, final_ + replaced_suffix}) require_own(unfinished, own_);
  make_folders(partial_);
  lock_ = std::make_unique<FolderLock>(partial_, "wait until it has ended, or give another place");
  try {
    if (give_name_back(final_)) require_free();
    remove_all_but(partial_, std::string(lock_name));
  } catch (...) {
    give_up();
    throw;
  }
}

AtomicFolder::~AtomicFolder() {
  if (!published_) give_up();
}

void AtomicFolder::give_up() noexcept {
  try {
    remove_all_but(partial_, std::string(lock_name));  // still named partial: if killed now, the next writer knows it
    remove_tree(partial_, std::move(lock_));
  } catch (const std::exception& e) {
    log_debug("{} could not be removed: {}", partial_, e.what());
  }
}

void AtomicFolder::require_free() const {
  std::error_code error;
  if (existing_ == Existing::refuse && fs::exists(fs::symlink_status(final_, error)))
    throw UsageError(fmt::format("{} exists already", final_), text("give another place, or $force to replace it"));
  require_own(final_, own_);
}

void AtomicFolder::publish() {
  sync_folder(partial_);
  published_ = true;  // from here on the content is whole, whatever happens
  try {
    require_free();
  } catch (const Error& e) {
    const auto hint = fmt::format("{} is complete: rename it yourself", partial_);
    if (e.code() == ExitCode::environment) throw EnvironmentError(e.what(), hint);
    throw UsageError(e.what(), hint);
  }
  publish_folder(partial_, final_);
  lock_.reset();  // a file server would keep an open file
  std::error_code error;
  fs::remove(fs::path(final_) / lock_name, error);  // a process that opened it before finds it without a name
}

}  // namespace trainyard::base
