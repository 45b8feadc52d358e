// Agreement among the ranks of a run (comm/agreement.h), over its control communicator.
#pragma once

#include "libtrain/comm/agreement.h"
#include "libtrain/engine/world.h"

namespace trainyard::engine {

// When the calls so far over a communicator of host memory are over. With a GPU's Exec they are when they return: to
// wait for its stream would be to wait for all that the device still has to do.
inline tensor::Event host_call_over(tensor::Exec& exec) { return exec.on_gpu() ? tensor::Event{} : exec.record(); }

inline std::string on_rank_zero(World& world, tensor::Exec& exec, const std::function<std::string()>& work) {
  return comm::on_rank_zero(*world.control, exec, work);
}
inline void on_every_rank(World& world, tensor::Exec& exec, const std::function<void()>& work) {
  comm::on_every_rank(*world.control, exec, work);
}

// Runs `work`. An error that is not of all ranks goes to World::fail first, while everything still stands that
// communication under way works on.
template <class Work> auto or_fail(World& world, Work&& work) {
  try {
    return work();
  } catch (const comm::AgreedError&) {
    throw;
  } catch (const std::exception& e) {
    if (world.fail) world.fail(e);
    throw;
  }
}

}  // namespace trainyard::engine
