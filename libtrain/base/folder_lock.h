// FolderLock: a folder has one writer, on any machine, and a dead writer's lock is free.
#pragma once

#include "libtrain/base/descriptor.h"
#include "libtrain/base/error.h"

#include <chrono>
#include <string>

namespace trainyard::base {

inline constexpr const char* lock_name = "lock";

// Another process or object holds the lock.
struct FolderHeld : EnvironmentError {
  using EnvironmentError::EnvironmentError;
};

// A write lock of fcntl on the file FOLDER/lock. When its holder ends in any way, the kernel, or on a shared folder the
// file server, releases it. The lock belongs to the open file, not to the process. So other code cannot lose it by
// closing the same file, and two holders in one process exclude each other too. The file holds a sentence that names
// who took the lock last. A holder removes the file when it releases the lock, but a killed holder leaves it. So only
// the lock itself shows whether it is held. A process that opened the file before its removal notices the removal. On a
// file system without locks there is a warning, and nothing is held.
class FolderLock {
 public:
  // Takes the lock. FolderHeld if another holder keeps it for longer than `longest_wait`; the message names its host,
  // process, Slurm job and start time, and the hint is `advice`. The folder must exist.
  FolderLock(const std::string& folder, const std::string& advice, std::chrono::milliseconds longest_wait = {});
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;

  // This holder's name as in the file: process, host, Slurm job, start time, and a random number that no other start
  // has.
  const std::string& name() const { return name_; }
  bool is_held() const { return file_.is_open(); }  // false: the file system has no locks
  // Throws EnvironmentError, naming both holders, when another one has since written its name into the file. That
  // happens because a file system may grant one lock to two machines. Does nothing where the file is gone.
  void require_alone() const;
  // Whether a folder is in use, for an outside observer; takes no lock and writes nothing. `name` is the holder's name.
  // With no holder, it is the name that a killed holder left in the file, else "". unknown: the system cannot tell.
  enum class Use { nobody, somebody, unknown };
  struct Look {
    Use use = Use::nobody;
    std::string name;
  };
  static Look look(const std::string& folder);
  // Whether FOLDER/lock is a file that a holder made: it is empty, or names a holder. Also true for a file that cannot
  // be opened.
  static bool is_there(const std::string& folder);
  // Throws what the constructor would throw at once, but takes no lock and writes nothing. A folder that does not exist
  // is free.
  static void require_free(const std::string& folder, const std::string& advice);

 private:
  enum class Tried { taken, held, removed, stale };
  Tried try_to_take();

  bool is_named() const;  // the path still names the open file

  std::string folder_, path_, holder_, name_;
  Descriptor file_;
};

// Throws the EnvironmentError for a folder in which two processes write; `mine` and `other` are as from
// FolderLock::name().
[[noreturn]] void throw_shared(const std::string& folder, const std::string& mine, const std::string& other);

}  // namespace trainyard::base
