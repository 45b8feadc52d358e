// The range of an axis of a drawing: from values to places, and what is written beside it.
#pragma once

#include "tools/common/svg_chart.h"

#include <cmath>
#include <string>
#include <vector>

namespace trainyard::tools {

class SvgRange {
 public:
  struct Tick {
    double value;
    std::string text;
  };

  explicit SvgRange(SvgScale scale) : scale_(scale) {}
  // Can a value be drawn: finite, with room for differences and margins, and positive where there is a logarithm.
  bool holds(double v) const { return std::abs(v) < 1e290 && (scale_ == SvgScale::linear || v > 1e-290); }
  void take(double v);
  bool any() const { return low_ <= high_; }
  void widen();  // a margin at both ends
  // 0 at the low end, 1 at the high one; a range without width is in the middle.
  double at(double v) const;
  // Round numbers inside of the range, about so many, and its ends where there are fewer than two.
  std::vector<Tick> ticks(double about) const;

 private:
  std::vector<double> linear_ticks(double about) const;
  std::vector<double> decades(double about) const;
  std::vector<double> powers_of_two(double about) const;

  SvgScale scale_;
  double low_ = INFINITY, high_ = -INFINITY;
};

}  // namespace trainyard::tools
