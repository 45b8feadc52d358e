// What a rank does in a step outside of its passes: collectives of flat groups, the update, and moves to and from the
// host or disks. Seconds of each, as if nothing hid them.
#pragma once

#include "libtrain/plan/machine/machine.h"
#include "libtrain/plan/plan.h"

namespace trainyard::plan {

// Collectives of a rank of the stage outside of layers, in a step: gathers of ZeRO 3 for every micro-batch, reductions,
// gathers of updated weights before the first forward, and what nothing hides behind the last backward. rings:
// reductions go in rings, in the order of a library, and each flat group in one call.
struct DataSeconds {
  double gathers = 0, reductions = 0, at_begin = 0, at_end = 0;
};
DataSeconds data_seconds(const Plan& plan, const Machine& machine, int stage, bool rings);
// Of item `item` of the model: gathers of its weights before its first forward, and reductions of the gradients of one
// accumulation step.
struct ItemSeconds {
  double gather = 0, reduction = 0;
};
ItemSeconds item_seconds(const Plan& plan, const Machine& machine, std::int64_t item, bool rings);

// Of what the update of a stage reads and writes: in the memory of the rank, and elsewhere by its host.
struct UpdateSeconds {
  double here = 0, on_host = 0;
};
UpdateSeconds update_seconds(const Plan& plan, const Machine& machine, int stage);

// Of a step's bytes on the way to and from the host or the disks of the node, which all its devices share.
struct MovingSeconds {
  double all = 0;
  double gradients_down = 0, weights_up = 0;  // of them, on the link and once a step
  double update_on_disk = 0;                  // of them, what the update reads and writes
};
MovingSeconds moving_seconds(const Plan& plan, const Machine& machine, int stage);

// InputError: the machine lacks the rate, which `what` needs.
[[noreturn]] void refuse_unknown(const Machine& machine, const char* rate, const char* what);

}  // namespace trainyard::plan
