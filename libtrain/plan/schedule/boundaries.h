// Boundaries: how a list of items is split into neighbouring parts. The items are the embedding, the layers and the
// head of a model, and a part is what one pipeline stage computes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trainyard::plan {

// The first item of each part, then the number of items: parts + 1 ascending numbers that begin at 0. Part i is
// [boundaries[i], boundaries[i + 1]).
using Boundaries = std::vector<std::int64_t>;

// items / parts items in each part, and one more in the first items % parts. Parts may be empty if there are more parts
// than items.
Boundaries uniform_boundaries(std::int64_t items, int parts);

// The best split into non-empty parts. The heaviest part weighs as little as possible; then the lightest part weighs as
// much as possible; then the first boundary is earliest, then the second, and so on. Dynamic programming over all
// splits, no greedy bound: O(parts * items * log items), some sixty times (10,000 items in 1,000 parts take half a
// minute). Weights are finite and at least 0, and there are at least as many weights as parts, else
// std::invalid_argument. Sums are exact while they are whole and below 2^53, so equal parts compare as equal.
Boundaries balanced_boundaries(std::span<const double> weights, int parts);

// The weight of each part, in order.
std::vector<double> part_weights(std::span<const double> weights, const Boundaries& boundaries);

}  // namespace trainyard::plan
