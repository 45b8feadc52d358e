// Order statistics.
#include "libtrain/base/statistics.h"

#include <algorithm>
#include <cmath>

namespace trainyard::base {

double quantile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = p * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  if (below + 1 >= values.size()) return values.back();
  return values[below] + (at - static_cast<double>(below)) * (values[below + 1] - values[below]);
}

Interval median_interval(std::vector<double> values, double confidence) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto n = values.size();
  // The largest k with P(Binomial(n, 1/2) < k) <= (1 - confidence) / 2: the interval takes the k-th value from either
  // end.
  double term = std::pow(0.5, static_cast<double>(n)), below = 0;
  std::size_t k = 0;
  if (term > 0)
    while (k < n / 2 && below + term <= (1 - confidence) / 2) {
      below += term;
      term *= static_cast<double>(n - k) / static_cast<double>(k + 1);
      ++k;
    }
  else  // 0.5^n underflows a double: use the normal distribution
    k = static_cast<std::size_t>(
        std::max(0.0, static_cast<double>(n) / 2 - 1.96 * std::sqrt(static_cast<double>(n)) / 2));
  const auto from_end = k == 0 ? 0 : k - 1;
  return {values[from_end], values[n - 1 - from_end]};
}

Interval prediction_interval(std::vector<double> values, double coverage) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto n = values.size();
  const auto k = static_cast<std::size_t>(static_cast<double>(n + 1) * (1 - coverage) / 2 + 1e-9);  // 200 * 0.05 is 10
  const auto from_end = k == 0 ? 0 : std::min(k, (n + 1) / 2) - 1;
  return {values[from_end], values[n - 1 - from_end]};
}

}  // namespace trainyard::base
