// The range of an axis of a drawing. It maps values to positions and makes the tick labels.
#pragma once

#include <cmath>
#include <string>
#include <vector>

namespace trainyard::tools {

enum class SvgScale { linear, logarithmic, sizes };  // sizes: logarithmic, in bytes, with ticks at powers of two

class SvgRange {
 public:
  struct Tick {
    double value;
    std::string text;
  };

  explicit SvgRange(SvgScale scale) : scale_(scale) {}
  // Returns whether a value can be drawn: finite, with room for differences and margins, and positive on a logarithmic
  // scale.
  bool holds(double v) const { return std::abs(v) < 1e290 && (scale_ == SvgScale::linear || v > 1e-290); }
  void take(double v);
  bool any() const { return low_ <= high_; }
  void widen();  // adds a margin at both ends
  // The position of a value: 0 at the low end, 1 at the high end. If the range has no width, it is 0.5.
  double at(double v) const;
  // About so many round numbers inside the range; its ends where there are fewer than two.
  std::vector<Tick> ticks(double about) const;

 private:
  std::vector<double> linear_ticks(double about) const;
  std::vector<double> decades(double about) const;
  std::vector<double> powers_of_two(double about) const;

  SvgScale scale_;
  double low_ = INFINITY, high_ = -INFINITY;
};

}  // namespace trainyard::tools
