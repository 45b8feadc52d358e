// Agreement: what one rank found or failed at, all ranks learn: results of rank 0, and errors.
#pragma once

#include "libtrain/base/error.h"
#include "libtrain/comm/communicator.h"

#include <functional>
#include <string>
#include <vector>

namespace trainyard::comm {

// What all ranks throw at the same place, so that one can say it for all, and all can leave in peace. Any other
// exception is of one rank, and the rest may wait for it.
struct AgreedError : base::Error {
  using base::Error::Error;
};

// All collective over `control`, a communicator of host memory, on `exec`. A PeerError of `work` passes as it is: the
// others cannot be asked.

// Runs `work` on rank 0 and hands its text to every rank; what it throws, every rank throws as an AgreedError.
std::string on_rank_zero(Communicator& control, tensor::Exec& exec, const std::function<std::string()>& work);
// Every rank runs `work`; if any throws, all throw an AgreedError: that of the lowest failing rank, with its number
// unless it is rank 0.
void on_every_rank(Communicator& control, tensor::Exec& exec, const std::function<void()>& work);
// The texts of all ranks, in their order.
std::vector<std::string> texts_of_all(Communicator& control, tensor::Exec& exec, const std::string& text);

}  // namespace trainyard::comm
