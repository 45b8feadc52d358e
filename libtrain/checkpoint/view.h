// The virtual view of a checkpoint: checkpoint.h5 shows whole logical tensors whose data lie in the rank files.
#pragma once

#include "libtrain/checkpoint/manifest.h"

#include <cstdint>
#include <string>

namespace trainyard::checkpoint {

// With more mapped boxes than this, a checkpoint is published without the view; `inspect --make-view` makes it on
// demand.
inline constexpr std::int64_t largest_view = 200'000;

std::int64_t boxes_in_view(const Manifest& manifest);
// Writes FOLDER/checkpoint.h5, synced, and returns its entry for the manifest. Ignores any entry of the view in
// `manifest`.
FileEntry write_view(const std::string& folder, const Manifest& manifest);
// Adds the view to a published checkpoint and to its manifest, replacing an existing view. Throws as write_view and
// Reader do.
void make_view(const std::string& checkpoint);

}  // namespace trainyard::checkpoint
