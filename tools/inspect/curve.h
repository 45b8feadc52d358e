// Curves drawn with characters: braille dots if the terminal uses UTF-8, else stars.
#pragma once

#include "tools/common/terminal.h"

#include <string>
#include <vector>

namespace trainyard::inspect {

struct Point {
  double x, y;
};

// One curve of a chart. `letter` 0 draws fine dots, any other draws that letter. `joined` draws along its whole way,
// else only where it has points.
struct Curve {
  std::vector<Point> points;
  char letter = 0;
  bool joined = true;
};

// Draws curves in `columns` x `rows` characters, labels included, but at most 1000 x 500. Points need not be sorted;
// points that are not finite are left out. A dot column shows the mean of its points, so that a noisy curve of many
// steps stays readable. Where letters meet it draws '='. `across` names what x counts. Returns "" without points.
std::string draw(const std::vector<Curve>& curves, int columns, int rows, tools::Glyphs glyphs,
                 const std::string& across = "step");

}  // namespace trainyard::inspect
