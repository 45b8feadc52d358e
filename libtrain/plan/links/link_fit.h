// LinkFit: the time of a collective as a function of its bytes. It consists of straight lines, latency + bytes /
// bandwidth (Hockney 1994), each for a range of sizes. There are as many lines as held-out measurements justify.
#pragma once

#include "libtrain/base/statistics.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// All repeats of one size, in seconds. Their median represents the size.
struct LinkSamples {
  std::int64_t bytes = 0;
  std::vector<double> seconds;
};

struct LinkSegment {
  std::int64_t from_bytes = 0;  // up to the next segment's from_bytes
  double latency_seconds = 0, seconds_per_byte = 0;
  base::Interval latency, per_byte;  // 90 % intervals of latency and slope, by resampling repeats (Efron 1979)
  base::Interval repeat;             // 90 % of repeats lie between these multiples of the prediction
};

struct LinkFit {
  std::vector<LinkSegment> segments;  // ascending; empty: nothing was fitted
  // mean of |predicted / measured - 1| over sizes left out one at a time, without the first and last size
  double held_out_error = 0;
  // the same over all sizes: medians of every other repeat, predicted from the other repeats
  double held_out_repeats_error = 0;
  // Below the smallest measured size the first segment holds, above the largest size the last one.
  double seconds(std::int64_t bytes) const;
  base::Interval interval(std::int64_t bytes) const;  // of a single repeat
  const LinkSegment& segment(std::int64_t bytes) const;
};

// Samples ascend in bytes, at least one. Each line minimises the squares of relative errors, with latency and slope at
// least 0. The boundaries are the best ones for their number, by dynamic programming. Each part has at least two sizes,
// but the last may have one. The number of parts is the one with the least error over held-out repeats. A smaller
// number wins if the error differs by less than 1 in 20, or 0.05 %. Held-out sizes do not choose: next to a change of
// protocol no neighbour predicts better. So their error says how wrong predictions between sizes may be.
LinkFit fit_link(const std::vector<LinkSamples>& samples, int most_segments = 12);

// The mean relative difference that two measurements of the same thing have by chance. It compares the first half of
// the repeats of each size with the second half. It divides by sqrt(2), because each half has half the repeats. 0 if
// nothing has two repeats.
double noise_floor(const std::vector<LinkSamples>& samples);

}  // namespace trainyard::plan
