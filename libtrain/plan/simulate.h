// Simulate: the action lists of all stages, run against one another without computing: do they end, do they say what
// they should, how long does a step take, and what is kept meanwhile.
#pragma once

#include "libtrain/plan/schedule.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::plan {

// Of one part of the model, for one micro-batch.
struct PartCosts {
  double forward = 1, input_gradients = 1, weight_gradients = 1;  // seconds; a backward is both gradients
  std::int64_t slot_bytes = 0;                                    // of what a micro-batch keeps between them
};

// Each rank has one that computes, and four queues of messages, each in the order of the list: from the stage before,
// to the stage behind, and the same backwards. No queue waits for another, and computing waits for what arrives, and
// with gradients to send for the copy of those before to have left. A message takes `message_seconds` from when it was
// sent and may arrive, and occupies both queues so long.
struct SimulatedWork {
  Action::Kind kind;  // forward, backward, or one half of that
  int chunk;
  std::int64_t micro;
  double begin, end;  // seconds from the beginning of the step
};
struct SimulatedStage {
  std::vector<SimulatedWork> work;  // in order
  double busy = 0;                  // seconds of computing
  double end = 0;                   // when its list is over, in seconds from the beginning of the step
  std::vector<int> most_in_flight;  // of each chunk: slots that held a micro-batch at one time
  std::int64_t peak_bytes = 0;      // of all slots that held one at the same time
};

struct Simulated {
  std::string problem;  // empty: the lists are live and right; else what is wrong, and nothing below is known
  double seconds = 0;
  std::vector<SimulatedStage> stages;
  double idle_fraction() const;  // of all stages together
};

// lists[stage], of one pipeline (ranks of the same data and tensor coordinate) that has `micros` micro-batches;
// costs[part], part = chunk * stages + stage. What it finds wrong: lists that wait for one another for ever, a message
// that is not the one that the other side awaits, a computation before what it needs, twice, or never, backward that
// does not ascend, a slot that is taken before its micro-batch is over, gradients that may arrive where activations
// have not left, an agreement that nobody asked for or that comes amid micro-batches, a list that does not end with one
// reduction and one update.
Simulated simulate(const std::vector<std::vector<Action>>& lists, int chunks, const std::vector<PartCosts>& costs,
                   double message_seconds, std::int64_t micros);

}  // namespace trainyard::plan
