// Simulates the action lists of all stages against one another without computing. It finds whether they end and are
// correct, how long a step takes, and how much memory is in use.
#pragma once

#include "libtrain/plan/schedule/schedule.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::plan {

// Costs of one part of the model, for one micro-batch.
struct PartCosts {
  double forward = 1, input_gradients = 1, weight_gradients = 1;  // seconds; a backward takes both gradients
  std::int64_t slot_bytes = 0;  // what a micro-batch keeps between forward and backward
};

// The model of a rank: one thread that computes, and four message queues: activations and gradients, in and out. All
// follow the order of the list. No queue waits for another one. Computing waits for messages that arrive; before it
// sends gradients, it waits until the copy of the gradients before has left. A message takes `message_seconds` from
// when it is sent and may arrive. It occupies both queues for that time.
struct SimulatedWork {
  Action::Kind kind;  // forward, backward, or one half of a backward
  int chunk;
  std::int64_t micro;
  double begin, end;  // seconds since the beginning of the step
};
struct SimulatedStage {
  std::vector<SimulatedWork> work;  // in the order of computing
  double busy = 0;                  // seconds of computing
  double end = 0;                   // when its list ends, in seconds since the beginning of the step
  std::vector<int> most_in_flight;  // for each chunk: slots that held a micro-batch at one time
  std::int64_t peak_bytes = 0;      // the most bytes of occupied slots at one time
};

struct Simulated {
  std::string problem;  // empty: the lists end and are correct; else what is wrong, and the other members are not set
  double seconds = 0;
  std::vector<SimulatedStage> stages;
  double idle_fraction() const;  // over all stages
};

// lists[stage] are the lists of one pipeline (ranks of the same data and tensor coordinate) with `micros`
// micro-batches; costs[part], part = chunk * stages + stage. It reports these errors: lists that wait for one another
// forever; a message that the other side does not await; a computation before its inputs, twice, or never; backward
// passes that do not ascend; a slot that is reused before its micro-batch is over; gradients that may arrive where
// activations have not left; an agreement that was not asked for or is amid micro-batches; a list that does not end
// with one reduction and one update.
Simulated simulate(const std::vector<std::vector<Action>>& lists, int chunks, const std::vector<PartCosts>& costs,
                   double message_seconds, std::int64_t micros);

}  // namespace trainyard::plan
