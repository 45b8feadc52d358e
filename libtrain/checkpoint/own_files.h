// Which folders and files beside checkpoints are of our writing, so that they may go.
#pragma once

#include "libtrain/base/owned.h"

#include <string_view>

namespace trainyard::checkpoint {

// In a checkpoint that a run has set aside: the lines of metrics that led to it.
inline constexpr const char* history_name = "history.jsonl";

// Would a writer of checkpoints leave such a name unfinished: step-NNNNNNNN.partial, step-NNNNNNNN.replaced.partial,
// step-NNNNNNNN.removed.partial, step-NNNNNNNN.removed.N.partial, latest.partial?
bool is_unfinished_name(std::string_view name);

// Folders that hold nothing but files of a checkpoint, whole or unfinished; of files only latest.partial.
base::Owned own_checkpoints();

}  // namespace trainyard::checkpoint
