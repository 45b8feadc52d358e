// Draws lines by keyed random numbers.
#include "libtrain/data/translation/resampling.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/random.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace trainyard::data::translation {

namespace {

constexpr std::uint64_t site = base::site_hash("resampling", "lines");
constexpr std::int64_t tail = 40;  // a fortieth on each side is outside the interval

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.) / static_cast<double>(values.size());
}

}  // namespace

std::vector<double> resampled_scores(Metric metric, std::span<const std::int64_t> lines, Resamples resamples) {
  const auto width = integers_of(metric);
  const auto count = lines.size() / width;
  TRAINYARD_ASSERT(count > 0 && lines.size() % width == 0, "{} numbers, {} a line", lines.size(), width);
  const auto blocks = (count + 1) / 2;  // a block of random words is two draws
  std::vector<double> scores;
  std::vector<std::int64_t> sums(width);
  const auto add_line = [&](double uniform) {
    const auto line = std::min(count - 1, static_cast<std::size_t>(uniform * static_cast<double>(count)));
    const auto* const from = lines.data() + line * width;
    for (std::size_t i = 0; i < width; ++i) sums[i] += from[i];
  };
  for (std::uint64_t text = 0; text < static_cast<std::uint64_t>(resamples.count); ++text) {
    std::fill(sums.begin(), sums.end(), 0);
    for (std::size_t b = 0; b < blocks; ++b) {
      const auto words = base::random_words(resamples.seed, site, text * blocks + b);
      add_line(base::uniform53(words[0], words[1]));
      if (2 * b + 1 < count) add_line(base::uniform53(words[2], words[3]));
    }
    scores.push_back(score_of(metric, sums));
  }
  return scores;
}

Interval interval_of(std::vector<double> scores) {
  TRAINYARD_ASSERT(!scores.empty(), "an interval of {} scores", scores.size());
  std::sort(scores.begin(), scores.end());
  const auto low = std::ssize(scores) / tail;
  return {mean_of(scores), base::at(scores, low), base::at(scores, std::ssize(scores) - 1 - low)};
}

double p_value_of(std::span<const double> scores, std::span<const double> other_scores, double difference) {
  TRAINYARD_ASSERT(scores.size() == other_scores.size() && !scores.empty(), "{} and {} scores", scores.size(),
                   other_scores.size());
  std::vector<double> distances(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) distances[i] = std::abs(scores[i] - other_scores[i]);
  const auto mean = mean_of(distances);
  if (mean == 0) return 1;
  const auto above = std::count_if(distances.begin(), distances.end(),
                                   [&](double distance) { return distance - mean > std::abs(difference); });
  return static_cast<double>(above + 1) / static_cast<double>(scores.size() + 1);
}

}  // namespace trainyard::data::translation
