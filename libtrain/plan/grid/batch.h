// Which rank computes which micro-batch, and in what order gradients are added (decision 1). Pure arithmetic.
#pragma once

#include "libtrain/base/reduction_order.h"
#include "libtrain/plan/grid/batch_ramp.h"

#include <cstdint>
#include <string>

namespace trainyard::plan {

enum class Reduction { ordered, fast };  // fast: the communication library's order, which gives up equal bits

// How one step is divided. Of a run whose batch grows, this is its largest step; of_size has the other ones.
struct BatchPlan {
  std::int64_t global_batch = 1;  // sequences in a step
  std::int64_t micro_batch = 1;   // sequences in a micro-batch
  // g: consecutive micro-batches whose gradients a rank adds before the ordered reduction
  std::int64_t local_accumulation = 1;
  int data_ranks = 1;   // d
  BatchRamp ramp = {};  // in samples: how the batch grows to global_batch

  // A step of another size, divided in the same way.
  BatchPlan of_size(std::int64_t sequences) const { return {sequences, micro_batch, local_accumulation, data_ranks}; }
  // Does a step of any size have an uneven last accumulation step?
  bool ever_uneven() const {
    const auto each = micro_batch * local_accumulation * data_ranks;
    return accumulation_groups() % data_ranks != 0 || ramp.start % each != 0 || ramp.increment % each != 0;
  }

  std::int64_t micros() const { return global_batch / micro_batch; }  // M
  // Groups of local_accumulation micro-batches; the last one may be shorter.
  std::int64_t accumulation_groups() const { return (micros() + local_accumulation - 1) / local_accumulation; }
  // Accumulation steps: in each one every rank computes one group, and one reduction follows.
  std::int64_t accumulation_steps() const { return (accumulation_groups() + data_ranks - 1) / data_ranks; }
  // The accumulation group that data rank r computes in accumulation `accumulation_step`, or -1 if the rank has none in
  // an uneven last step. Here r is the rank's position in the reduction order (Topology::reduction_position).
  std::int64_t accumulation_group_of(int r, std::int64_t accumulation_step) const {
    const auto q = accumulation_step * data_ranks + r;
    return q < accumulation_groups() ? q : -1;
  }
  int contributors(std::int64_t accumulation_step) const {
    const auto left = accumulation_groups() - accumulation_step * data_ranks;
    return static_cast<int>(left < data_ranks ? left : data_ranks);
  }
  // Accumulation steps in which data rank r has a group.
  std::int64_t accumulation_steps_of(int r) const {
    return r < accumulation_groups() ? (accumulation_groups() - 1 - r) / data_ranks + 1 : 0;
  }
  // Micro-batches that data rank r computes.
  std::int64_t micros_of(int r) const {
    const auto n = accumulation_steps_of(r), last = (n - 1) * data_ranks + r;
    return n == 0 ? 0 : (n - 1) * local_accumulation + end_micro(last) - first_micro(last);
  }
  // How often in a step all ranks together do what each does for a micro-batch, such as an all-to-all of experts. It is
  // the size of the longest group of each accumulation step, added up. Ranks with a shorter group, or without one, take
  // part with empty micro-batches. The longest group is rank 0's.
  std::int64_t lockstep_micros() const {
    const auto last = (accumulation_steps() - 1) * data_ranks;
    return (accumulation_steps() - 1) * local_accumulation + end_micro(last) - first_micro(last);
  }
  base::MicroBatchPlace place_of(std::int64_t micro) const {
    return base::place_of_micro_batch(micro, local_accumulation, data_ranks);
  }
  std::int64_t places() const {
    return accumulation_steps() * local_accumulation;
  }  // of a rank, with the empty micro-batches
  // The micro-batch that the same rank computes after `micro`; -1 if there is none in this step.
  std::int64_t next(std::int64_t micro) const {
    const auto group = place_of(micro).accumulation_group;
    if (micro + 1 < end_micro(group)) return micro + 1;
    return group + data_ranks < accumulation_groups() ? first_micro(group + data_ranks) : -1;
  }
  bool operator==(const BatchPlan&) const = default;
  std::int64_t first_micro(std::int64_t group) const { return group * local_accumulation; }
  std::int64_t end_micro(std::int64_t group) const {
    const auto e = (group + 1) * local_accumulation;
    return e < micros() ? e : micros();
  }
};

// A sentence for users if replicas are idle for a tenth of a step's accumulation steps or more, because the last one is
// uneven; else "".
std::string idle_text(const BatchPlan& batch);

}  // namespace trainyard::plan
