// How much scores depend on the choice of lines: the score of texts that are drawn from the lines with replacement.
#pragma once

#include "libtrain/data/translation/scores.h"

#include <cstdint>
#include <span>
#include <vector>

namespace trainyard::data::translation {

// Scores of resampled texts. `lines` holds integers_of(metric) numbers for each of at least one line. Draw d of text t
// depends on the seed, t, d and the number of lines alone. So two systems with the same seed have the same texts, and
// their scores are pairs.
std::vector<double> resampled_scores(Metric metric, std::span<const std::int64_t> lines, Resamples resamples);

// The mean of the scores, and the interval that holds 95 % of them: a fortieth is below, a fortieth above.
struct Interval {
  double mean = 0, low = 0, high = 0;
  double half_width() const { return 0.5 * (high - low); }
};
Interval interval_of(std::vector<double> scores);

// How probable a difference of `difference` or more would be if both systems were equally good: the share of the pairs
// whose difference, without sign, is above the mean of such differences by more than that (Koehn 2004, as sacrebleu
// counts). 1 if the scores of all pairs are equal.
double p_value_of(std::span<const double> scores, std::span<const double> other_scores, double difference);

}  // namespace trainyard::data::translation
