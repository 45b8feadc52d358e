// Reports: the plan as text, traffic announced against measured.
#pragma once

#include "libtrain/comm/communicator.h"
#include "libtrain/engine/trainer.h"

#include <cstdint>
#include <string>

namespace trainyard::engine {

// Bytes that this rank sends on the data group in one validation micro-batch: the gathers of stage 3.
std::int64_t announced_validation_bytes(const TrainerSetup& setup);

// A table: operation, announced, measured (since the ledger was reset), difference.
std::string traffic_table(const TrainerSetup& setup, const comm::Communicator& data, std::int64_t steps, std::int64_t validation_sequences);

std::string plan_text(const TrainerSetup& setup, const std::string& output);

}  // namespace trainyard::engine
