// Resolves the path that a user gives for a checkpoint: its folder, or a run, which means the newest whole checkpoint
// of the run.
#pragma once

#include <string>

namespace trainyard::checkpoint {

// Returns `path` itself if it is a checkpoint. Otherwise returns the newest whole checkpoint (manifest, sizes,
// checksums of metadata) in the subfolder `checkpoints`, or in `path` itself. InputError when there is none. Removes
// nothing.
std::string named_checkpoint(const std::string& path);

}  // namespace trainyard::checkpoint
