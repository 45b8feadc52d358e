// What every rank tells every other at the end of a step: whether it is asked to stop, how far its background writer
// is, how long it computed and talked.
#pragma once

#include "libtrain/engine/metrics.h"
#include "libtrain/engine/world.h"

#include <vector>

namespace trainyard::engine {

// All numbers are doubles, so that a record travels as a row of them.
struct RankRecord {
  double stop = 0, written_step = -1, published_step = -1, failed = 0;
  double compute = 0, communication = 0, exposed = 0, peak_bytes = 0;
  double expert_rounds = 0;  // of the layer that took most in a pass; 0: experts take none
};

// By rank. Collective, on `communication`.
std::vector<RankRecord> records_of_all(const RankRecord& mine, World& world, tensor::Exec& communication);

bool any_stops(const std::vector<RankRecord>& all);
bool any_failed(const std::vector<RankRecord>& all);
// Did every rank write its file of the checkpoint of `step`.
bool all_wrote(const std::vector<RankRecord>& all, std::int64_t step);

// The times of the rank that computed longest, and the largest peak and most rounds of any, into `m`.
void add_slowest(const std::vector<RankRecord>& all, StepMetrics& m);

}  // namespace trainyard::engine
