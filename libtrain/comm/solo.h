// The communicator of one rank: nothing leaves the rank.
#pragma once

#include "libtrain/comm/communicator.h"

#include <memory>

namespace trainyard::comm {

std::unique_ptr<Communicator> make_solo(std::string group);

}  // namespace trainyard::comm
