// Places ticks at round numbers.
#include "tools/common/svg_axis.h"

#include "libtrain/base/number_text.h"
#include "tools/common/axis_text.h"

#include <algorithm>

namespace trainyard::tools {

namespace {

// 1, 2 or 5 times a power of ten, at least `least`.
double round_step(double least) {
  const double ten = std::pow(10, std::floor(std::log10(least)));
  for (const int k : {1, 2, 5})
    if (k * ten >= least * (1 - 1e-9)) return k * ten;
  return 10 * ten;
}

}  // namespace

void SvgRange::take(double v) { low_ = std::min(low_, v), high_ = std::max(high_, v); }

void SvgRange::widen() {
  if (!any()) return;
  if (scale_ != SvgScale::linear) {
    low_ /= 1.15, high_ *= 1.15;
    return;
  }
  const double margin = high_ > low_ ? (high_ - low_) * 0.04 : low_ != 0 ? std::abs(low_) * 0.05 : 1;
  low_ -= margin, high_ += margin;
}

double SvgRange::at(double v) const {
  if (!(high_ > low_)) return 0.5;
  const double share = scale_ == SvgScale::linear ? (v - low_) / (high_ - low_)
                                                  : (std::log(v) - std::log(low_)) / (std::log(high_) - std::log(low_));
  return std::clamp(share, 0.0, 1.0);
}

std::vector<double> SvgRange::linear_ticks(double about) const {
  const double step = round_step((high_ - low_) / std::max(1.0, about));
  std::vector<double> out;
  const double first = std::ceil(low_ / step - 1e-9);
  for (int i = 0; i < 100 && (first + i) * step <= high_ + step * 1e-9; ++i) out.push_back((first + i) * step);
  return out;
}

std::vector<double> SvgRange::decades(double about) const {
  const double from = std::floor(std::log10(low_)), many = std::log10(high_) - from;
  const double every = std::max(1.0, std::ceil(many / std::max(1.0, about)));
  std::vector<double> out;
  for (double power = from; power <= std::log10(high_); power += every)
    for (const int k : {1, 2, 5})
      if (k == 1 || many <= 3.5) out.push_back(k * std::pow(10, power));
  return out;
}

std::vector<double> SvgRange::powers_of_two(double about) const {
  const double from = std::ceil(std::log2(low_) - 1e-9), many = std::log2(high_) - from;
  double every = 1;
  while (many / every > about) every += every < 2 ? 1 : every < 5 ? 3 : 5;  // 1, 2, 5 (32), 10 (1024), 15 ...
  std::vector<double> out;
  for (double power = from; power <= std::log2(high_) + 1e-9; power += every) out.push_back(std::exp2(power));
  return out;
}

std::vector<SvgRange::Tick> SvgRange::ticks(double about) const {
  std::vector<double> values{low_};
  if (high_ > low_) {
    values = scale_ == SvgScale::linear        ? linear_ticks(about)
             : scale_ == SvgScale::logarithmic ? decades(about)
                                               : powers_of_two(about);
    std::erase_if(values,
                  [&](double v) { return v < low_ - std::abs(low_) * 1e-9 || v > high_ + std::abs(high_) * 1e-9; });
    if (values.size() < 2) values = {low_, high_};
    if (scale_ == SvgScale::sizes && 1 - at(values.back()) > 0.12) values.push_back(high_);
  }
  std::vector<std::string> texts;
  if (scale_ == SvgScale::sizes)
    for (const double v : values) texts.push_back(base::binary_size_text(std::llround(std::min(v, 9e18))));
  else if (scale_ == SvgScale::logarithmic) texts = axis_labels(values, 0);
  else
    texts =
        axis_labels(values, std::max(1e-300, values.size() > 1 ? values[1] - values[0] : std::abs(values[0]) / 100));
  std::vector<Tick> out;
  for (std::size_t i = 0; i < values.size(); ++i) out.push_back({values[i], texts[i]});
  return out;
}

}  // namespace trainyard::tools
