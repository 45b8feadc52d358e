// What a person means by the path of a checkpoint: its folder, or a run whose newest whole checkpoint is meant.
#pragma once

#include <string>

namespace trainyard::checkpoint {

// `path` itself when it is a checkpoint; else the newest whole one (manifest, sizes, checksums of metadata) in its
// subfolder `checkpoints`, or in itself. InputError when there is none. Removes nothing.
std::string named_checkpoint(const std::string& path);

// What to do with a folder that convert-checkpoint reads, of config.json and safetensors; empty for others.
std::string hugging_face_hint(const std::string& folder);

}  // namespace trainyard::checkpoint
