// Trace kinds: what a run traces, and the words of a trace file.
#pragma once

#include "libtrain/base/trace.h"

namespace trainyard::base::traced {

// An action of a rank's action list (plan/schedule/schedule.h), named by its kind, on the thread that computes. The
// update is the last action.
inline constexpr TraceKind action{"action", {"step", "round", "place", "micro", "chunk", "slot", "block"}};
// A call of a communicator as its ledger records it, on the thread that calls; it has a group.
inline constexpr TraceKind call{"collective", {"bytes", "sequence"}};
// Computation waits for another thread, inside an action. On a GPU the CUDA stream waits instead, so this span is
// short.
inline constexpr TraceKind wait{"wait", {}};
inline constexpr TraceKind save{"save", {"step"}};
inline constexpr TraceKind load{"load", {"sample"}};
inline constexpr TraceKind validation{"validation", {"sequences"}};

}  // namespace trainyard::base::traced
