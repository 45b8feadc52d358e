// Trace kinds: what a run traces; the words of a trace file.
#pragma once

#include "libtrain/base/trace.h"

namespace trainyard::base::traced {

// Of a rank's list (plan/schedule.h), by the name of its kind, on the thread that computes. The update is the last.
inline constexpr TraceKind action{"action", {"step", "round", "place", "micro", "chunk", "slot"}};
// A call of a communicator as its ledger enters it, on the thread that makes it; has a group.
inline constexpr TraceKind call{"collective", {"bytes", "sequence"}};
// Computing waits for what another thread does; inside of an action. On a GPU the stream waits, so this is short.
inline constexpr TraceKind wait{"wait", {}};
inline constexpr TraceKind save{"save", {"step"}};
inline constexpr TraceKind load{"load", {"sample"}};
inline constexpr TraceKind validation{"validation", {"sequences"}};

}  // namespace trainyard::base::traced
