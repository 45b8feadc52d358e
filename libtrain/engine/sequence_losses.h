// SequenceLosses: the loss of each sequence of a step, for a run that mixes shard sets.
#pragma once

#include "libtrain/model/block.h"
#include "libtrain/params/rank_execs.h"
#include "libtrain/plan/grid/batch.h"
#include "libtrain/tensor/device_buffer.h"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace trainyard::engine {

// Of this rank's own micro-batches, by their places in working order. Beside the arenas it uses 40 bytes a sequence.
// The compute thread makes all calls. At most two steps may be between begin() and take().
class SequenceLosses {
 public:
  SequenceLosses(params::RankExecs& execs, const plan::BatchPlan& largest);
  SequenceLosses(const SequenceLosses&) = delete;
  std::int64_t count() const { return places_ * micro_batch_; }  // of sequences, with those of empty micro-batches

  void begin();                                                    // a step: all losses and counts are 0
  void enter(std::int64_t place, const model::MicroBatch& micro);  // keeps the counts of its targets
  base::View of(std::int64_t place);                               // f64 [micro-batch] on the device, to be filled
  void send();                                                     // all of the step is submitted

  // Pairs of a loss sum and a target count for each sequence, of the oldest step that was sent. Valid until two further
  // steps have begun.
  std::span<const double> take();

 private:
  params::RankExecs& execs_;
  std::int64_t places_, micro_batch_;
  std::vector<double> host_;  // the losses, on a CPU
  tensor::DeviceBuffer device_;
  tensor::PinnedBuffer pinned_;
  double* losses_ = nullptr;
  std::array<std::vector<double>, 2> read_;   // copies of losses, on a CPU
  std::array<std::vector<double>, 2> pairs_;  // what take() returns; counts are written first
  std::array<tensor::Event, 2> sent_;
  std::int64_t sends_ = 0, takes_ = 0;
};

}  // namespace trainyard::engine
