// RankRecord: what every rank sends to all others at the end of a step. It holds the stop request, the state of the
// background writer, and the times of compute and communication.
#pragma once

#include "libtrain/engine/metrics.h"
#include "libtrain/engine/world.h"

#include <vector>

namespace trainyard::engine {

// All numbers are doubles, so that a record is gathered as a row of doubles.
struct RankRecord {
  double stop = 0, written_step = -1, published_step = -1, failed = 0;
  double compute = 0, communication = 0, exposed = 0, peak_bytes = 0;
  double expert_rounds = 0;  // dispatch rounds of the layer that took most in a pass; 0: none
  double disk_wait = -1;     // seconds that the step was blocked on the disk; -1: nothing is offloaded
};

// Gathers the records of all ranks, by rank. Collective, on `communication`.
std::vector<RankRecord> records_of_all(const RankRecord& mine, World& world, tensor::Exec& communication);

bool any_stops(const std::vector<RankRecord>& all);
bool any_failed(const std::vector<RankRecord>& all);
// Has every rank written its file of the checkpoint of `step`?
bool all_wrote(const std::vector<RankRecord>& all, std::int64_t step);

// Writes into `m` the times of the rank that computed longest, and the largest peak, most dispatch rounds and longest
// wait for the disk of any rank.
void add_slowest(const std::vector<RankRecord>& all, StepMetrics& m);

}  // namespace trainyard::engine
