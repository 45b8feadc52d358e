// StepResults: the losses, gradient norm, clip factor and gate records of a step. They are computed in memory of the
// device that computes, and the host reads them later.
#pragma once

#include "kernels/square_sum/square_sum.h"
#include "kernels/step_numbers/step_numbers.h"
#include "libtrain/comm/communicator.h"
#include "libtrain/engine/gate_metrics.h"
#include "libtrain/engine/non_finite.h"
#include "libtrain/engine/outlier_steps.h"
#include "libtrain/params/rank_execs.h"
#include "libtrain/plan/grid/batch.h"
#include "libtrain/tensor/device_buffer.h"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace trainyard::engine {

// On a GPU it uses device memory outside the arenas: a few hundred bytes, 16 for every micro-batch, and 8 for every
// number of the gates' records. Numbers and records are copied to pinned memory after each step. On the CPU it uses
// host memory. The compute thread makes all calls.
class StepResults {
 public:
  // batch: of the largest step. `results` reaches all ranks and takes views of the device of `execs.compute`.
  // Tensor-parallel ranks of a replica are neighbours and have the same losses: the first of them counts. Of pipeline
  // stages the last one counts.
  StepResults(params::RankExecs& execs, const plan::BatchPlan& batch, comm::Communicator& results, double clip,
              GateRecordShape gates = {}, NonFinitePolicy non_finite = NonFinitePolicy::stop);
  ~StepResults();
  StepResults(const StepResults&) = delete;

  // The division of the steps that begin from now on: at most as many micro-batches as the constructor's.
  void divide(const plan::BatchPlan& batch);
  void begin();  // forgets the losses and gate records of the step before
  // f64 [1] each: loss sum and target count of a micro-batch. `place` counts this rank's micro-batches in working
  // order.
  base::View loss_of(std::int64_t place) const { return pair(place, 0); }
  base::View targets_of(std::int64_t place) const { return pair(place, 1); }

  // i64: the rows of model::Step::gate_records. Empty if the model has no experts. Empty also on all tensor-parallel
  // ranks of a replica but the first, which reports what all of them do alike.
  base::View gate_records() const;

  // Gathers the losses of all ranks. Adds up the squares of the gradients that this rank counts and the gate records,
  // each over all ranks. Then computes the numbers. The gradients have the factor `loss_scale`, a power of two. A step
  // above a limit is an outlier, whose update changes nothing. All of it is in the order of execs.compute; on a GPU the
  // host does not wait. Collective.
  // `counted_before`: the squares of gradients that are no longer in memory; CPU only.
  void agree(std::span<const base::ConstView> gradients, double loss_scale = 1, const OutlierLimits& limits = {},
             const kernels::FixedPointSum* counted_before = nullptr);
  const kernels::StepNumbers* numbers() const { return numbers_; }  // in device memory

  struct Collected {
    kernels::StepNumbers numbers;
    std::span<const std::int64_t> gate_records;  // summed over all ranks; valid until the next send()
  };
  // Copies numbers and records of the newest step to the host. At most two copies may be under way. take() waits for
  // the oldest.
  void send();
  Collected take();

  std::vector<double> own_losses();  // pairs of loss sum and targets, for a diagnosis; waits

 private:
  base::View pair(std::int64_t place, int which) const;
  std::int64_t own_count() const { return 2 * places_; }
  base::View sums() const;  // limbs, then records
  std::int64_t reported_words() const;
  std::uint64_t* reported(std::size_t at);  // the host's copy: records, then numbers

  params::RankExecs& execs_;
  comm::Communicator& results_;
  plan::BatchPlan batch_;  // of the newest step
  std::int64_t places_, most_places_;
  double clip_;
  GateRecordShape gates_;
  NonFinitePolicy non_finite_;
  std::vector<std::uint64_t> host_;  // memory on a CPU
  tensor::DeviceBuffer device_;      // memory on a GPU
  tensor::PinnedBuffer pinned_;
  double *own_ = nullptr, *all_ = nullptr;  // [2 * places], [ranks][2 * places]
  std::int64_t *limbs_ = nullptr, *records_ = nullptr;
  kernels::StepNumbers* numbers_ = nullptr;  // right after the records
  std::vector<std::uint64_t> read_;          // copies for the host, on a CPU
  std::array<tensor::Event, 2> sent_;
  std::int64_t sends_ = 0, takes_ = 0;
};

}  // namespace trainyard::engine
