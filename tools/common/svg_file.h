// Drawings as files: SVG, or PNG, which rsvg-convert makes of the SVG.
#pragma once

#include "libtrain/base/owned.h"

#include <string>
#include <vector>

namespace trainyard::tools {

// Call it before any work: checks that a drawing can be written to the path of a flag. UsageError for an ending other
// than .svg and .png. EnvironmentError for .png if PATH has no rsvg-convert. Without an ending, and for "-", the
// drawing is SVG.
void require_drawing_name(const std::string& flag, const std::string& path);

// What may be replaced: only drawings that these programs made. `precious` is what the program reads.
base::Owned own_drawings(std::vector<std::string> precious);

// Writes a drawing, whole or not at all. UsageError if `path` is something other than a drawing of ours. `svg` is what
// svg_drawing made.
void write_drawing(const std::string& path, const std::string& svg, std::vector<std::string> precious);

}  // namespace trainyard::tools
