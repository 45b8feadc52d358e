// Finding checkpoints in a run's folder of checkpoints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

// The folder is the truth; the file `latest` is a hint for people and never read here.
struct Found {
  std::int64_t step = -1;
  std::string path;                  // empty: none
  std::vector<std::string> refused;  // find_latest_whole: newer ones that were passed over, each with the reason
  explicit operator bool() const { return !path.empty(); }
};

// Folders called step-NNNNNNNN, newest (highest step) first. Contents are not read: one may lack its manifest. An
// absent folder is empty; InputError for one that cannot be looked at, or is a link to nothing.
std::vector<Found> list(const std::string& folder);

// What a run that was set back has left: abandoned-step-NNNNNNNN, with .2, .3 ... where a name was taken; newest first.
// Nobody chooses or removes them.
std::vector<Found> list_abandoned(const std::string& folder);
// Gives a checkpoint such a name; returns its new path.
std::string set_aside(const Found& checkpoint);

// Names of other entries than those of interrupted writers (*.partial) and of file systems (lost+found, a dot first):
// where there are none a new run may begin.
std::vector<std::string> entries(const std::string& folder);

enum class Verify { metadata, everything };
// The newest of list() that passes: manifest, sizes and checksums of metadata, or with `everything` every byte. Each
// one that is passed over is logged as a warning and kept in `refused`. Removes nothing. One that cannot be read
// (base::Unreadable) is not passed over: that is thrown. Where one goes while it is read the folder is listed again
// (checkpoint/removed.h). An absent or empty folder gives an empty Found. Paths in
// `without` are known to be damaged: they are passed over silently.
Found find_latest_whole(const std::string& folder, Verify verify, const std::vector<std::string>& without = {});

// Removes what interrupted writers left (step-NNNNNNNN.partial), or gives it its name back (base::publish_folder); call
// it before any rank writes. UsageError when there is something under such a name that is not of their writing. Other
// names stay.
void remove_stale_partials(const std::string& folder);

}  // namespace trainyard::checkpoint
