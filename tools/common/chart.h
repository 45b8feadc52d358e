// A curve in the terminal.
#pragma once

#include <string>
#include <vector>

namespace trainyard::tools {

struct ChartOptions {
  int width = 72, height = 12;
  std::string x_label = "step", y_label = "loss";
  enum class Glyphs { blocks, ascii } glyphs = Glyphs::blocks;
};
// Averages the points that fall into one column; values that are not finite are left out. Empty for no points.
std::string draw_chart(const std::vector<double>& x, const std::vector<double>& y, const ChartOptions& options);
ChartOptions::Glyphs terminal_glyphs();   // blocks in a UTF-8 locale

}  // namespace trainyard::tools
