// The labels beside the axis of a chart.
#pragma once

#include <string>
#include <vector>

namespace trainyard::tools {

// Labels for the values of one axis, all in one style: 0.5, 1.0 | 500, 1,000 | 500, 1k, 100k | 1e-05, 1e-03. `step` is
// the difference that two labels must show. With 0 each label has up to three digits, as on a logarithmic axis.
std::vector<std::string> axis_labels(const std::vector<double>& values, double step);

}  // namespace trainyard::tools
