// Boundaries: where a list of items is cut into neighbouring parts: the embedding, the layers and the head of a model
// into what each pipeline stage computes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trainyard::plan {

// The first item of each part, and the number of items behind them: parts + 1 numbers that ascend from 0. Part i is
// [boundaries[i], boundaries[i + 1]).
using Boundaries = std::vector<std::int64_t>;

// items / parts each, the first items % parts of them one more. Parts may be empty where there are more of them than
// items.
Boundaries uniform_boundaries(std::int64_t items, int parts);

// Of all cuts into non-empty parts those whose heaviest part weighs least; of these those whose lightest weighs most;
// of these the one whose first cut is earliest, then its second, and so on. By dynamic programming over all cuts, no
// greedy bound: O(parts * items * log items), some sixty times (10,000 items in 1,000 parts take half a minute).
// Weights are finite, at least 0, and there are at least as many as parts, else std::invalid_argument; sums are exact
// while they are whole and below 2^53, so that equal parts are seen to be equal.
Boundaries balanced_boundaries(std::span<const double> weights, int parts);

// Of the parts, in their order.
std::vector<double> part_weights(std::span<const double> weights, const Boundaries& boundaries);

}  // namespace trainyard::plan
