// Pipeline: in what order a stage computes its micro-batches. Pure functions of their number, of the stages, and of the
// chunks that a stage has.
#pragma once

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// A model is cut into stages * chunks neighbouring parts; part c * stages + s is chunk c of stage s, so that with
// several chunks a micro-batch passes through every stage several times.
//  naive        a micro-batch passes forward and backward through all stages before the next one begins
//  gpipe        all forwards, then all backwards: Huang et al. (2019), "GPipe"
//  one_f_one_b  a stage begins backward as soon as it can: Narayanan et al. (2019), "PipeDream", flushed each step. At
//               most min(stages - stage, micros) micro-batches are between forward and backward
//  interleaved  the same over several chunks: Narayanan et al. (2021), "Efficient large-scale language model training"
//  zero_bubble  one_f_one_b whose weight gradients are made apart from input gradients, later, where a stage would
//               wait: Qi et al. (2023), "Zero bubble pipeline parallelism", ZB-H1. A stage keeps at most
//               min(stages, micros) micro-batches, as many as the first one does anyway
// All compute backward in ascending micro-batches, and so the weight gradients of each chunk, in every stage.
enum class PipelineSchedule { naive, gpipe, one_f_one_b, interleaved, zero_bubble };

// What a stage computes. `backward` makes both gradients; zero_bubble has the other two in its place.
struct StageWork {
  enum class Kind { forward, backward, input_gradients, weight_gradients } kind;
  std::int64_t micro;  // of the stage's micro-batches, counted from 0
  int chunk = 0;
  bool operator==(const StageWork&) const = default;
};

// One schedule for micro-batches that may be fewer than the stages, or no multiple of them: interleaved stages work on
// groups of as many micro-batches as there are stages, the last group may be smaller. `chunks` is 1 but for
// interleaved. micros >= 0, stages >= 1, 0 <= stage < stages.
std::vector<StageWork> stage_work(PipelineSchedule schedule, std::int64_t micros, int stages, int chunks, int stage);

// Of each chunk of a stage: the most micro-batches that are between forward and the end of backward at one time.
std::vector<int> most_in_flight(PipelineSchedule schedule, std::int64_t micros, int stages, int chunks, int stage);

}  // namespace trainyard::plan
