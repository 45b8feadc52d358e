// Splits with equal numbers of items, and splits balanced by weight.
#include "libtrain/plan/schedule/boundaries.h"

#include "libtrain/base/index.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>

namespace trainyard::plan {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

// Prefix sums: the weight of [i, j) is sums[j] - sums[i].
std::vector<double> sums_of(std::span<const double> weights) {
  std::vector<double> sums(weights.size() + 1, 0.0);
  for (std::size_t i = 0; i < weights.size(); ++i) sums[i + 1] = sums[i] + weights[i];
  return sums;
}

// best[i] is the smallest possible weight of the heaviest part when items [i, n) form `parts` non-empty parts.
double least_heaviest(const std::vector<double>& sums, int parts) {
  const auto n = sums.size() - 1;
  std::vector<double> best(n + 1, infinite), next;
  best[n] = 0;
  for (int k = 1; k <= parts; ++k) {
    next.assign(n + 1, infinite);
    for (std::size_t i = 0; i + base::size(k) <= n; ++i) {
      // The first part [i, j) grows with j, and the rest shrinks. The best j is where the two weights are closest.
      const auto last = n - base::size(k) + 1;
      std::size_t low = i + 1, high = last;
      while (low < high) {
        const auto middle = (low + high) / 2;
        if (sums[middle] - sums[i] >= best[middle]) high = middle;
        else low = middle + 1;
      }
      next[i] = std::max(sums[low] - sums[i], best[low]);
      if (low > i + 1) next[i] = std::min(next[i], std::max(sums[low - 1] - sums[i], best[low - 1]));
    }
    best = next;
  }
  return best[0];
}

// The weight of a possible part that is nearest to `weight`: at most `weight`, else at least `weight`. If there is
// none, 0 or infinity.
enum class Next { below, above };
double next_weight(const std::vector<double>& sums, double weight, Next next) {
  double nearest = next == Next::below ? 0 : infinite;
  for (std::size_t i = 0; i + 1 < sums.size(); ++i) {
    const auto from = sums.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    if (next == Next::above) {
      const auto j =
          std::lower_bound(from, sums.end(), weight, [&](double sum, double w) { return sum - sums[i] < w; });
      if (j != sums.end()) nearest = std::min(nearest, *j - sums[i]);
    } else {
      const auto j =
          std::upper_bound(from, sums.end(), weight, [&](double w, double sum) { return w < sum - sums[i]; });
      if (j != from) nearest = std::max(nearest, *(j - 1) - sums[i]);
    }
  }
  return nearest;
}

// A first part of items [i, j) weighs between `least` and `most` if j is in [first[i], end[i]).
struct Choices {
  std::vector<std::size_t> first, end;
};

Choices choices_of(const std::vector<double>& sums, double least, double most) {
  const auto n = sums.size() - 1;
  Choices out{std::vector<std::size_t>(n), std::vector<std::size_t>(n)};
  for (std::size_t i = 0; i < n; ++i) {
    const auto from = std::lower_bound(sums.begin() + static_cast<std::ptrdiff_t>(i) + 1, sums.end(), least,
                                       [&](double sum, double w) { return sum - sums[i] < w; });
    const auto to = std::upper_bound(from, sums.end(), most, [&](double w, double sum) { return w < sum - sums[i]; });
    out.first[i] = base::size(from - sums.begin());
    out.end[i] = base::size(to - sums.begin());
  }
  return out;
}

// reach[k][i]: whether items [i, n) can form k non-empty parts that each weigh between `least` and `most`.
std::vector<std::vector<char>> reachable(const std::vector<double>& sums, int parts, double least, double most) {
  const auto n = sums.size() - 1;
  const auto choices = choices_of(sums, least, most);
  std::vector<std::vector<char>> reach(base::size(parts) + 1, std::vector<char>(n + 1, 0));
  reach[0][n] = 1;
  std::vector<std::uint32_t> before(n + 2, 0);  // before[j]: how many of [0, j) are reachable with one part less
  for (std::size_t k = 1; k < reach.size(); ++k) {
    const auto& less = reach[k - 1];
    for (std::size_t j = 0; j <= n; ++j) before[j + 1] = before[j] + static_cast<std::uint32_t>(less[j]);
    for (std::size_t i = 0; i < n; ++i)
      reach[k][i] = choices.end[i] > choices.first[i] && before[choices.end[i]] > before[choices.first[i]];
  }
  return reach;
}

}  // namespace

Boundaries uniform_boundaries(std::int64_t items, int parts) {
  if (items < 0 || parts < 1) throw std::invalid_argument("a list is cut into at least one part");
  Boundaries out{0};
  for (int i = 0; i < parts; ++i) out.push_back(out.back() + items / parts + (i < items % parts ? 1 : 0));
  return out;
}

Boundaries balanced_boundaries(std::span<const double> weights, int parts) {
  if (parts < 1 || std::ssize(weights) < parts)
    throw std::invalid_argument("a list is cut into at least one part, and no more than it has items");
  if (std::any_of(weights.begin(), weights.end(), [](double w) { return !(w >= 0) || !std::isfinite(w); }))
    throw std::invalid_argument("weights are finite and at least 0");
  const auto sums = sums_of(weights);
  if (!std::isfinite(sums.back())) throw std::invalid_argument("weights have a finite sum");
  const auto n = weights.size();
  const double most = least_heaviest(sums, parts);
  // As `least` grows, a split without a lighter part exists up to some value and not beyond. Doubles of at least 0 are
  // ordered like their bits. Both ends of the bisection are weights of possible parts, so it ends at one, and soon
  // where many items weigh alike.
  const auto possible = [&](double least) { return base::at(reachable(sums, parts, least, most), parts)[0] != 0; };
  double least = 0, high = next_weight(sums, sums[n] / parts, Next::below);
  while (least < high) {
    const auto a = std::bit_cast<std::uint64_t>(least), b = std::bit_cast<std::uint64_t>(high);
    const double middle = next_weight(sums, std::bit_cast<double>(a + (b - a + 1) / 2), Next::above);
    if (middle <= high && possible(middle)) least = middle;
    else high = std::max(least, next_weight(sums, std::nextafter(std::min(middle, high), 0.0), Next::below));
  }
  const auto reach = reachable(sums, parts, least, most);
  Boundaries out{0};
  for (int left = parts; left > 0; --left) {
    const auto i = base::size(out.back());
    for (std::size_t j = i + 1; j <= n; ++j)
      if (const double w = sums[j] - sums[i]; w >= least && w <= most && reach[base::size(left) - 1][j]) {
        out.push_back(static_cast<std::int64_t>(j));
        break;
      }
  }
  return out;
}

std::vector<double> part_weights(std::span<const double> weights, const Boundaries& boundaries) {
  const auto sums = sums_of(weights);
  std::vector<double> out;
  for (std::size_t i = 0; i + 1 < boundaries.size(); ++i)
    out.push_back(base::at(sums, boundaries[i + 1]) - base::at(sums, boundaries[i]));
  return out;
}

}  // namespace trainyard::plan
