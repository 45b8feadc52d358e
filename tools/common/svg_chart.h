// Charts as SVG files: panels in a grid, each with axes, curves, bands and measured points. Whatever is drawn for
// people to keep goes through here, so that all drawings look alike: readable on light and on dark screens, and
// well-formed whatever names and numbers they are made of.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace trainyard::tools {

enum class SvgScale { linear, logarithmic, sizes };  // sizes: logarithmic, of bytes, with ticks at powers of two
struct SvgAxis {
  std::string label;
  SvgScale scale = SvgScale::linear;
  std::vector<std::string> names = {};  // of rows, in place of numbers: the first stands at the highest value, n - 1
  // A scale of its own for each row, at the right: where, from the middle of the row, and what is written there. From
  // the lowest to the highest.
  struct Mark {
    double at;
    std::string text;
  };
  std::vector<Mark> row_scale = {};
};

struct SvgPoint {
  double x, y;
};
// Points by ascending x; those that are not finite, or not positive on a logarithmic axis, break nothing: they are left
// out. A curve of more points than the panel has pixels across is drawn as the mean of each column of them, in the band
// from the least to the largest.
struct SvgCurve {
  std::string name;  // for the legend, which a panel has when any of its curves has a name
  std::vector<SvgPoint> points;
  int color = 0;        // of eight
  bool dashed = false;  // so that two curves of one color differ
  bool dots = false;    // few points: each is marked
};
struct SvgBand {  // the area between two curves with the same places
  std::vector<SvgPoint> low, high;
  int color = 0;
};
struct SvgMark {  // a measured point, how sure it is, and what to show under a pointer
  double x, y, low, high;
  std::string title;
};

struct SvgBar {  // in a row of its own: from one x to another, around y, `height` of a row high
  double begin = 0, end = 0, y = 0, height = 0.8;
  int color = 0;
  std::string text;   // in it, where there is room
  std::string title;  // under a pointer
  double opacity = 0.25;
};

struct SvgKey {  // what bars of a color are
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
  std::vector<SvgKey> keys = {};  // in the legend, behind the curves
};
struct SvgLayout {
  int columns = 1;  // of panels
  double width = 860, height = 420;
};

// The whole file. A panel without a point that can be drawn says so.
std::string svg_drawing(const std::vector<SvgPanel>& panels, const std::string& caption, SvgLayout layout);

// Is a curve better looked at on a logarithmic axis: all values positive, and over more than two decades.
SvgScale fitting_scale(const std::vector<SvgCurve>& curves);

}  // namespace trainyard::tools
