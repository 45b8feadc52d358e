// Finding checkpoints in a run's folder of checkpoints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

// A checkpoint that was found. The folder decides; the file `latest` is a hint for people and is never read here.
struct Found {
  std::int64_t step = -1;
  std::string path;  // empty: none
  std::vector<std::string>
      refused;  // set by find_latest_whole (latest_whole.h): newer ones that it skipped, each with the reason
  explicit operator bool() const { return !path.empty(); }
};

// Folders called step-NNNNNNNN, newest (highest step) first. Contents are not read, so a checkpoint may lack its
// manifest. A folder that does not exist gives an empty list. InputError when the folder cannot be read, or is a
// dangling link.
std::vector<Found> list(const std::string& folder);

// Checkpoints that a run left when it went back to an earlier one, newest first. They are called
// abandoned-step-NNNNNNNN, with .2, .3 ... where a name was taken. No program chooses or removes them.
std::vector<Found> list_abandoned(const std::string& folder);
// Renames a checkpoint to such an abandoned name and returns its new path.
std::string set_aside(const Found& checkpoint);

// Names of the other entries of the folder, without interrupted writes (*.partial) and the file system's own
// (lost+found, names that begin with a dot). A new run may begin only where there are none.
std::vector<std::string> entries(const std::string& folder);

// Removes what interrupted writers left (step-NNNNNNNN.partial), or restores its final name (base::publish_folder).
// Call it before any rank writes. UsageError when such a name holds something that the writers did not write. Entries
// with other names stay.
void remove_stale_partials(const std::string& folder);

}  // namespace trainyard::checkpoint
