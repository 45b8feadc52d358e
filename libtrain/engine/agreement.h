// Agreement among the ranks of a run (comm/agreement.h), over its control communicator.
#pragma once

#include "libtrain/comm/agreement.h"
#include "libtrain/engine/world.h"

namespace trainyard::engine {

inline std::string on_rank_zero(World& world, tensor::Exec& exec, const std::function<std::string()>& work) { return comm::on_rank_zero(*world.control, exec, work); }
inline void on_every_rank(World& world, tensor::Exec& exec, const std::function<void()>& work) { comm::on_every_rank(*world.control, exec, work); }

}  // namespace trainyard::engine
