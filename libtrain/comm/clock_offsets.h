// Clock offsets: how far the steady clocks of ranks are apart, which on several machines begin anywhere.
#pragma once

#include "libtrain/base/clock.h"
#include "libtrain/comm/communicator.h"

#include <vector>

namespace trainyard::comm {

struct ClockOffset {
  double at = 0;           // when it was measured, by the rank's clock, in seconds
  double offset = 0;       // the rank's clock minus that of rank 0
  double uncertainty = 0;  // the true offset lies as far from it at most
};

// By rank; collective over `control`, a communicator of host memory, on `exec`. Rank 0 sends each rank in turn a
// message and gets back what the rank's clock says; of several such rounds the one that was over soonest counts, and
// its uncertainty is half of what it took (Cristian 1989). Each rank gives its own clock.
std::vector<ClockOffset> clock_offsets(Communicator& control, tensor::Exec& exec, const base::Clock& clock,
                                       int rounds = 16);

}  // namespace trainyard::comm
