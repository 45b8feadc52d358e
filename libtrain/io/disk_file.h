// DiskFile: a file without a name, with its space reserved, for direct reads and writes.
#pragma once

#include "libtrain/base/descriptor.h"

#include <cstdint>
#include <string>

namespace trainyard::io {

// The file has no name from the beginning, or loses it at once, so nothing stays behind when the process ends, however
// it ends. Only on a network file system the server may keep a hidden name until then.
class DiskFile {
 public:
  // EnvironmentError where no file can be made, or where the folder's file system has not enough free space. Its hint
  // names the setting that names folders, such as "offload-dir", unless that is empty.
  DiskFile(std::string folder, std::int64_t bytes, std::string setting = {});

  const std::string& folder() const { return folder_; }
  int get() const { return file_.get(); }
  std::int64_t bytes() const;  // as the file system says; without reserved space the end of what was written
  bool is_direct() const { return is_direct_; }
  const std::string& setting() const { return setting_; }
  // Asks the system to drop its copy of bytes that were just read or written; direct files have none.
  void forget(std::int64_t offset, std::int64_t bytes) const;

 private:
  void reserve(std::int64_t bytes);
  void avoid_page_cache(std::int64_t bytes);

  std::string folder_, setting_;
  base::Descriptor file_;
  bool is_direct_ = false;
};

// What a DiskFile of a folder would find now. `system` is equal for folders of one file system of this machine. `free`:
// bytes that this user may take; -1 if the file system does not say.
struct FolderRoom {
  std::string system;
  std::int64_t free = -1;
};
// Makes a file without a name and drops it, so that nothing stays and no space is taken. EnvironmentError as DiskFile.
FolderRoom look_at_folder(const std::string& folder, const std::string& setting = {});

// base::hint_for, of a folder for what a rank has on disk.
std::string folder_hint(int error_number, const std::string& setting);

}  // namespace trainyard::io
