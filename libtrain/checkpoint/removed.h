// A checkpoint that goes while it is read: its run removes its oldest ones as it saves. Told apart from damage, and the
// run is looked at again.
#pragma once

#include "libtrain/base/error.h"

#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace trainyard::checkpoint {

// InputError: what was read says nothing of the checkpoint's content.
struct Removed : base::InputError {
  using base::InputError::InputError;
};
// A Removed of the folder `path`.
[[noreturn]] void throw_removed(const std::string& path);

// Whether a path still names the folder that it named when this was made, or just before, by a list of where it lies.
enum class Seen { now, listed };
class Presence {
 public:
  Presence(std::string path, Seen seen);
  const std::string& path() const { return path_; }
  // Its name has gone, or is another folder's. False where there was none at first, and where the system does not say.
  bool is_lost() const;

 private:
  bool look(dev_t& device, ino_t& inode) const;
  std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  bool found_, there_;
};

// Runs `read`, which reads the checkpoints in the folders `paths`. What it throws as an InputError is a Removed where
// one of them is lost by then.
template <class Read> auto reading(const std::vector<std::string>& paths, Read&& read, Seen seen = Seen::now) {
  std::vector<Presence> presences;
  for (const auto& path : paths) presences.emplace_back(path, seen);
  try {
    return read();
  } catch (const Removed&) {
    throw;
  } catch (const base::InputError&) {
    for (const auto& presence : presences)
      if (presence.is_lost()) throw_removed(presence.path());
    throw;
  }
}

// From the handler of a Removed, which it throws again after the 20th look, and where one of `places` is not there.
// Else it says that it looks again.
void look_again(const Removed& removed, const std::vector<std::string>& places, int looks);

// Runs `read`, which looks for a checkpoint in each of `places` (runs or checkpoints) and reads it; again, where one
// was removed meanwhile and all places are there.
template <class Read> auto looking_again(const std::vector<std::string>& places, Read&& read) {
  for (int looks = 1;; ++looks) {
    try {
      return read();
    } catch (const Removed& removed) {
      look_again(removed, places, looks);
    }
  }
}

}  // namespace trainyard::checkpoint
