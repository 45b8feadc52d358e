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

// The repeats of one ceiling.
struct Repeats {
  Ceiling ceiling;
  std::vector<double> seconds;  // of a run, on the slowest rank
  double amount = 1;
  bool known(double confidence) const {
    if (std::ssize(seconds) < settled_ceiling_repeats) return false;
    const auto interval = base::median_interval(seconds);
    return (interval.high - interval.low) / 2 <= confidence * base::median(seconds);
  }
  plan::LocalRate rate() const {
    plan::LocalRate rate{ceiling.name, ceiling.shape, ceiling.unit, ceiling.threads, 0, {}, {}};
    for (const double t : seconds) rate.repeats.push_back(ceiling.unit == "s" ? t / amount : amount / t);
    rate.value = base::median(rate.repeats);
    rate.interval = base::prediction_interval(rate.repeats);
    return rate;
  }
};

double on_slowest(Ranks& ranks, double seconds) {
  std::vector<double> slowest{seconds};
  largest(ranks, slowest);
  return slowest[0];
}

// The work of a ceiling, warm, and the number of runs that make a batch.
std::pair<Work, int> warm(Ranks& ranks, const Ceiling& ceiling) {
  Work work;
  double seconds = 0;
  on_all(ranks, [&] {
    work = ceiling.make();
    seconds = seconds_of(work, *ranks.clock, 1);  // warms up pages, caches and clocks
  });
  // A long run is a batch of its own, however cold.
  if (on_slowest(ranks, seconds) < ceiling_batch_seconds)
    on_all(ranks, [&] { seconds = seconds_of(work, *ranks.clock, 1); });
  return {std::move(work), batch_of(on_slowest(ranks, seconds))};
}

void repeat(Ranks& ranks, const Work& work, int batch, Repeats& to) {
  if (ranks.size > 1) ranks.control->barrier(*ranks.caller);
  to.seconds.push_back(on_slowest(ranks, seconds_of(work, *ranks.clock, batch)));
  to.amount = work.amount;
}

plan::LocalRate measure(Ranks& ranks, const CeilingOptions& options, const Ceiling& ceiling, double share) {
  const double begin = ranks.clock->now();
  Repeats repeats{ceiling, {}};
  const auto [work, batch] = warm(ranks, ceiling);
  for (;;) {
    repeat(ranks, work, batch, repeats);
    const auto n = static_cast<int>(repeats.seconds.size());
    if (n < least_ceiling_repeats) continue;
    if (on_slowest(ranks, ranks.clock->now() - begin) > share || n == most_repeats) break;
    if (on_slowest(ranks, repeats.known(options.confidence) ? 0 : 1) == 0) break;
  }
  return repeats.rate();
}

bool in_turns(const Ceiling& c) { return c.name.starts_with("block."); }

// Passes of blocks are added up and compared with one another, so a machine that changes its speed must not favour
// some: each is measured once in every turn.
void measure_in_turns(Ranks& ranks, const CeilingOptions& options, const std::vector<Ceiling>& list, double seconds,
                      const std::function<void(const plan::LocalRate&)>& on_rate, comm::Ledger& rounds,
                      std::vector<plan::LocalRate>& rates) {
  std::vector<Repeats> all;
  for (const auto& c : list)
    if (in_turns(c)) all.push_back({c, {}});
  const double begin = ranks.clock->now();
  for (int turn = 0; turn < most_repeats; ++turn) {
    if (turn >= least_ceiling_repeats && on_slowest(ranks, ranks.clock->now() - begin) > seconds) break;
    bool open = false;
    for (auto& repeats : all) {
      if (on_slowest(ranks, repeats.known(options.confidence) ? 0 : 1) == 0) continue;
      if (turn >= least_ceiling_repeats && on_slowest(ranks, ranks.clock->now() - begin) > seconds) break;
      open = true;
      rounds.begin(repeats.ceiling.name.c_str(), 0);
      const auto [work, batch] = warm(ranks, repeats.ceiling);
      repeat(ranks, work, batch, repeats);
      rounds.end(0, 0);
    }
    if (!open) break;
  }
  for (const auto& repeats : all) {
    rates.push_back(repeats.rate());
    if (ranks.rank == 0 && on_rate) on_rate(rates.back());
  }
}

}  // namespace

double rate_of(const Ceiling& ceiling) {
  const auto work = ceiling.make();
  const Clock clock;
  const int batch = batch_of(seconds_of(work, clock, 1));
  double best = seconds_of(work, clock, batch);
  for (int i = 1; i < settled_ceiling_repeats; ++i) best = std::min(best, seconds_of(work, clock, batch));
  return ceiling.unit == "s" ? best / work.amount : work.amount / best;
}

std::vector<plan::LocalRate> measure_ceilings(Ranks& ranks, const CeilingOptions& options,
                                              const std::function<void(const plan::LocalRate&)>& on_rate,
                                              comm::Ledger& rounds) {
  const auto list = ceilings(options, fmt::format("{:05}", ranks.rank));
  const auto least = options.least_seconds.empty() ? std::vector<double>(list.size(), 0) : options.least_seconds;
  std::vector<plan::LocalRate> rates;
  const double begin = ranks.clock->now();
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (in_turns(list[i])) continue;
    rounds.begin(list[i].name.c_str(), 0);
    std::vector<double> left{options.budget_seconds - (ranks.clock->now() - begin)};
    largest(ranks, left);
    const double rest = left[0] - std::accumulate(least.begin() + static_cast<std::ptrdiff_t>(i), least.end(), 0.0);
    rates.push_back(
        measure(ranks, options, list[i], least[i] + std::max(0.0, rest) / static_cast<double>(list.size() - i)));
    rounds.end(0, 0);
    if (ranks.rank == 0 && on_rate) on_rate(rates.back());
  }
  std::vector<double> left{options.budget_seconds - (ranks.clock->now() - begin)};
  largest(ranks, left);
  measure_in_turns(ranks, options, list, left[0], on_rate, rounds, rates);
  return rates;
}

}  // namespace trainyard::profile
