// The lock on fcntl's locks of open file descriptions.
#include "libtrain/io/folder_lock.h"

#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/log.h"
#include "libtrain/io/system_error.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <utility>

namespace trainyard::io {

namespace {

// How often in turn a lock may be found removed.
constexpr int most_removals = 100;

// 0 or the system's reason. Kernels and file systems without locks of open files have at least those of processes.
int lock_whole(int file) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (::fcntl(file, F_OFD_SETLK, &whole) == 0) return 0;
  if (errno != EINVAL) return errno;
  return ::fcntl(file, F_SETLK, &whole) == 0 ? 0 : errno;
}

constexpr std::string_view first_word = "process ";

std::string own_name() {
  const char* job = std::getenv("SLURM_JOB_ID");
  return fmt::format("{}{} on {}{}, since {}", first_word, ::getpid(), base::host_name(), job == nullptr ? "" : fmt::format(", Slurm job {}", job), base::utc_now());
}

// Empty, or what a holder wrote that did not live to empty it.
bool is_lock(int file) {
  std::array<char, first_word.size()> text{};
  const auto n = ::pread(file, text.data(), text.size(), 0);
  return n == 0 || std::string_view(text.data(), n > 0 ? static_cast<std::size_t>(n) : 0) == first_word;
}

// Its holder writes it just after taking the lock.
std::string holder_in(int file) {
  std::array<char, 512> text{};
  for (int tries = 0; tries < 5; ++tries) {
    const auto n = ::pread(file, text.data(), text.size(), 0);
    const std::string line(text.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
    if (line.ends_with('\n')) return line.substr(0, line.find('\n'));
    ::usleep(10000);
  }
  return "another process, which has not said who it is";
}

}  // namespace

FolderLock::FolderLock(const std::string& folder, const std::string& advice, std::chrono::milliseconds patience) : folder_(folder), path_(folder + "/" + lock_name) {
  const auto until = std::chrono::steady_clock::now() + patience;
  int removals = 0;
  for (auto tried = try_to_take(); tried != Tried::taken; tried = try_to_take()) {
    if (tried == Tried::removed) {   // its holder gave it up just now: the next file is ours, unless a file server shows one under the name and opens another
      if (++removals > most_removals) throw base::EnvironmentError(fmt::format("{} is another file each time that it is opened", path_), "a file system that does so has no locks: use another one");
      if (removals > 1) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      continue;
    }
    if (std::chrono::steady_clock::now() >= until) throw base::EnvironmentError(fmt::format("{} is in use by {}", folder_, holder_), advice);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

FolderLock::Tried FolderLock::try_to_take() {
  file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file_ < 0) throw_cannot_write("lock", path_, errno);
  if (const int reason = lock_whole(file_); reason != 0) {
    const bool held = reason == EAGAIN || reason == EACCES;
    if (held) holder_ = holder_in(file_);
    ::close(std::exchange(file_, -1));
    if (held) return Tried::held;
    base::log_warning("{} has no locks ({}): that no other process writes there is not checked", folder_, std::generic_category().message(reason));
    return Tried::taken;
  }
  struct stat held {}, named {};
  if (::fstat(file_, &held) != 0 || ::stat(path_.c_str(), &named) != 0 || held.st_dev != named.st_dev || held.st_ino != named.st_ino) {
    ::close(std::exchange(file_, -1));
    return Tried::removed;
  }
  if (!is_lock(file_)) {
    ::close(std::exchange(file_, -1));
    throw base::InputError(fmt::format("{} is not the lock of a run: somebody wrote it", path_), "move it away, or choose another folder");
  }
  const auto line = own_name() + "\n";
  // Synced, because another machine shall read it. Where nothing more can be written the lock holds all the same.
  if (::ftruncate(file_, 0) != 0 || ::pwrite(file_, line.data(), line.size(), 0) < 0 || ::fsync(file_) != 0)
    base::log_debug("{} does not say who holds it: {}", path_, std::generic_category().message(errno));
  return Tried::taken;
}

FolderLock::~FolderLock() {
  if (file_ < 0) return;
  if (::ftruncate(file_, 0) != 0) base::log_debug("{} keeps its text", path_);
  ::close(file_);
}

}  // namespace trainyard::io
