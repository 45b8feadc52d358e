// RecordedLayout: the parallel layout that wrote a checkpoint, as far as the checkpoint records it.
#pragma once

#include "libtrain/checkpoint/run_state.h"

#include <cstdint>
#include <optional>
#include <string>

namespace trainyard::checkpoint {

// Only for readers: nobody has checked what it says. A value of another type than a number or a switch counts as not
// recorded. Degrees that an older program could not have are 1.
struct RecordedLayout {
  std::optional<std::int64_t> ranks, zero;
  std::int64_t tensor = 1, expert_parallel = 1, pipeline = 1, virtual_stages = 1;
  bool sequence_parallel = false;
  std::string pipeline_schedule;                 // empty: not recorded, or not known to this program
  base::DType gradient_sums = base::DType::f32;  // plans leave it out where it is f32
  std::int64_t zero_group = 0;                   // the same where it is 0
};

RecordedLayout recorded_layout(const RunState& state);

}  // namespace trainyard::checkpoint
