// FolderLock: a folder has one writer, on whatever machine, and a writer that died holds nothing.
#pragma once

#include <chrono>
#include <string>

namespace trainyard::io {

inline constexpr const char* lock_name = "lock";

// A write lock of fcntl on FOLDER/lock. The kernel, or on a shared folder the file server, gives it up when its holder ends, however that was. It belongs to the open file, not to
// the process, so that no other piece of code loses it by closing the file, and two holders in one process exclude each other too. The file says in a sentence who took the lock
// last; it is emptied when the lock is given up, but not when its holder was killed: only the lock itself says whether it is held. It may be removed by its holder: who had opened it before notices.
// A file system without locks: a warning, and nothing is held.
class FolderLock {
 public:
  // EnvironmentError, naming host, process, Slurm job and since when, if somebody else holds it for longer than `patience`; `advice` is its hint. The folder must exist.
  FolderLock(const std::string& folder, const std::string& advice, std::chrono::milliseconds patience = {});
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;

 private:
  enum class Tried { taken, held, removed };
  Tried try_to_take();

  std::string folder_, path_, holder_;
  int file_ = -1;
};

}  // namespace trainyard::io
