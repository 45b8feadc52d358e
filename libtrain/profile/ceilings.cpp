// Times ceilings in batches of some milliseconds. It repeats them until the median is known or the ceiling's share of
// the budget is used up.
#include "libtrain/profile/ceilings.h"

#include "libtrain/base/error.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace trainyard::profile {

namespace {

constexpr int most_repeats = 1000;

double seconds_of(const Work& work, const Clock& clock, int times) {
  const double begin = clock.now();
  for (int i = 0; i < times; ++i) work.run();
  work.finish();
  return (clock.now() - begin) / times;
}

int batch_of(double seconds) {
  return std::clamp(static_cast<int>(ceiling_batch_seconds / std::max(seconds, 1e-9)), 1, 100000);
}

plan::LocalRate measure(Ranks& ranks, const CeilingOptions& options, const Ceiling& ceiling, double share) {
  const double begin = ranks.clock->now();
  plan::LocalRate rate{ceiling.name, ceiling.shape, ceiling.unit, ceiling.threads, 0, {}, {}};
  Work work;
  double seconds = 0;
  on_all(ranks, [&] {
    work = ceiling.make();
    seconds = seconds_of(work, *ranks.clock, 1);  // warms up pages, caches and clocks
  });
  const auto agreed = [&](double seconds) {
    std::vector<double> slowest{seconds};
    largest(ranks, slowest);
    return slowest[0];
  };
  // A long run is a batch of its own, however cold.
  if (agreed(seconds) < ceiling_batch_seconds) on_all(ranks, [&] { seconds = seconds_of(work, *ranks.clock, 1); });
  const int batch = batch_of(agreed(seconds));
  std::vector<double> times;
  for (;;) {
    if (ranks.size > 1) ranks.control->barrier(*ranks.caller);
    times.push_back(agreed(seconds_of(work, *ranks.clock, batch)));
    const auto n = static_cast<int>(times.size());
    if (n < least_ceiling_repeats) continue;
    if (agreed(ranks.clock->now() - begin) > share || n == most_repeats) break;
    if (n < settled_ceiling_repeats) continue;
    const auto interval = base::median_interval(times);
    const bool known = (interval.high - interval.low) / 2 <= options.confidence * base::median(times);
    if (agreed(known ? 0 : 1) == 0) break;
  }
  for (const double t : times) rate.repeats.push_back(ceiling.unit == "s" ? t : work.amount / t);
  rate.value = base::median(rate.repeats);
  rate.interval = base::prediction_interval(rate.repeats);
  return rate;
}

}  // namespace

double rate_of(const Ceiling& ceiling) {
  const auto work = ceiling.make();
  const Clock clock;
  const int batch = batch_of(seconds_of(work, clock, 1));
  double best = seconds_of(work, clock, batch);
  for (int i = 1; i < settled_ceiling_repeats; ++i) best = std::min(best, seconds_of(work, clock, batch));
  return ceiling.unit == "s" ? best : work.amount / best;
}

std::vector<plan::LocalRate> measure_ceilings(Ranks& ranks, const CeilingOptions& options,
                                              const std::function<void(const plan::LocalRate&)>& on_rate,
                                              comm::Ledger& rounds) {
  const auto list = ceilings(options, fmt::format("{:05}", ranks.rank));
  const auto least = options.least_seconds.empty() ? std::vector<double>(list.size(), 0) : options.least_seconds;
  std::vector<plan::LocalRate> rates;
  const double begin = ranks.clock->now();
  for (std::size_t i = 0; i < list.size(); ++i) {
    rounds.begin(list[i].name.c_str(), 0);
    std::vector<double> left{options.budget_seconds - (ranks.clock->now() - begin)};
    largest(ranks, left);
    const double rest = left[0] - std::accumulate(least.begin() + static_cast<std::ptrdiff_t>(i), least.end(), 0.0);
    rates.push_back(
        measure(ranks, options, list[i], least[i] + std::max(0.0, rest) / static_cast<double>(list.size() - i)));
    rounds.end(0, 0);
    if (ranks.rank == 0 && on_rate) on_rate(rates.back());
  }
  return rates;
}

}  // namespace trainyard::profile
