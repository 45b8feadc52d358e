// The newest checkpoint of a folder that is whole.
#pragma once

#include "libtrain/checkpoint/finder.h"

#include <string>
#include <vector>

namespace trainyard::checkpoint {

enum class Verify { metadata, everything };
// Returns the newest checkpoint of list() that passes the checks: manifest, sizes and checksums of metadata; with
// `everything` also every byte. A checkpoint that fails is skipped, logged as a warning, and kept in `refused`. Nothing
// is removed. base::Unreadable (the system cannot read it) is thrown, not skipped. If a checkpoint disappears while it
// is read, the folder is listed again (checkpoint/removed.h). A folder that is missing or empty gives an empty Found.
// Paths in `without` are known to be damaged and are skipped silently.
Found find_latest_whole(const std::string& folder, Verify verify, const std::vector<std::string>& without = {});

}  // namespace trainyard::checkpoint
