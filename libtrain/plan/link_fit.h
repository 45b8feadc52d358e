// LinkFit: the time of a collective as a function of its bytes: straight lines by parts, latency + bytes / bandwidth
// (Hockney 1994), as many parts as held-out sizes justify.
#pragma once

#include "libtrain/base/statistics.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// All repeats of one size, in seconds; their median stands for the size.
struct LinkSamples {
  std::int64_t bytes = 0;
  std::vector<double> seconds;
};

struct LinkSegment {
  std::int64_t from_bytes = 0;  // up to the next segment's
  double latency_seconds = 0, seconds_per_byte = 0;
  base::Interval latency, per_byte;  // 90 % intervals of the two, by resampling repeats (Efron 1979)
  base::Interval repeat;             // 90 % of repeats lie between these multiples of the prediction
};

struct LinkFit {
  std::vector<LinkSegment> segments;  // ascending; none: nothing was fitted
  double held_out_error =
      0;  // mean of |predicted / measured - 1| over sizes that were left out, one at a time, ends apart
  double held_out_repeats_error =
      0;  // the same over all sizes, for medians of every other repeat, predicted from the rest
  // Below the smallest measured size the first segment, beyond the largest the last one.
  double seconds(std::int64_t bytes) const;
  base::Interval interval(std::int64_t bytes) const;  // of a single repeat
  const LinkSegment& segment(std::int64_t bytes) const;
};

// Samples ascend in bytes, at least one. Each line minimises the squares of relative errors, with neither latency nor
// slope below 0; boundaries are the best ones for their number (dynamic programming; each part has two sizes or more,
// the last may have one); the number is the one with the least error over held-out repeats, the smaller one where that
// differs by less than 1 in 20, or 0.05 %. Held-out sizes do not choose: next to a change of protocol no neighbour
// knows better, so their error tells what lies between sizes.
LinkFit fit_link(const std::vector<LinkSamples>& samples, int most_segments = 12);

// The mean relative difference that two measurements of the same have by chance: the first half of the repeats of each
// size against the second half, divided by sqrt(2) because each half has half the repeats. 0 where nothing has two
// repeats.
double noise_floor(const std::vector<LinkSamples>& samples);

}  // namespace trainyard::plan
