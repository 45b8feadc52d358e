// Drawings as files: SVG, or PNG where rsvg-convert makes one of it.
#pragma once

#include "libtrain/base/owned.h"

#include <string>
#include <vector>

namespace trainyard::tools {

// Before any work: can a drawing be written under the name that a flag has got? UsageError for an ending of another
// kind of file than .svg and .png; EnvironmentError for .png where PATH has no rsvg-convert. Without an ending, and for
// "-", it is SVG.
void require_drawing_name(const std::string& flag, const std::string& path);

// What may be replaced: drawings that these programs made. `precious`: what the program reads.
base::Owned own_drawings(std::vector<std::string> precious);

// UsageError where `path` is something else than a drawing of ours; then writes, whole. `svg` is what svg_drawing made.
void write_drawing(const std::string& path, const std::string& svg, std::vector<std::string> precious);

}  // namespace trainyard::tools
