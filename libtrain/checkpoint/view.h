// The virtual view of a checkpoint: checkpoint.h5 shows whole logical tensors that lie in the rank files.
#pragma once

#include "libtrain/checkpoint/manifest.h"

#include <cstdint>
#include <string>

namespace trainyard::checkpoint {

inline constexpr const char* view_name = "checkpoint.h5";
// With more mapped boxes than this a checkpoint is published without the view; `inspect --make-view` makes it on
// demand.
inline constexpr std::int64_t largest_view = 200'000;

std::int64_t boxes_in_view(const Manifest& manifest);
// Writes FOLDER/checkpoint.h5, synced, and returns its entry for the manifest. Of the manifest the view itself is not
// used.
FileEntry write_view(const std::string& folder, const Manifest& manifest);
// Adds the view to a published checkpoint (replacing one that is there) and to its manifest. Throws as write_view and
// Reader do.
void make_view(const std::string& checkpoint);

}  // namespace trainyard::checkpoint
