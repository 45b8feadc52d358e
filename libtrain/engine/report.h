// Reports: the plan as text, traffic announced against measured.
#pragma once

#include "libtrain/comm/communicator.h"
#include "libtrain/engine/size_table.h"
#include "libtrain/engine/trainer.h"

#include <cstdint>
#include <string>

namespace trainyard::engine {

struct Validations {
  std::int64_t count = 0, sequences = 0;   // how many, and sequences of each
};

// A table: operation, announced, measured (since the ledger was reset), difference.
SizeTable traffic_table(const plan::Plan& plan, const comm::Communicator& data, std::int64_t steps, const Validations& validations);

std::string plan_text(const plan::Plan& plan, const std::string& output, base::Sizes sizes);

}  // namespace trainyard::engine
