// StepResults: where a step's losses, norm and clip factor are made and kept, and what its gates did: memory of the
// device that computes, and a way for the host to read them later.
#pragma once

#include "kernels/step_numbers/step_numbers.h"
#include "libtrain/comm/communicator.h"
#include "libtrain/engine/gate_metrics.h"
#include "libtrain/params/context.h"
#include "libtrain/plan/batch.h"
#include "libtrain/tensor/device_buffer.h"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace trainyard::engine {

// On a GPU all of it is device memory outside the arenas, a few hundred bytes, 16 for every micro-batch and 8 for every
// number of the gates' records; numbers and records are copied to pinned memory behind each step; on the CPU it is host
// memory. All methods are called by the compute thread.
class StepResults {
 public:
  // `results` reaches all ranks and takes views of the device that `context.compute` computes on. Ranks that share the
  // layers of one replica are neighbours and have the same losses: the first of them counts; of stages the last.
  StepResults(params::StoreContext& context, comm::Communicator& results, double clip, GateRecordShape gates = {});
  ~StepResults();
  StepResults(const StepResults&) = delete;

  void begin();  // forgets the losses of the step before, and what its gates did
  base::View loss_of(std::int64_t place) const {
    return pair(place, 0);
  }  // f64 [1]: a micro-batch of this rank, in the order it works on them
  base::View targets_of(std::int64_t place) const { return pair(place, 1); }

  // i64, the rows of model::Step::gate_records; empty where the model has no experts, and on a rank that shares its
  // layers with one before it, which does the same and tells it.
  base::View gate_records() const;

  // Collective: gathers losses, adds up the squares of the gradients that this rank counts and the records of all
  // ranks, and makes the numbers, in the order of context.compute. Nobody waits.
  void agree(std::span<const base::View> gradients);
  const kernels::StepNumbers* numbers() const { return numbers_; }  // memory of the device

  struct Told {
    kernels::StepNumbers numbers;
    std::span<const std::int64_t> gate_records;  // of all ranks; until the next send()
  };
  // Sends numbers and records of the newest step to the host; at most two may be on their way. take() waits for the
  // oldest.
  void send();
  Told take();

  std::vector<double> own_losses();  // pairs of loss sum and targets; waits. For a diagnosis.

 private:
  base::View pair(std::int64_t place, int which) const;
  std::int64_t own_count() const { return 2 * places_; }
  base::View sums() const;  // limbs and records, one behind the other
  std::int64_t told_words() const;
  std::uint64_t* told(std::size_t at);  // the host's copy: records, then numbers

  params::StoreContext& c_;
  comm::Communicator& results_;
  plan::BatchPlan batch_;
  std::int64_t places_;
  double clip_;
  GateRecordShape gates_;
  std::vector<std::uint64_t> host_;  // the CPU's memory
  tensor::DeviceBuffer device_;      // a GPU's
  tensor::PinnedBuffer pinned_;
  double *own_ = nullptr, *all_ = nullptr;  // [2 * places], [ranks][2 * places]
  std::int64_t *limbs_ = nullptr, *records_ = nullptr;
  kernels::StepNumbers* numbers_ = nullptr;  // behind the records
  std::vector<std::uint64_t> read_;          // the CPU's
  std::array<tensor::Event, 2> sent_;
  std::int64_t sends_ = 0, takes_ = 0;
};

}  // namespace trainyard::engine
