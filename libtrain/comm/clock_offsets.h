// Clock offsets: how far the ranks' steady clocks are apart. On several machines these clocks begin anywhere.
#pragma once

#include "libtrain/base/clock.h"
#include "libtrain/comm/communicator.h"

#include <vector>

namespace trainyard::comm {

struct ClockOffset {
  double at = 0;           // when it was measured, in seconds of the rank's clock
  double offset = 0;       // the rank's clock minus rank 0's clock
  double uncertainty = 0;  // the true offset differs from `offset` by at most this
};

// The offsets by rank. Collective over `control`, a communicator of host memory, on `exec`. Each rank passes its own
// clock. Rank 0 sends a message to one rank after the other, and each answers with the time of its clock. Of `rounds`
// such round trips the shortest counts, and its uncertainty is half its duration (Cristian 1989).
std::vector<ClockOffset> clock_offsets(Communicator& control, tensor::Exec& exec, const base::Clock& clock,
                                       int rounds = 16);

}  // namespace trainyard::comm
