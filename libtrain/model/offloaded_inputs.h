// OffloadedInputs: the inputs of recomputed layers that lie in a storage between forward and backward, and the buffers
// that they pass through.
#pragma once

#include "libtrain/base/storage.h"
#include "libtrain/base/view.h"
#include "libtrain/plan/cost/activation_offload.h"
#include "libtrain/tensor/arena.h"
#include "libtrain/tensor/exec.h"

#include <cstdint>
#include <vector>

namespace trainyard::model {

// The compute thread of a rank on the CPU makes all calls. Writes run in the background, and reads run ahead along the
// order of a step's backward passes. EnvironmentError where the storage fails.
class OffloadedInputs {
 public:
  // The extents of `plan` are those of the storage from `first_extent` on. Takes plan.buffer_bytes() of `buffers`.
  // The storage must outlive this.
  OffloadedInputs(plan::ActivationOffload plan, base::Storage& storage, int first_extent, tensor::Arena& buffers);
  OffloadedInputs(const OffloadedInputs&) = delete;
  OffloadedInputs& operator=(const OffloadedInputs&) = delete;

  const plan::ActivationOffload& plan() const { return plan_; }
  // Of the steps that follow: the extents that a step takes, in order (plan::input_reads).
  void set_reads(std::vector<int> reads);
  // Before the first write of a step. What an abandoned step wrote and did not take is forgotten.
  void begin_step();
  // Copies the input, and begins writing it to an extent.
  void write(tensor::Exec& exec, int extent, base::ConstView input);
  // Waits for the next input in the order of the step, which must be that of `extent`. The view has the dtype and the
  // shape of `like`. It may be overwritten, and is valid until release().
  base::View take(int extent, base::ConstView like);
  void release();
  double blocked_seconds() const { return blocked_; }  // that the caller was blocked for transfers so far

 private:
  using Ticket = base::Storage::Ticket;
  struct Buffer {
    std::byte* memory = nullptr;
    Ticket ticket = 0;  // of the transfer that uses it
  };
  static Buffer& in_turn(std::vector<Buffer>& buffers, std::int64_t turn) {
    return buffers[base::size(turn) % buffers.size()];
  }
  void read_ahead();
  void wait(Buffer& buffer);

  plan::ActivationOffload plan_;
  base::Storage& storage_;
  int first_extent_;
  std::vector<Buffer> writes_, reads_;
  std::vector<int> order_;                 // extents that a step takes
  std::vector<int> not_read_;              // for each extent: inputs written in this step whose read has not begun
  std::int64_t written_ = 0;               // inputs, so far
  std::int64_t begun_ = 0, released_ = 0;  // reads of this step
  double blocked_ = 0;
};

}  // namespace trainyard::model
