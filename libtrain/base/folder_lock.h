// FolderLock: a folder has one writer, on whatever machine, and a writer that died holds nothing.
#pragma once

#include "libtrain/base/descriptor.h"
#include "libtrain/base/error.h"

#include <chrono>
#include <string>

namespace trainyard::base {

inline constexpr const char* lock_name = "lock";

// Somebody else holds the lock.
struct FolderHeld : EnvironmentError {
  using EnvironmentError::EnvironmentError;
};

// A write lock of fcntl on FOLDER/lock. The kernel, or on a shared folder the file server, gives it up when its holder
// ends, however that was. It belongs to the open file, not to the process, so that no other piece of code loses it by
// closing the file, and two holders in one process exclude each other too. The file says in a sentence who took the
// lock last; it is removed when the lock is given up, but not when its holder was killed: only the lock itself says
// whether it is held. Who had opened it before it was removed notices. A file system without locks: a warning, and
// nothing is held.
class FolderLock {
 public:
  // FolderHeld, naming host, process, Slurm job and since when, if somebody else holds it for longer than
  // `longest_wait`; `advice` is its hint. The folder must exist.
  FolderLock(const std::string& folder, const std::string& advice, std::chrono::milliseconds longest_wait = {});
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;

  // Who holds it, as the file says it: process, host, Slurm job, since when, and a number that no other start has.
  const std::string& name() const { return name_; }
  bool is_held() const { return file_.is_open(); }  // false: the file system has no locks
  // EnvironmentError naming both when another holder has written its name since: a file system may give one lock to two
  // machines. Nothing to do where the file is gone.
  void require_alone() const;
  // Who uses a folder, seen from outside: takes and writes nothing. The name is that of the holder or, where nobody is,
  // of one that was killed and could not remove the lock; "" without. unknown: the system cannot say.
  enum class Use { nobody, somebody, unknown };
  struct Look {
    Use use = Use::nobody;
    std::string name;
  };
  static Look look(const std::string& folder);
  // Is FOLDER/lock one that a holder made: a file that is empty, or says who. Of one that cannot be opened too.
  static bool is_there(const std::string& folder);
  // Throws what the constructor would at once, but takes and writes nothing. A folder that is not there is free.
  static void require_free(const std::string& folder, const std::string& advice);

 private:
  enum class Tried { taken, held, removed, stale };
  Tried try_to_take();

  bool is_named() const;  // the open file is still the one in the folder

  std::string folder_, path_, holder_, name_;
  Descriptor file_;
};

// The EnvironmentError of a folder in which two have been found writing, each named as by FolderLock::name().
[[noreturn]] void throw_shared(const std::string& folder, const std::string& mine, const std::string& other);

}  // namespace trainyard::base
