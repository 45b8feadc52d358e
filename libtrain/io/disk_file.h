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
  // EnvironmentError where no file can be made, or where the folder's file system has not enough free space.
  DiskFile(std::string folder, std::int64_t bytes);

  const std::string& folder() const { return folder_; }
  int get() const { return file_.get(); }
  std::int64_t bytes() const;  // as the file system says; without reserved space the end of what was written
  bool is_direct() const { return is_direct_; }
  // Asks the system to drop its copy of bytes that were just read or written; direct files have none.
  void forget(std::int64_t offset, std::int64_t bytes) const;

 private:
  void reserve(std::int64_t bytes);
  void avoid_page_cache(std::int64_t bytes);

  std::string folder_;
  base::Descriptor file_;
  bool is_direct_ = false;
};

}  // namespace trainyard::io
