// A curve drawn with characters: braille dots where the terminal speaks UTF-8, stars where it does not.
#pragma once

#include "tools/common/terminal.h"

#include <string>
#include <vector>

namespace trainyard::inspect {

struct Point {
  double x, y;
};

// One of several in a chart: drawn with fine dots, or with a letter of its own, along its whole way or only where it
// has points.
struct Curve {
  std::vector<Point> points;
  char letter = 0;
  bool joined = true;
};

// `columns` x `rows` characters in all, labels included, and less where that is more than anybody
// sees (1000 x 500); points need not be sorted; those that are not finite are left
// out. The mean of the points in a dot column is drawn, so that a noisy curve of many steps stays readable. Where
// letters meet stands '='. `across` is what x counts. Empty text without points.
std::string draw(const std::vector<Curve>& curves, int columns, int rows, tools::Glyphs glyphs,
                 const std::string& across = "step");

}  // namespace trainyard::inspect
