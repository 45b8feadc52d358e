// What --recompute auto takes: the least that is recomputed so that a rank fits its memory.
#pragma once

#include "libtrain/plan/plan_memory.h"

#include <cstdint>

namespace trainyard::plan {

// Bytes of memory that a rank of the stage that needs most has with the recomputation. Reads no prediction.
std::int64_t memory_with(const Plan& plan, const Recomputation& recompute);

// What a plan has until --recompute auto is decided: none, or full where the plan needs it, because activations lie
// elsewhere.
Recomputation undecided_recomputation(const ParallelLayout& layout);

// The fewest layers, in the form, whose ranks need at most `bytes`. In the form `layers`, some layers are recomputed in
// full, and the others selectively; where the plan has activations elsewhere, the others keep all. If none
// fits, the one that needs least. `none` is the form without any.
Recomputation fewest_recomputed(const Plan& plan, Recompute form, std::int64_t bytes);

// The same in the first form in which it fits, from none on. So what takes least time for the memory that it frees goes
// first: selective recomputation repeats no product. With `bytes` 0 the undecided one.
Recomputation fitting_recomputation(const Plan& plan, std::int64_t bytes);
Recomputation fitting_recomputation(const Plan& plan, PlanMemory& memory, std::int64_t bytes);  // the plan's memory

// May the plan have this form? Not all forms go with its schedule, and activations elsewhere need `layers`.
bool may_recompute(const Plan& plan, Recompute form);

// All layers but the last of a stage in full. Where few micro-batches are in flight this needs less memory than all
// layers: while the last one is computed again, all that it has stays, and its input does so, too.
Recomputation all_but_the_last(const Plan& plan);

}  // namespace trainyard::plan
