// Statistics of repeated measurements: quantiles, and intervals that assume no distribution of the values.
#pragma once

#include <vector>

namespace trainyard::base {

struct Interval {
  double low = 0, high = 0;
};

// The p-quantile, p in [0, 1], interpolated linearly between order statistics (Hyndman and Fan 1996, type 7). 0 without
// values.
double quantile(std::vector<double> values, double p);
inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

// Two order statistics that enclose the median with at least this confidence (Conover 1999, section 3.2: ranks from the
// binomial distribution). With too few values for the confidence (below 6 for 95 %) these are the smallest and the
// largest. Without values: 0 and 0.
Interval median_interval(std::vector<double> values, double confidence = 0.95);

// The interval that a further value falls into with probability `coverage`, if the values are exchangeable. Its ends
// are order statistic floor((n + 1) (1 - c) / 2) and the one as far from the other end (Vovk et al. 2005, "Algorithmic
// learning in a random world", section 2). With too few values these are the smallest and the largest.
Interval prediction_interval(std::vector<double> values, double coverage = 0.9);

}  // namespace trainyard::base
