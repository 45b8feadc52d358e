// Files and folders that are either whole or not there: temporary name, sync, rename, sync of the folder.
#pragma once

#include "libtrain/base/owned.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::base {

class FolderLock;

// The suffix of every unfinished file or folder. While no program is writing, anything with this suffix may be deleted.
inline constexpr std::string_view partial_suffix = ".partial";

// Every function throws EnvironmentError when the system refuses to write (no space, no permission). It throws
// InputError when the system refuses to read. Both name the path and the system's reason.

// Creates a new file and opens it for `access` (O_WRONLY, O_RDWR). It first removes whatever has this name, because a
// link would lead elsewhere and a pipe would wait for a reader. The caller closes the file. Returns -1 and sets errno
// where the system refuses.
int open_new(const std::string& path, int access);

// Writes `content` to `path` + ".partial", syncs it, renames it to `path`, replacing what is there, and syncs the
// folder. The folder must exist.
void write_file(const std::string& path, std::string_view content);

// The same for a path that other processes may write too: the temporary name contains this process's id. refuse:
// UsageError if `path` exists before the write, or if another process creates it first. replace: the caller has checked
// that `path` may be replaced (base/owned.h).
enum class Existing { refuse, replace };
void write_file(const std::string& path, std::string_view content, Existing existing);

// `path` and those folders above it that do not exist, innermost first. EnvironmentError where the system cannot tell.
std::vector<std::string> missing_folders(const std::string& path);
void make_folders(const std::string& path);  // creates parents too, all durably; does nothing if it exists
void sync_folder(const std::string& path);   // makes names durable that were created or renamed in it
void sync_file(const std::string& path);
// The size of a regular file, or -1 if there is none of this name. Unreadable when the system cannot tell.
std::int64_t file_size(const std::string& path);
// Whether the path, after following links, exists, and whether it is a folder. Unreadable when the system cannot tell.
bool exists(const std::string& path);
bool is_folder(const std::string& path);
std::string parent_of(const std::string& path);  // "." when there is none
// The path without trailing slashes and "/.", which do not change its meaning.
std::string without_slashes(std::string path);

// Removes a file or a whole folder; does nothing when it is not there. A folder is first renamed to
// NAME.removed.partial, so that an interrupted removal never looks like a whole folder.
void remove_tree(const std::string& path);
// The name that remove_tree gives to a folder that it removes: NAME.removed.partial.
std::string removed_name(const std::string& path);
// The same for a locked folder. The lock is released after the rename and before anything is removed. So no other
// process takes the folder during the removal. A file server keeps files that are open, and would refuse to remove the
// folder. `last` names an entry that stays until all others are removed, by which an interrupted removal is recognized.
void remove_tree(const std::string& path, std::unique_ptr<FolderLock> lock, const std::string& last = {});

// Throws InputError unless `path` is a folder that can be listed, or does not exist. Refused are anything else, a link
// to nothing (its disk may not be mounted), and a folder without permission.
void require_folder_or_nothing(const std::string& path);

// `wanted` if that name is free, else the first free name of `wanted`.2, `wanted`.3, ...
std::string free_name(const std::string& wanted);
void rename_durably(const std::string& from, const std::string& to);  // and syncs the parent folders of both

// Renames the folder `partial` to `final_path` and syncs the parent. If `final_path` exists, the two are exchanged in
// one step and the old folder is removed. The caller has checked that it may be removed (base/owned.h). A file system
// without an exchange needs two renames, and between them the old folder is called NAME.replaced.partial. If the writer
// dies at that moment, remove_stale_partials and AtomicFolder rename it back to NAME.
void publish_folder(const std::string& partial, const std::string& final_path);

// Removes every entry of `folder` whose name ends in ".partial" and for which `is_ours` is true; returns the names. An
// old folder that publish_folder had set aside is instead renamed back, and is not among the names. UsageError, with
// nothing removed, when one of the entries is not `own` (require_own), because a writer would need its name. A folder
// that does not exist counts as empty.
std::vector<std::string> remove_stale_partials(const std::string& folder,
                                               const std::function<bool(std::string_view name)>& is_ours,
                                               const Owned& own);

// A folder under construction: NAME.partial until publish() renames it to NAME. The folder is locked (FolderLock) until
// then. Without publish(), the destructor removes it.
class AtomicFolder {
 public:
  // Creates NAME.partial and its parents, or empties a stale one. UsageError unless a stale NAME.partial and, with
  // replace, an existing NAME are `own` (see require_own); nothing is touched then. refuse: UsageError when NAME
  // exists, now or in publish(). EnvironmentError while another process writes NAME.partial.
  AtomicFolder(std::string final_path, Existing existing, Owned own);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  const std::string& path() const { return partial_; }  // write here
  const std::string& final_path() const { return final_; }
  // Files must be closed and synced; this syncs both folders. If something has appeared at NAME since the constructor,
  // the constructor's rules apply to it. Where they refuse it, this throws and NAME.partial stays, whole.
  void publish();

 private:
  void require_free() const;
  void give_up() noexcept;

  std::string final_, partial_;
  Existing existing_;
  Owned own_;
  std::unique_ptr<FolderLock> lock_;
  bool published_ = false;
};

}  // namespace trainyard::base
