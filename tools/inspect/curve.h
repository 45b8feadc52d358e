// A curve drawn with characters: braille dots where the terminal speaks UTF-8, stars where it does not.
#pragma once

#include "tools/common/terminal.h"

#include <string>
#include <vector>

namespace trainyard::inspect {

struct Point {
  double x, y;
};

// `columns` x `rows` characters in all, labels included; points need not be sorted; those that are not finite are left
// out. The mean of the points in a dot column is drawn, so that a noisy curve of many steps stays readable. Empty text
// without points.
std::string draw(const std::vector<Point>& points, int columns, int rows, tools::Glyphs glyphs);

}  // namespace trainyard::inspect
