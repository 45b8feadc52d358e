// Pipeline: the order in which a stage computes its micro-batches. Pure functions of the numbers of micro-batches, of
// stages, and of the chunks (virtual stages) of a stage.
#pragma once

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// A model is split into stages * chunks neighbouring parts, and part c * stages + s is chunk c of stage s. So with
// several chunks a micro-batch passes through every stage several times.
//  naive        a micro-batch passes forward and backward through all stages before the next one begins
//  gpipe        all forwards, then all backwards: Huang et al. (2019), "GPipe"
//  one_f_one_b  a stage begins backward as soon as it can: Narayanan et al. (2019), "PipeDream", flushed each step. At
//               most min(stages - stage, micros) micro-batches are between forward and backward
//  interleaved  the same over several chunks: Narayanan et al. (2021), "Efficient large-scale language model training"
//  zero_bubble  one_f_one_b, but weight gradients are computed apart from input gradients, later, where a stage would
//               wait: Qi et al. (2023), "Zero bubble pipeline parallelism", ZB-H1. A stage keeps at most
//               min(stages, micros) micro-batches, as many as the first stage keeps anyway
// In every schedule and stage, backward passes ascend in the micro-batch, and so do the weight gradients of each chunk.
enum class PipelineSchedule { naive, gpipe, one_f_one_b, interleaved, zero_bubble };

// depth: a micro-batch passes all layers of a stage before the next one does. breadth: all micro-batches pass a layer
// before the next layer: "GreedySnake", arXiv 2512.17570.
enum class AccumulationOrder { depth, breadth };

// What a stage computes. `backward` computes both gradients; zero_bubble has the other two in its place.
struct StageWork {
  enum class Kind { forward, backward, input_gradients, weight_gradients } kind;
  std::int64_t micro;  // counted from 0 among the stage's micro-batches
  int chunk = 0;
  std::int64_t block = -1;  // of the chunk; -1: all blocks of the chunk, one after the other
  bool operator==(const StageWork&) const = default;
};

// The order of a stage's work. There may be fewer micro-batches than stages, or no multiple of them. interleaved works
// on groups of as many micro-batches as there are stages, and the last group may be smaller. `chunks` is 1 except for
// interleaved. micros >= 0, stages >= 1, 0 <= stage < stages.
std::vector<StageWork> stage_work(PipelineSchedule schedule, std::int64_t micros, int stages, int chunks, int stage);

// The order of a stage that works breadth first: each of its `blocks` computes the forward passes of all micro-batches
// before the next block begins, and backward in reverse. In every block the micro-batches ascend, as in the order of
// gpipe, whose messages and slots it has.
std::vector<StageWork> breadth_first_work(std::int64_t micros, std::int64_t blocks);

// For each chunk of a stage: the most micro-batches that are between forward and the end of backward at one time.
std::vector<int> most_in_flight(PipelineSchedule schedule, std::int64_t micros, int stages, int chunks, int stage);

}  // namespace trainyard::plan
