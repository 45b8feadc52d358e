// Timeline: one step of a trace, what each rank computed when, beside what its lists would take at best.
#pragma once

#include "libtrain/plan/simulate.h"
#include "tools/common/terminal.h"
#include "tools/inspect/trace.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::inspect {

struct TimelineBlock {
  enum class Kind { forward, backward, input_gradients, weight_gradients, other } kind;
  const char* name;         // of the action
  std::int64_t micro = -1;  // in the step
  int chunk = -1;
  double begin = 0, end = 0;  // seconds from the beginning of the step
};
struct TimelineTimes {
  double begin, end;
};
struct TimelineRow {
  std::string name;                          // "rank 3", "stage 1"
  std::vector<TimelineBlock> blocks;         // without what was waited in them, which cuts them
  std::vector<TimelineTimes> communication;  // when any thread of the rank was in a collective, of measured rows
  double passes = 0;                         // seconds in forward and backward
  double other = 0;                          // in other actions, waits left out
  double waiting = 0;                        // for communication, in any action
  double communicating = 0;
};

struct Timeline {
  std::int64_t step = 0;
  double seconds = 0;                 // from the first action of any rank to the end of the last
  double passes_begin = 0;            // the first forward of any rank
  double passes_seconds = 0;          // from there to the end of the last backward
  std::vector<TimelineRow> measured;  // by rank
  std::vector<double> rounds;         // when the rounds begin on rank 0, where there is one stage
  // Of the time that all ranks had between the first forward and the last backward, what they did not compute in.
  double idle_fraction() const;

  // The lists of the ranks as they were traced (plan::simulate), with the mean of what each part took and messages that
  // take no time.
  std::vector<TimelineRow> ideal;  // by rank
  std::vector<plan::PartCosts> costs;
  double ideal_seconds = 0, ideal_idle_fraction = 0;
  std::string problem;  // why there is no ideal; empty: there is one
};

// step 0: the last that all ranks finished. UsageError for one that they did not, InputError where there is none.
Timeline timeline_of(const Trace& trace, std::int64_t step, const std::string& file);

// `columns` wide. Ranks after the first 32 are left out, and that is said.
std::string timeline_text(const Timeline& timeline, const Trace& trace, int columns, tools::Glyphs glyphs);
std::string timeline_svg(const Timeline& timeline, const Trace& trace, const std::string& caption);

}  // namespace trainyard::inspect
