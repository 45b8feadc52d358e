// Agreement: all ranks learn what one rank found or failed at: results of rank 0, and errors.
#pragma once

#include "libtrain/base/error.h"
#include "libtrain/comm/communicator.h"

#include <functional>
#include <string>
#include <vector>

namespace trainyard::comm {

// An error that all ranks throw at the same place. So one rank can report it for all, and all ranks can end in order.
// Any other exception belongs to one rank, and the other ranks may wait for that rank.
struct AgreedError : base::Error {
  using base::Error::Error;
};

// All functions are collective over `control`, a communicator of host memory, on `exec`. A PeerError of `work` is
// rethrown as it is, because the other ranks cannot be asked.

// Runs `work` on rank 0 and returns its text on every rank. If it throws, every rank throws its error as an
// AgreedError.
std::string on_rank_zero(Communicator& control, tensor::Exec& exec, const std::function<std::string()>& work);
// Every rank runs `work`. If any rank throws, all ranks throw an AgreedError: the error of the lowest failing rank,
// with the number of that rank unless it is 0.
void on_every_rank(Communicator& control, tensor::Exec& exec, const std::function<void()>& work);
// The texts of all ranks, in rank order.
std::vector<std::string> texts_of_all(Communicator& control, tensor::Exec& exec, const std::string& text);

}  // namespace trainyard::comm
