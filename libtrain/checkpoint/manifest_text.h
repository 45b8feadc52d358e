// The manifest as text: sealed JSON, in the file manifest.json.
#pragma once

#include "libtrain/checkpoint/manifest.h"

#include <optional>
#include <string>

namespace trainyard::checkpoint {

// The text of a version 2 manifest, sealed: the last line holds the CRC32C of everything before it.
std::string manifest_text(const Manifest& manifest);
// Parses a manifest. InputError that begins with `where` for a broken seal, another format, a newer major version, or a
// missing key. Unknown keys are ignored. For version 2, read_indices adds the rest.
Manifest manifest_from_text(const std::string& text, const std::string& where);

// The text of a manifest of either version with another entry for the view, or without one. All else stays as it is.
// Throws as manifest_from_text does.
std::string with_view(const std::string& text, const std::string& where, const std::optional<FileEntry>& view);

}  // namespace trainyard::checkpoint
