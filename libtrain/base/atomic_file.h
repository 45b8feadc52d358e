// Files and folders that are whole or not there: temporary name, sync, rename, sync of the folder.
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

// The suffix of everything unfinished. Whatever carries it may be deleted when no program is writing.
inline constexpr std::string_view partial_suffix = ".partial";

// Every function throws EnvironmentError when the system refuses to write (no space, no permission), InputError when it
// refuses to read; both name the path and the system's reason.

// A new file, open for `access` (O_WRONLY, O_RDWR), in place of whatever has its name: a link would lead elsewhere, and
// a pipe would wait for a reader. The caller closes it. -1 with errno where the system refuses.
int open_new(const std::string& path, int access);

// Writes `content` to `path` + ".partial", syncs, renames over `path`, syncs the folder. The folder must exist.
void write_file(const std::string& path, std::string_view content);

// The same where other processes may write `path` too: the temporary name is this process's own, and with refuse
// whoever comes second gets a UsageError, as does one who finds `path` there. With replace the caller has made sure
// that it may be (base/owned.h).
enum class Existing { refuse, replace };
void write_file(const std::string& path, std::string_view content, Existing existing);

// `path` and the folders above it that are not there, innermost first. EnvironmentError where the system cannot say.
std::vector<std::string> missing_folders(const std::string& path);
void make_folders(const std::string& path);  // with parents, all durable; nothing to do when it exists
void sync_folder(const std::string& path);   // makes names that were created or renamed in it durable
void sync_file(const std::string& path);
std::int64_t file_size(
    const std::string& path);  // -1 when there is no such regular file; Unreadable when the system cannot say
// Is there something, or a folder, behind this path and its links. Unreadable when the system cannot say.
bool exists(const std::string& path);
bool is_folder(const std::string& path);
std::string parent_of(const std::string& path);  // "." when there is none
std::string without_slashes(
    std::string path);  // without what it may end with and still mean the same: slashes and dots

// Removes a file or a whole folder; nothing to do when it is not there. A folder is renamed to NAME.removed.partial
// first, so that an interrupted removal never looks like something whole.
void remove_tree(const std::string& path);
// The same of a folder that is locked: the lock is given up when the folder has lost its name, so that nobody takes it
// meanwhile, and before anything is removed. A file server keeps what is open, and refuses to remove the folder.
void remove_tree(const std::string& path, std::unique_ptr<FolderLock> lock);

// InputError unless `path` is a folder that can be listed, or is not there at all: something else, a link to nothing
// (whose disk may not be mounted), no permission.
void require_folder_or_nothing(const std::string& path);

std::string free_name(
    const std::string& wanted);  // `wanted`, or the first of `wanted`.2, `wanted`.3 ... that is not there
void rename_durably(const std::string& from, const std::string& to);  // and syncs the folders of both

// Puts the folder `partial` in the place of `final_path`. Without a predecessor this is a rename; an existing one is
// exchanged in one step and then removed: the caller has made sure that it may be (base/owned.h). Where the file system
// has no exchange it takes two renames, and what lay there is called NAME.replaced.partial between them:
// remove_stale_partials and AtomicFolder give it its name back if the writer died just then. Syncs the parent.
void publish_folder(const std::string& partial, const std::string& final_path);

// Removes every entry of `folder` whose name ends in ".partial" and which `is_ours` knows, but for what publish_folder
// has to give back; returns their names. UsageError, and nothing is removed, when one of them is not `own`
// (require_own): somebody else's under a name that a writer would need. An absent folder is an empty one.
std::vector<std::string> remove_stale_partials(const std::string& folder,
                                               const std::function<bool(std::string_view name)>& is_ours,
                                               const Owned& own);

// A folder under construction: NAME.partial until publish() renames it to NAME. Left unpublished it is removed by the
// destructor. It is locked (FolderLock) until then.
class AtomicFolder {
 public:
  // Empties a stale NAME.partial or creates it, parents included. Neither that nor, with replace, NAME is touched
  // unless it is `own` (UsageError, see require_own). refuse: UsageError when NAME exists, now or in publish().
  // EnvironmentError while another process writes it.
  AtomicFolder(std::string final_path, Existing existing, Owned own);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  const std::string& path() const { return partial_; }  // write here
  const std::string& final_path() const { return final_; }
  // Files must be closed and synced; syncs both folders. What came to be at NAME meanwhile is held to the same rule:
  // then this throws and NAME.partial stays, whole.
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
