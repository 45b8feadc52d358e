// Charts as SVG files: panels in a grid, each with axes, curves, bands and measured points. All drawings for people to
// keep are made here, so they look alike. They are readable on light and on dark screens, and well-formed for any names
// and numbers.
#pragma once

#include "tools/common/svg_axis.h"

#include <string>
#include <vector>

namespace trainyard::tools {

struct SvgAxis {
  std::string label;
  SvgScale scale = SvgScale::linear;
  // Names of rows, in place of numbers. The first is at the highest value, n - 1.
  std::vector<std::string> names = {};
  // A scale of its own for each row, at the right, from the lowest mark to the highest. `at` is the position relative
  // to the middle of the row, `text` its label.
  struct Mark {
    double at;
    std::string text;
  };
  std::vector<Mark> row_scale = {};
};

struct SvgPoint {
  double x, y;
};
// Points by ascending x. Points that are not finite, or not positive on a logarithmic axis, are left out. A curve may
// have more points than the panel has pixels across. Then each pixel column shows their mean, and a band from the least
// to the largest.
struct SvgCurve {
  std::string name;  // for the legend; a panel has one if any of its curves has a name
  std::vector<SvgPoint> points;
  int color = 0;        // index of one of eight colors
  bool dashed = false;  // to tell curves of one color apart
  bool dots = false;    // marks each point; for few points
};
struct SvgBand {  // the area between two curves that have the same x values
  std::vector<SvgPoint> low, high;
  int color = 0;
};
struct SvgMark {  // a measured point, its interval, and its tooltip
  double x, y, low, high;
  std::string title;
};

struct SvgBar {  // a bar in a row: from `begin` to `end`, centred at `y`, `height` in units of a row
  double begin = 0, end = 0, y = 0, height = 0.8;
  int color = 0;
  std::string text;   // inside the bar, if there is room
  std::string title;  // tooltip
  double opacity = 0.25;
};

struct SvgKey {  // the legend entry for bars of one color
  std::string name;
  int color = 0;
};

struct SvgPanel {
  std::string title;
  SvgAxis x, y;
  std::vector<SvgCurve> curves;
  std::vector<SvgBand> bands;
  std::vector<SvgMark> marks;
  std::vector<SvgBar> bars = {};
  std::vector<SvgKey> keys = {};  // in the legend, after the curves
  double height = 0;              // 0: the layout's; else panels beside it should have the same
};
struct SvgLayout {
  int columns = 1;  // panels in a row
  double width = 860, height = 420;
};

// Returns the whole file. A panel without a drawable point says so.
std::string svg_drawing(const std::vector<SvgPanel>& panels, const std::string& caption, SvgLayout layout);

// Logarithmic if all values are positive and span more than two decades, else linear.
SvgScale fitting_scale(const std::vector<SvgCurve>& curves);

}  // namespace trainyard::tools
