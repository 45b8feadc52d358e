// Sweep: times every operation of every group over a range of sizes, and fits the times. It ends when medians are known
// well enough or the time is used up.
#pragma once

#include "libtrain/plan/grid/groups.h"
#include "libtrain/plan/links/profile.h"
#include "libtrain/profile/ranks.h"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace trainyard::profile {

struct SweepOptions {
  std::vector<std::string> operations;                        // operation_names()
  std::vector<std::pair<std::string, std::string>> left_out;  // a family's name, and an operation that it does not use
  std::vector<base::DType> dtypes;  // f32, bf16; operations that only move bytes are measured in the first one
  std::int64_t min_bytes = 8, max_bytes = std::int64_t{64} << 20, factor = 2;
  double confidence = 0.03;  // half the 95 % interval of a median, relative
  double budget_seconds = 60;
  // What other measurements take of the time that the user gave, and how much of that the least passes may take from
  // them. A message about a short budget is about all that time.
  double elsewhere_seconds = 0, borrowed_seconds = 0;
  double spread = 0.5;  // share of the budget over which settled_repeats passes are spread; 0: without pauses
};

struct SweepListener {  // called on rank 0
  // After each pass; `open` points are not known well enough yet.
  std::function<void(int pass, double seconds, int open, int points)> on_pass;
};

// What will be measured, without measuring it. The sizes of a series ascend, and no size comes twice.
std::vector<plan::CommSeries> planned(const std::vector<plan::GroupFamily>& families, const SweepOptions& options);

// Measures and fits. Collective over all ranks. Throws AgreedError if the budget has no room for the passes (usage), or
// if memory cannot be had (environment). Rank 0 gets fits and noise floors; the other ranks get the measurements alone.
//
// A pass visits all points that are still open, with buffers in fresh pages. The order changes from pass to pass, so
// that a disturbance meets different points. A visit is one repeat: a call that is checked, calls that are timed, and a
// last check of the result. Calls are timed one by one, on a GPU in batches between two waits. A call takes as long as
// on the slowest rank of all groups of its family, which work at the same time.
//
// Passes end when every median is known to `confidence` by at least `settled_repeats`, or when the next pass would not
// fit the budget. There are at least `least_passes`. Between quick passes the ranks pause, so that settled_repeats of
// them fill `spread` of the budget. The reason is that what disturbs a machine lasts for seconds. Repeats that all lie
// inside one disturbance, or all outside, would look surer than they are.
inline constexpr int least_passes = 6, settled_repeats = 20;
std::vector<plan::CommSeries> sweep(Ranks& ranks, const std::vector<plan::GroupFamily>& families,
                                    const SweepOptions& options, const SweepListener& listener,
                                    comm::Ledger& rounds);  // each visit is a call in `rounds`, for a watchdog

}  // namespace trainyard::profile
