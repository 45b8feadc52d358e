// Sweep: times every operation of every group over a range of sizes, until medians are known well enough or the time is
// used up, and fits them.
#pragma once

#include "libtrain/plan/groups.h"
#include "libtrain/plan/profile.h"
#include "libtrain/profile/ranks.h"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace trainyard::profile {

struct SweepOptions {
  std::vector<std::string> operations;                        // operation_names()
  std::vector<std::pair<std::string, std::string>> left_out;  // of a family's name, an operation that it has no use for
  std::vector<base::DType> dtypes;  // f32, bf16; operations that only move bytes are measured in the first one
  std::int64_t min_bytes = 8, max_bytes = std::int64_t{64} << 20, factor = 2;
  double confidence = 0.03;  // half the 95 % interval of a median, relative
  double budget_seconds = 60;
  double elsewhere_seconds =
      0;  // of the time that the user gave, for other measurements: what is said of a short budget is about all of it
  double spread = 0.5;  // share of the budget over which settled_repeats passes are spread; 0: as fast as they come
};

struct SweepListener {  // of rank 0
  std::function<void(int pass, double seconds, int open, int points)>
      on_pass;  // `open` points are not known well enough yet
};

// What will be measured, without measuring: sizes of each series, in ascending order, with no size twice.
std::vector<plan::CommSeries> planned(const std::vector<plan::GroupFamily>& families, const SweepOptions& options);

// Collective over all ranks. A pass visits all points that are still open in an order that changes from pass to pass,
// with buffers in fresh pages, so that a disturbance meets different points. A visit is one repeat: a call that is
// checked, calls that are timed one by one (on a GPU in batches between two waits), and a last look at the result. A
// call takes as long as on the slowest rank of all groups of its family, which work at the same time. Until every
// median is known to `confidence` by at least `settled_repeats`, or the next pass would not fit the budget, but at
// least `least_passes`. Quick passes wait for one another, so that settled_repeats of them fill `spread` of the budget:
// what disturbs a machine lasts for seconds, and repeats that all lie inside one disturbance, or all outside, would
// look surer than they are. Rank 0 gets fits and noise floors; the others the measurements alone. Throws AgreedError
// when the budget has no room for the passes (usage), or memory cannot be had (environment).
inline constexpr int least_passes = 6, settled_repeats = 20;
std::vector<plan::CommSeries> sweep(Ranks& ranks, const std::vector<plan::GroupFamily>& families,
                                    const SweepOptions& options, const SweepListener& listener,
                                    comm::Ledger& rounds);  // each visit is a call in `rounds`, for a watchdog

}  // namespace trainyard::profile
