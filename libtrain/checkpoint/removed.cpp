// Compares the folder that a path names now with the one that it named before.
#include "libtrain/checkpoint/removed.h"

#include "libtrain/base/log.h"
#include "libtrain/base/setting_text.h"

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <sys/stat.h>
#include <thread>

namespace trainyard::checkpoint {

void throw_removed(const std::string& path) {
  throw Removed(
      fmt::format("checkpoint {} was removed or renamed while it was read", path),
      base::text(
          "a run removes its oldest checkpoints as it saves ($keep): start again with the run's folder, of which "
          "the newest is read, or copy a checkpoint that is to stay"));
}

Presence::Presence(std::string path, Seen seen)
    : path_(std::move(path)), found_(look(device_, inode_)), there_(found_ || seen == Seen::listed) {}

bool Presence::look(dev_t& device, ino_t& inode) const {
  struct stat info {};
  if (::stat(path_.c_str(), &info) != 0) return false;
  device = info.st_dev, inode = info.st_ino;
  return true;
}

bool Presence::is_lost() const {
  dev_t device = 0;
  ino_t inode = 0;
  if (!there_) return false;
  if (look(device, inode)) return !found_ || device != device_ || inode != inode_;
  return errno == ENOENT || errno == ENOTDIR || errno == ESTALE;
}

void look_again(const Removed& removed, const std::vector<std::string>& places, int looks) {
  constexpr int most = 20;
  if (looks >= most) throw removed;
  for (const auto& place : places)
    if (std::error_code error; !std::filesystem::exists(place, error)) throw removed;
  base::log_info("{}: looking again", removed.what());
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // a file server may show removed files for a while
}

}  // namespace trainyard::checkpoint
