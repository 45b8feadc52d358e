// Recognises the folders and files beside checkpoints that our programs wrote, so that they may be removed.
#pragma once

#include "libtrain/base/owned.h"

#include <string_view>

namespace trainyard::checkpoint {

// Returns whether a writer of checkpoints could leave an unfinished entry of this name: step-NNNNNNNN.partial,
// step-NNNNNNNN.replaced.partial, step-NNNNNNNN.removed.partial, step-NNNNNNNN.removed.N.partial, latest.partial.
bool is_unfinished_name(std::string_view name);

// Folders that hold nothing but files of a checkpoint, whole or unfinished. Of plain files, only latest.partial.
base::Owned own_checkpoints();

}  // namespace trainyard::checkpoint
