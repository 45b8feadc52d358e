// A checkpoint that is removed while it is read, because its run removes old checkpoints as it saves. This is told
// apart from damage, and the run is searched again.
#pragma once

#include "libtrain/base/error.h"

#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace trainyard::checkpoint {

// What was read says nothing about the checkpoint's content.
struct Removed : base::InputError {
  using base::InputError::InputError;
};
// Throws Removed for the folder `path`.
[[noreturn]] void throw_removed(const std::string& path);

// Checks whether a path still names the folder that it named when this object was made, or shortly before, when a
// listing showed it (Seen::listed).
enum class Seen { now, listed };
class Presence {
 public:
  Presence(std::string path, Seen seen);
  const std::string& path() const { return path_; }
  // True if the name is gone or now names another folder. False if there was no folder at first, or if the system does
  // not say.
  bool is_lost() const;

 private:
  bool look(dev_t& device, ino_t& inode) const;
  std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  bool found_, there_;
};

// Runs `read`, which reads the checkpoints in the folders `paths`. An InputError that it throws becomes Removed if one
// of them is lost by then.
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

// Call it in the handler of a Removed. It throws the error again after the 20th look, or if one of `places` does not
// exist. Otherwise it logs that it looks again, and waits shortly.
void look_again(const Removed& removed, const std::vector<std::string>& places, int looks);

// Runs `read`, which looks for a checkpoint in each of `places` (runs or checkpoints) and reads it. Repeats it if a
// checkpoint was removed meanwhile and all places still exist.
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
