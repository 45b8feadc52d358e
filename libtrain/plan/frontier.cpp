// Searches with other limits of memory. The best in a limit is the best in every limit from its own memory on.
#include "libtrain/plan/frontier.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace trainyard::plan {

namespace {

constexpr double least_within = 0.04;
constexpr int halvings = 5;  // of the distance between one limit and half of it, until it is within that

class Frontier {
 public:
  Frontier(const SearchOf& of, int points, const std::function<void(int, int)>& watch)
      : of_(of), points_(points), watch_(watch), timer_(of.plan.model, of.machine, of.execution),
        most_(points + halvings + 1) {}

  std::vector<FoundPlan> run() {
    const auto top =
        best_in(of_.limits.device_bytes > 0 ? of_.limits.device_bytes : std::numeric_limits<std::int64_t>::max());
    if (!top) return {};
    const auto least = least_below(top->bytes);
    const double factor = static_cast<double>(top->bytes) / static_cast<double>(least);
    std::vector<FoundPlan> all, out;
    for (int i = points_ - 1; i >= 0; --i) {  // from the most memory on: what needs less is the best in less, too
      const double limit = static_cast<double>(least) * std::pow(factor, static_cast<double>(i) / (points_ - 1));
      if (auto found = best_in(i + 1 == points_ ? top->bytes : std::max<std::int64_t>(least, std::llround(limit))))
        all.push_back(std::move(*found));
    }
    for (auto found = all.rbegin(); found != all.rend(); ++found)
      if (out.empty() || (found->bytes > out.back().bytes && found->time.seconds < out.back().time.seconds))
        out.push_back(std::move(*found));
    return out;
  }

 private:
  struct Known {
    std::int64_t limit;
    FoundPlan found;
  };

  std::optional<FoundPlan> best_in(std::int64_t limit) {
    for (const auto& k : known_)
      if (k.found.bytes <= limit && limit <= k.limit) return k.found;
    auto found = search_in(limit, false);
    if (found) known_.push_back({limit, *found});
    return found;
  }

  // The memory of some layout that fits, which may be slow.
  std::optional<std::int64_t> enough_in(std::int64_t limit) {
    for (const auto& k : known_)
      if (k.found.bytes <= limit) return k.found.bytes;
    const auto found = search_in(limit, true);
    return found ? std::optional(found->bytes) : std::nullopt;
  }

  std::optional<FoundPlan> search_in(std::int64_t limit, bool first) {
    auto of = of_;
    of.limits.device_bytes = limit, of.limits.first = first, of.limits.needed = &needed_;
    auto best = best_of(std::move(of), timer_);
    ++done_;
    if (watch_) watch_(done_, std::max(done_, most_));
    return std::move(best.found);
  }

  // Halves the memory until nothing fits, and then the distance.
  std::int64_t least_below(std::int64_t fits) {
    std::int64_t too_little = 0;
    while (static_cast<double>(fits - too_little) > least_within * static_cast<double>(fits)) {
      const auto middle = too_little + (fits - too_little) / 2;
      if (const auto bytes = enough_in(middle)) fits = *bytes;
      else too_little = middle;
    }
    return fits;
  }

  const SearchOf& of_;
  int points_;
  const std::function<void(int, int)>& watch_;
  StepTimer timer_;  // of all searches, like what layouts need
  NeededMemory needed_;
  int most_, done_ = 0;
  std::vector<Known> known_;
};

}  // namespace

std::vector<FoundPlan> frontier(const SearchOf& of, int points, const std::function<void(int, int)>& watch) {
  return Frontier(of, points, watch).run();
}

}  // namespace trainyard::plan
