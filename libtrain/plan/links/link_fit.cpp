// Weighted lines, the best boundaries, and errors over held-out measurements.
#include "libtrain/plan/links/link_fit.h"

#include "libtrain/base/index.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace trainyard::plan {

namespace {

struct Point {
  double bytes, seconds;
};
struct Line {
  double latency = 0, slope = 0;
  double at(double bytes) const { return latency + slope * bytes; }
};

// Least squares of (latency + slope x) / t - 1, with both at least 0. A single point gives bandwidth without latency.
Line line_through(const Point* from, const Point* to) {
  if (to - from == 1) return {0, from->seconds / from->bytes};
  double ww = 0, wx = 0, xx = 0, w1 = 0, x1 = 0;  // w = 1 / t, x = bytes / t
  for (const auto* p = from; p != to; ++p) {
    const double w = 1 / p->seconds, x = p->bytes / p->seconds;
    ww += w * w, wx += w * x, xx += x * x, w1 += w, x1 += x;
  }
  const double determinant = ww * xx - wx * wx;
  if (determinant > 1e-12 * ww * xx) {
    const Line both{(w1 * xx - x1 * wx) / determinant, (x1 * ww - w1 * wx) / determinant};
    if (both.latency >= 0 && both.slope >= 0) return both;
    if (both.latency < 0) return {0, x1 / xx};
  }
  return {w1 / ww, 0};
}

double squares(const Line& line, const Point* from, const Point* to) {
  double sum = 0;
  for (const auto* p = from; p != to; ++p) {
    const double e = line.at(p->bytes) / p->seconds - 1;
    sum += e * e;
  }
  return sum;
}

// The first point of each of `parts` parts, with the least sum of squares. A part has at least two points. The last
// part may have one: beyond a cache there is often just one.
std::vector<std::size_t> best_parts(const std::vector<Point>& points, int parts) {
  const auto n = points.size();
  const auto m = base::size(parts);
  const double never = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> cost(n, std::vector<double>(n + 1, never)),
      best(m + 1, std::vector<double>(n + 1, never));
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i + 1 == n ? n : i + 2; j <= n; ++j)
      cost[i][j] = squares(line_through(&points[i], &points[0] + j), &points[i], &points[0] + j);
  std::vector<std::vector<std::size_t>> from(m + 1, std::vector<std::size_t>(n + 1, 0));
  best[0][0] = 0;
  for (std::size_t k = 1; k <= m; ++k)
    for (std::size_t j = 1; j <= n; ++j)
      for (std::size_t i = 0; i < j; ++i)
        if (best[k - 1][i] + cost[i][j] < best[k][j]) best[k][j] = best[k - 1][i] + cost[i][j], from[k][j] = i;
  if (best[m][n] == never) return {};
  std::vector<std::size_t> starts(m);
  for (std::size_t k = m, j = n; k > 0; j = from[k][j], --k) starts[k - 1] = from[k][j];
  return starts;
}

// The geometric mean of two sizes.
double boundary(const Point& below, const Point& above) { return std::sqrt(std::max(below.bytes, 1.0) * above.bytes); }

struct Model {
  std::vector<double> from;
  std::vector<Line> lines;
  double seconds(double bytes) const {
    std::size_t s = 0;
    while (s + 1 < lines.size() && bytes >= from[s + 1]) ++s;
    return lines[s].at(bytes);
  }
};

Model model_of(const std::vector<Point>& points, const std::vector<std::size_t>& starts) {
  Model model;
  for (std::size_t s = 0; s < starts.size(); ++s) {
    const auto end = s + 1 < starts.size() ? starts[s + 1] : points.size();
    model.from.push_back(starts[s] == 0 ? 0 : boundary(points[starts[s] - 1], points[starts[s]]));
    model.lines.push_back(line_through(&points[starts[s]], points.data() + end));
  }
  return model;
}

std::vector<Point> without(const std::vector<Point>& points, std::size_t i) {
  auto rest = points;
  rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
  return rest;
}

// Leaves out each size but the first and the last, one at a time, and predicts it from the rest. Empty if there are too
// few.
std::vector<double> held_out_predictions(const std::vector<Point>& points, int parts) {
  std::vector<double> out;
  for (std::size_t i = 1; i + 1 < points.size(); ++i) {
    const auto rest = without(points, i);
    const auto starts = best_parts(rest, parts);
    if (starts.empty()) return {};
    out.push_back(model_of(rest, starts).seconds(points[i].bytes));
  }
  return out;
}

double mean_error(const std::vector<Point>& points, const std::vector<double>& predictions) {
  double sum = 0;
  for (std::size_t i = 0; i < predictions.size(); ++i) sum += std::abs(predictions[i] / points[i + 1].seconds - 1);
  return predictions.empty() ? 0 : sum / static_cast<double>(predictions.size());
}

// The median of each size, over the repeats i of n for which takes(i, n) holds; over all repeats if it holds for none.
template <class Takes> std::vector<Point> medians(const std::vector<LinkSamples>& samples, const Takes& takes) {
  std::vector<Point> points;
  for (const auto& s : samples) {
    std::vector<double> some;
    for (std::size_t i = 0; i < s.seconds.size(); ++i)
      if (takes(i, s.seconds.size())) some.push_back(s.seconds[i]);
    points.push_back({static_cast<double>(s.bytes), base::median(some.empty() ? s.seconds : some)});
  }
  return points;
}
constexpr auto every = [](std::size_t, std::size_t) { return true; };
constexpr auto odd = [](std::size_t i, std::size_t) { return i % 2 == 1; };
constexpr auto even = [](std::size_t i, std::size_t) { return i % 2 == 0; };

// The error of a model of every other repeat on the other repeats, and the other way round.
double held_out_repeats_error(const std::vector<LinkSamples>& samples, int parts) {
  const std::vector<Point> halves[] = {medians(samples, even), medians(samples, odd)};
  double sum = 0;
  for (const int half : {0, 1}) {
    const auto model = model_of(halves[half], best_parts(halves[half], parts));
    for (const auto& p : halves[1 - half]) sum += std::abs(model.seconds(p.bytes) / p.seconds - 1);
  }
  return sum / static_cast<double>(2 * samples.size());
}

// Intervals of latency and slope: fits repeats that are drawn again with replacement. The boundaries stay.
void resample(const std::vector<LinkSamples>& samples, const std::vector<std::size_t>& starts, LinkFit& fit) {
  constexpr int draws = 200;
  std::mt19937_64 random(1);  // the same intervals from the same samples
  std::vector<std::vector<double>> latency(starts.size()), slope(starts.size());
  std::vector<double> drawn;
  for (int d = 0; d < draws; ++d) {
    std::vector<Point> points;
    for (const auto& s : samples) {
      drawn.clear();
      for (std::size_t i = 0; i < s.seconds.size(); ++i) drawn.push_back(s.seconds[random() % s.seconds.size()]);
      points.push_back({static_cast<double>(s.bytes), base::median(drawn)});
    }
    const auto model = model_of(points, starts);
    for (std::size_t k = 0; k < starts.size(); ++k)
      latency[k].push_back(model.lines[k].latency), slope[k].push_back(model.lines[k].slope);
  }
  for (std::size_t k = 0; k < starts.size(); ++k) {
    fit.segments[k].latency = {base::quantile(latency[k], 0.05), base::quantile(latency[k], 0.95)};
    fit.segments[k].per_byte = {base::quantile(slope[k], 0.05), base::quantile(slope[k], 0.95)};
  }
}

// The interval of repeats: how every other repeat scatters around the prediction from the rest, and the other way
// round. So it includes the uncertainty of the prediction. A segment with few repeats uses the repeats of all. A later
// run has also drifted as a whole. So the square of each half width, in logarithms, gets the square of the drift's 90 %
// half width. That is 1.645 standard deviations, and a mean absolute difference is sqrt(2 / pi) of one. Half of the
// noise floor counts as drift. The rest is noise that the scatter already contains. This is calibrated, see
// bench/RESULTS.md.
void add_spread(const std::vector<LinkSamples>& samples, const std::vector<std::size_t>& starts, LinkFit& fit) {
  const auto by_odd = model_of(medians(samples, odd), starts), by_even = model_of(medians(samples, even), starts);
  std::vector<double> all;
  std::vector<std::vector<double>> own(starts.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto segment = base::size(std::upper_bound(starts.begin(), starts.end(), i) - starts.begin()) - 1;
    const auto n = samples[i].seconds.size();
    for (std::size_t r = 0; r < n; ++r) {
      const double ratio =
          samples[i].seconds[r] / (odd(r, n) ? by_even : by_odd).seconds(static_cast<double>(samples[i].bytes));
      own[segment].push_back(ratio), all.push_back(ratio);
    }
  }
  const double drift = 1.645 * std::sqrt(std::acos(-1.0) / 2) * noise_floor(samples) / 2;
  for (std::size_t k = 0; k < starts.size(); ++k) {
    const auto scatter = base::prediction_interval(own[k].size() < 20 ? all : own[k]);
    fit.segments[k].repeat = {std::exp(-std::hypot(std::log(std::min(scatter.low, 1.0)), drift)),
                              std::exp(std::hypot(std::log(std::max(scatter.high, 1.0)), drift))};
  }
}

}  // namespace

const LinkSegment& LinkFit::segment(std::int64_t bytes) const {
  std::size_t s = 0;
  while (s + 1 < segments.size() && bytes >= segments[s + 1].from_bytes) ++s;
  return segments.at(s);
}

double LinkFit::seconds(std::int64_t bytes) const {
  const auto& s = segment(bytes);
  return s.latency_seconds + s.seconds_per_byte * static_cast<double>(bytes);
}

base::Interval LinkFit::interval(std::int64_t bytes) const {
  const auto& s = segment(bytes);
  return {seconds(bytes) * s.repeat.low, seconds(bytes) * s.repeat.high};
}

LinkFit fit_link(const std::vector<LinkSamples>& samples, int most_segments) {
  const auto points = medians(samples, every);
  LinkFit fit;
  int parts = 0;
  for (int p = 1; p <= std::max(1, std::min(most_segments, static_cast<int>(points.size()) / 2)); ++p) {
    const double error = held_out_repeats_error(samples, p);
    if (parts > 0 && error > fit.held_out_repeats_error - std::max(0.05 * fit.held_out_repeats_error, 5e-4)) continue;
    parts = p, fit.held_out_repeats_error = error;
  }
  fit.held_out_error = mean_error(points, held_out_predictions(points, parts));
  const auto starts = best_parts(points, parts);
  const auto model = model_of(points, starts);
  for (std::size_t k = 0; k < starts.size(); ++k) {
    LinkSegment s;
    s.from_bytes = static_cast<std::int64_t>(std::ceil(model.from[k]));
    s.latency_seconds = model.lines[k].latency;
    s.seconds_per_byte = model.lines[k].slope;
    fit.segments.push_back(s);
  }
  resample(samples, starts, fit);
  add_spread(samples, starts, fit);
  return fit;
}

double noise_floor(const std::vector<LinkSamples>& samples) {
  double sum = 0;
  int sizes = 0;
  for (const auto& s : samples) {
    const auto half = static_cast<std::ptrdiff_t>(s.seconds.size() / 2);
    if (half == 0) continue;
    const double first = base::median({s.seconds.begin(), s.seconds.begin() + half}),
                 second = base::median({s.seconds.end() - half, s.seconds.end()});
    sum += std::abs(std::log(first / second)) / std::sqrt(2.0);
    ++sizes;
  }
  return sizes == 0 ? 0 : sum / sizes;
}

}  // namespace trainyard::plan
