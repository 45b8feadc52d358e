// Timeline: one step of a trace. It shows when each rank computed what, beside the ideal time of the same action lists.
#pragma once

#include "libtrain/plan/schedule/simulate.h"
#include "tools/common/terminal.h"
#include "tools/inspect/trace.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::inspect {

struct TimelineBlock {
  enum class Kind { forward, backward, input_gradients, weight_gradients, other } kind;
  const char* name;         // of the action
  std::int64_t micro = -1;  // index in the step
  int chunk = -1;
  double begin = 0, end = 0;  // seconds from the beginning of the step
};
struct TimelineTimes {
  double begin, end;
};
struct TimelineRow {
  std::string name;                          // "rank 3", "stage 1"
  std::vector<TimelineBlock> blocks;         // without waits; a wait divides a block
  std::vector<TimelineTimes> communication;  // when any thread of the rank was in a collective; only in measured rows
  double passes = 0;                         // seconds in forward and backward
  double other = 0;                          // seconds in other actions, without waits
  double waiting = 0;                        // seconds waiting for communication, in any action
  double communicating = 0;
};

struct Timeline {
  std::int64_t step = 0;
  double seconds = 0;                 // from the first action of any rank to the end of the last one
  double passes_begin = 0;            // beginning of the first forward of any rank
  double passes_seconds = 0;          // from passes_begin to the end of the last backward
  std::vector<TimelineRow> measured;  // by rank
  std::vector<double> rounds;         // beginnings of accumulation steps on rank 0; only with one stage
  // The share of the ranks' time between the first forward and the last backward in which they did not compute.
  double idle_fraction() const;

  // The ideal simulates the traced action lists of the ranks (plan::simulate). Each part takes its mean time, and
  // messages take no time.
  std::vector<TimelineRow> ideal;  // by rank
  std::vector<plan::PartCosts> costs;
  double ideal_seconds = 0, ideal_idle_fraction = 0;
  std::string problem;  // why there is no ideal; empty if there is one
};

// Makes the timeline of a step; 0 is the last that all ranks finished. UsageError for a step that they did not finish,
// InputError if they finished none.
Timeline timeline_of(const Trace& trace, std::int64_t step, const std::string& file);

// Text of `columns` columns. Ranks after the first 32 are left out, and the text says so.
std::string timeline_text(const Timeline& timeline, const Trace& trace, int columns, tools::Glyphs glyphs);
std::string timeline_svg(const Timeline& timeline, const Trace& trace, const std::string& caption);

}  // namespace trainyard::inspect
