// Reports: the plan as text, traffic announced against measured, FLOPs of a step.
#pragma once

#include "libtrain/comm/communicator.h"
#include "libtrain/engine/trainer.h"

#include <cstdint>
#include <map>
#include <string>

namespace trainyard::engine {

// Model FLOPs of one optimizer step: 72 B s L h^2 (1 + s / (6 h) + V / (12 L h)) for a GPT shape (Narayanan et al. 2021), here term by term for any shape:
// 6 per matrix weight and token, and 12 s h per layer and token for attention, counted in full although it is causal.
double model_flops(const TrainerSetup& setup);

// Bytes that this rank sends in one training step on the data group, by operation, from the plan; and in one validation micro-batch.
std::map<std::string, std::int64_t> announced_traffic(const TrainerSetup& setup, int rank);
std::int64_t announced_validation_bytes(const TrainerSetup& setup);

// A table: operation, announced, measured (since the ledger was reset), difference.
std::string traffic_table(const TrainerSetup& setup, const comm::Communicator& data, std::int64_t steps, std::int64_t validation_sequences);

std::string plan_text(const TrainerSetup& setup, const std::string& output);

}  // namespace trainyard::engine
