// The lock, with fcntl's locks of open file descriptions.
#include "libtrain/base/folder_lock.h"

#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/index.h"
#include "libtrain/base/log.h"
#include "libtrain/base/system_error.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <random>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace trainyard::base {

namespace {

// How many times in a row a lock file may be found removed.
constexpr int most_removals = 100;

// Locks the whole file. Returns 0 or the system's reason. Kernels and file systems without locks of open files have at
// least locks of processes.
int lock_whole(int file) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  Interruptions interruptions;  // a signal may interrupt the request to a file server
  for (int command = F_OFD_SETLK;;) {
    if (::fcntl(file, command, &whole) == 0) return 0;
    if (interruptions.again()) continue;
    if (errno != EINVAL || command == F_SETLK) return errno;
    command = F_SETLK;
  }
}

// Whether the reason means that the file system has no locks, and not that it failed.
bool has_no_locks(int reason) {
  switch (reason) {
    case EINTR:
    case EIO:
    case ESTALE:
    case ENOMEM:
    case ENODEV:
    case ENXIO:
    case ENOENT:
    case EROFS:
    case ETIMEDOUT:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENOTCONN: return false;
    default: return true;
  }
}

constexpr std::string_view first_word = "process ";

// Reads the beginning of a file, in however many pieces the system returns it. Returns the number of bytes, or -1 and
// sets errno.
ssize_t read_beginning(int file, char* to, std::size_t most) {
  std::size_t done = 0;
  Interruptions interruptions;
  while (done < most) {
    const auto n = ::pread(file, to + done, most - done, static_cast<off_t>(done));
    if (n < 0 && interruptions.again()) continue;
    if (n < 0) return -1;
    if (n == 0) break;
    done += size(n);
  }
  return static_cast<ssize_t>(done);
}

std::string own_name() {
  const char* job = std::getenv("SLURM_JOB_ID");
  std::random_device random;
  return fmt::format("{}{} on {}{}, since {}, start {:08x}{:08x}", first_word, ::getpid(), host_name(),
                     job == nullptr ? "" : fmt::format(", Slurm job {}", job), utc_now(), random(), random());
}

// Whether the file is a lock: empty, or with the text of a holder that was killed before it could empty the file.
// EnvironmentError where the system cannot tell.
bool is_lock(int file, const std::string& path) {
  std::array<char, first_word.size()> text{};
  const auto n = read_beginning(file, text.data(), text.size());
  if (n < 0 && errno != EISDIR && errno != ESPIPE) throw_cannot_write("read", path, errno);
  // A full disk may have cut the text, so a prefix is enough.
  return n >= 0 && first_word.starts_with(std::string_view(text.data(), size(n)));
}

[[noreturn]] void throw_held(const std::string& folder, const std::string& holder, const std::string& advice) {
  throw FolderHeld(fmt::format("{} is in use by {}", folder, holder), advice);
}

[[noreturn]] void throw_no_lock(const std::string& path) {
  throw InputError(fmt::format("{} is not a lock that these programs wrote", path),
                   "move it away, or choose another folder");
}

// Whether another process holds the lock of an open file; unknown where the system cannot tell.
FolderLock::Use use_of(int file) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (::fcntl(file, F_OFD_GETLK, &whole) != 0 && ::fcntl(file, F_GETLK, &whole) != 0) return FolderLock::Use::unknown;
  return whole.l_type != F_UNLCK ? FolderLock::Use::somebody : FolderLock::Use::nobody;
}

// The holder's line, once it is written completely; else "".
std::string name_in(int file) {
  std::array<char, 512> text{};
  const auto n = read_beginning(file, text.data(), text.size());
  const std::string line(text.data(), n > 0 ? size(n) : 0);
  return line.ends_with('\n') ? line.substr(0, line.find('\n')) : "";
}

// Whether `path` still names an open file. EnvironmentError where the system cannot tell. For an open file that another
// machine removed, a file server returns ESTALE.
bool names(const std::string& path, int file) {
  struct stat held {
  }, named{};
  if (::fstat(file, &held) != 0) {
    if (errno == ESTALE) return false;
    throw_cannot_write("look at", path, errno);
  }
  if (::stat(path.c_str(), &named) != 0) {
    if (is_unreadable(errno)) throw_cannot_write("look at", path, errno);
    return false;
  }
  return held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

// The name of the holder, who writes it just after taking the lock; waits a little for it.
std::string holder_in(int file) {
  for (int tries = 0; tries < 5; ++tries) {
    if (auto name = name_in(file); !name.empty()) return name;
    ::usleep(10000);
  }
  return "another process, which has not said who it is";
}

}  // namespace

FolderLock::FolderLock(const std::string& folder, const std::string& advice, std::chrono::milliseconds longest_wait)
    : folder_(folder), path_(folder + "/" + lock_name) {
  name_ = own_name();
  const auto until = std::chrono::steady_clock::now() + longest_wait;
  int removals = 0;
  for (auto tried = try_to_take(); tried != Tried::taken; tried = try_to_take()) {
    // The holder released and removed the file just now, and the next file will be ours. Exceptions: a file server
    // shows one file under the name and opens another, or it has lost the folder.
    if (tried != Tried::held) {
      ++removals;
      if (removals > most_removals && tried == Tried::stale) throw_cannot_write("lock", path_, ESTALE);
      if (removals > most_removals)
        throw EnvironmentError(fmt::format("{} is a different file each time it is opened", path_),
                               "locks do not work on this file system: use another one");
      if (removals > 1) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      continue;
    }
    if (std::chrono::steady_clock::now() >= until) throw_held(folder_, holder_, advice);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

FolderLock::Tried FolderLock::try_to_take() {
  file_ = Descriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666));
  // O_NOFOLLOW: a link is not followed.
  if (!file_.is_open() && errno == ELOOP) throw_no_lock(path_);
  if (!file_.is_open()) throw_cannot_write("lock", path_, errno);
  struct stat kind {};
  if (::fstat(file_.get(), &kind) == 0 && !S_ISREG(kind.st_mode)) {
    file_.close();
    throw_no_lock(path_);
  }
  if (const int reason = lock_whole(file_.get()); reason != 0) {
    if (!has_no_locks(reason)) {  // EAGAIN or EACCES: another process may hold it
      file_.close();
      if (reason == ESTALE) return Tried::stale;
      throw_cannot_write("lock", path_, reason);
    }
    const bool held = reason == EAGAIN || reason == EACCES;
    if (!held && !is_lock(file_.get(), path_)) {
      file_.close();
      throw_no_lock(path_);
    }
    if (held) holder_ = holder_in(file_.get());
    struct stat info {};
    // Without locks the new empty file serves no purpose.
    if (!held && ::fstat(file_.get(), &info) == 0 && info.st_size == 0) ::unlink(path_.c_str());
    file_.close();
    if (held) return Tried::held;
    log_warning("{} has no locks ({}), so nothing checks whether another process writes there", folder_,
                std::generic_category().message(reason));
    return Tried::taken;
  }
  if (!is_named()) {
    struct stat lost {};
    const bool stale = ::fstat(file_.get(), &lost) != 0 && errno == ESTALE;
    file_.close();
    return stale ? Tried::stale : Tried::removed;
  }
  if (!is_lock(file_.get(), path_)) {
    file_.close();
    throw_no_lock(path_);
  }
  const auto line = name_ + "\n";
  // Synced, because other machines must be able to read it. Where the disk takes no more, the lock still holds.
  if (::ftruncate(file_.get(), 0) != 0 || write_all(file_.get(), line) != 0 || ::fsync(file_.get()) != 0)
    log_debug("{} does not say who holds it: {}", path_, std::generic_category().message(errno));
  return Tried::taken;
}

FolderLock::~FolderLock() {
  if (!file_.is_open()) return;
  try {
    // The lock is held until the file has lost its name. So the next holder creates a new file.
    if (is_named() && name_in(file_.get()) == name_ && ::unlink(path_.c_str()) != 0 && ::ftruncate(file_.get(), 0) != 0)
      log_debug("{} could not be removed or emptied", path_);
  } catch (const std::exception& e) {  // cannot tell whose file it is; this process's end releases the lock
    log_debug("{} could not be removed: {}", path_, e.what());
  }
}

bool FolderLock::is_named() const { return names(path_, file_.get()); }

void FolderLock::require_alone() const {
  if (!file_.is_open()) return;
  // Opened anew, so that the file server is asked.
  const Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.is_open()) return;
  const auto other = name_in(file.get());
  if (!other.empty() && other != name_) throw_shared(folder_, name_, other);
}

void FolderLock::require_free(const std::string& folder, const std::string& advice) {
  const auto path = folder + "/" + lock_name;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.is_open() && (errno == ENOENT || errno == ENOTDIR)) return;
  if (!file.is_open() && errno == ELOOP) throw_no_lock(path);
  if (!file.is_open()) throw_cannot_write("lock", path, errno);
  const bool held = use_of(file.get()) == Use::somebody;
  const auto name = held ? holder_in(file.get()) : "";
  const bool ours = is_lock(file.get(), path);
  if (held) throw_held(folder, name, advice);
  if (!ours) throw_no_lock(path);
}

bool FolderLock::is_there(const std::string& folder) {
  const auto path = folder + "/" + lock_name;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.is_open()) return errno != ENOENT && errno != ENOTDIR && errno != ELOOP;
  return is_lock(file.get(), path);
}

FolderLock::Look FolderLock::look(const std::string& folder) try {
  const auto path = folder + "/" + lock_name;
  for (int tries = 0; tries < most_removals; ++tries) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file.is_open()) return {errno == ENOENT || errno == ENOTDIR ? Use::nobody : Use::unknown, ""};
    const auto name = is_lock(file.get(), path) ? name_in(file.get()) : "";
    if (const auto use = use_of(file.get()); use != Use::nobody)
      return {use, is_lock(file.get(), path) ? name_in(file.get()) : ""};
    // A holder that ends normally removes the file before it releases the lock. Then the name in the file means
    // nothing.
    if (names(path, file.get())) return {Use::nobody, name};
  }
  return {Use::unknown, ""};
} catch (const EnvironmentError&) {  // the file cannot be read
  return {Use::unknown, ""};
}

void throw_shared(const std::string& folder, const std::string& mine, const std::string& other) {
  throw base::EnvironmentError(fmt::format("two runs write in {}: this one, {}, and {}", folder, mine, other),
                               "its lock was removed, or the locks of this file system do not hold across machines: "
                               "stop the other one, and start this one again");
}

}  // namespace trainyard::base
