// StepResults: where a step's losses, norm and clip factor are made and kept: memory of the device that computes, and a
// way for the host to read them later.
#pragma once

#include "kernels/step_numbers/step_numbers.h"
#include "libtrain/comm/communicator.h"
#include "libtrain/params/context.h"
#include "libtrain/plan/batch.h"
#include "libtrain/tensor/device_buffer.h"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace trainyard::engine {

// On a GPU all of it is device memory outside the arenas, a few hundred bytes and 16 for every micro-batch, and numbers
// are copied to pinned memory behind each step; on the CPU it is host memory. All methods are called by the compute
// thread.
class StepResults {
 public:
  // `results` reaches all ranks and takes views of the device that `context.compute` computes on. Ranks that share the
  // layers of one replica are neighbours and have the same losses: the first of them counts; of stages the last.
  StepResults(params::StoreContext& context, comm::Communicator& results, double clip);
  ~StepResults();
  StepResults(const StepResults&) = delete;

  void begin();  // forgets the losses of the step before
  base::View loss_of(std::int64_t place) const {
    return pair(place, 0);
  }  // f64 [1]: a micro-batch of this rank, in the order it works on them
  base::View targets_of(std::int64_t place) const { return pair(place, 1); }

  // Collective: gathers losses, adds up the squares of the gradients that this rank counts, and makes the numbers, in
  // the order of context.compute. Nobody waits.
  void agree(std::span<const base::View> gradients);
  const kernels::StepNumbers* numbers() const { return numbers_; }  // memory of the device

  // Sends the numbers of the newest step to the host; at most two may be on their way. take() waits for the oldest.
  void send();
  kernels::StepNumbers take();

  std::vector<double> own_losses();  // pairs of loss sum and targets; waits. For a diagnosis.

 private:
  base::View pair(std::int64_t place, int which) const;
  std::int64_t own_count() const { return 2 * places_; }

  params::StoreContext& c_;
  comm::Communicator& results_;
  plan::BatchPlan batch_;
  std::int64_t places_;
  double clip_;
  std::vector<std::uint64_t> host_;  // the CPU's memory
  tensor::DeviceBuffer device_;      // a GPU's
  tensor::PinnedBuffer pinned_;
  double *own_ = nullptr, *all_ = nullptr;  // [2 * places], [ranks][2 * places]
  std::int64_t* limbs_ = nullptr;
  kernels::StepNumbers* numbers_ = nullptr;
  std::array<kernels::StepNumbers, 2> read_{};  // the CPU's
  std::array<tensor::Event, 2> sent_;
  std::int64_t sends_ = 0, takes_ = 0;
};

}  // namespace trainyard::engine
