// Agreement among the ranks of a run (comm/agreement.h), over its control communicator.
#pragma once

#include "libtrain/comm/agreement.h"
#include "libtrain/engine/world.h"

#include <nlohmann/json.hpp>

#include <string>

namespace trainyard::engine {

// The event after which the calls issued so far over a communicator of host memory are complete. With a GPU's Exec they
// are complete when they return, so the event is empty. Waiting for its stream would wait for all work that the device
// still has to do.
inline tensor::Event host_call_over(tensor::Exec& exec) { return exec.on_gpu() ? tensor::Event{} : exec.record(); }

inline std::string on_rank_zero(World& world, tensor::Exec& exec, const std::function<std::string()>& work) {
  return comm::on_rank_zero(*world.control, exec, work);
}
// The same for a value that JSON can hold (nlohmann's to_json and from_json; start_json.h has those of a start).
template <class Work> auto value_of_rank_zero(World& world, tensor::Exec& exec, const Work& work) {
  const auto text = on_rank_zero(world, exec, [&] { return nlohmann::json(work()).dump(); });
  return nlohmann::json::parse(text).template get<decltype(work())>();
}
inline void on_every_rank(World& world, tensor::Exec& exec, const std::function<void()>& work) {
  comm::on_every_rank(*world.control, exec, work);
}

// Runs `work`. An error that not all ranks share (no AgreedError) goes to World::fail first. At that time everything
// still exists that communication under way uses.
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
