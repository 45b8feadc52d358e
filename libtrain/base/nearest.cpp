// Edit distance over short names.
#include "libtrain/base/nearest.h"

#include <algorithm>
#include <numeric>

namespace trainyard::base {

namespace {

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const auto above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0u : 1u)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest(std::string_view name, const std::vector<std::string>& legal) {
  const auto best = std::min_element(legal.begin(), legal.end(), [&](const auto& a, const auto& b) { return distance(name, a) < distance(name, b); });
  return best == legal.end() ? std::string() : *best;
}

}  // namespace trainyard::base
