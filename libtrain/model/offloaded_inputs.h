// OffloadedInputs: the inputs of recomputed layers that lie in a storage, or on the host of a GPU, between forward and
// backward, and the buffers that they pass through. On a GPU, what lies in a storage also passes through its host.
#pragma once

#include "libtrain/base/storage.h"
#include "libtrain/base/view.h"
#include "libtrain/params/offload_link.h"
#include "libtrain/plan/cost/activation_offload.h"
#include "libtrain/tensor/arena.h"
#include "libtrain/tensor/device_buffer.h"
#include "libtrain/tensor/exec.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace trainyard::model {

// The compute thread of a rank makes all calls. Writes run in the background, and reads run ahead along the
// order of a step's backward passes. EnvironmentError where the storage fails.
class OffloadedInputs {
 public:
  // The extents of `plan` are those of the storage from `first_extent` on. Takes plan.buffer_bytes() of `buffers`.
  // The storage must outlive this.
  OffloadedInputs(plan::ActivationOffload plan, base::Storage& storage, int first_extent, tensor::Arena& buffers);
  // Of a GPU: its link, the Exec that computes, and an arena that gives plan.device_buffer_bytes(), as a part of it.
  // All must outlive this.
  struct OfGpu {
    params::OffloadLink& link;
    tensor::Exec& gpu;
    tensor::Arena& buffers;
  };
  // On the host of a GPU: takes plan.host_bytes() of `host`.
  OffloadedInputs(plan::ActivationOffload plan, const OfGpu& of, tensor::Arena& host);
  // In a storage, through the host of a GPU: takes plan.buffer_bytes() of `passages`.
  OffloadedInputs(plan::ActivationOffload plan, base::Storage& storage, int first_extent, const OfGpu& of,
                  tensor::Arena& passages);
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
    Ticket ticket = 0;        // of the transfer that uses it
    tensor::Event used = {};  // on a GPU: the copy from or to it, or the computation before that
    // Between a GPU and a storage:
    std::byte* passage = nullptr;  // of the host
    tensor::Event copied = {};     // the last copy from or to the passage
    int unwritten = -1;            // the extent to which the passage is to be written, once the copy to it has ended
    bool arrived = false;          // on its way from the passage to the buffer, or there
  };
  static Buffer& in_turn(std::vector<Buffer>& buffers, std::int64_t turn) {
    return buffers[base::size(turn) % buffers.size()];
  }
  void read_ahead();
  void wait(Buffer& buffer);
  void begin_write(int extent, Buffer& buffer);
  void begin_read(int extent, Buffer& buffer);
  void make_buffers(std::byte* memory, std::int64_t each);
  void take_of_gpu(const OfGpu& of);
  void use_storage(base::Storage& storage, int first_extent, std::byte* memory);
  void pin(std::byte* memory, std::int64_t bytes);
  std::byte* allocated(tensor::Arena& buffers) const;    // plan_.buffer_bytes() for direct transfers
  base::View passage_of(const Buffer& buffer) const;     // bytes of an input
  template <class Wait> void blocked(const Wait& wait);  // counts its seconds
  // Begins to write what has been copied to passages before, and waits for these copies.
  void write_passages();
  void bring_up(Buffer& buffer);  // to the GPU, unless it was before
  bool passes() const { return gpu_ != nullptr && storage_ != nullptr; }
  base::View in(const Buffer& buffer) const;  // bytes of an input in a buffer
  base::View on_host(int extent) const;       // of an extent there

  plan::ActivationOffload plan_;
  base::Storage* storage_ = nullptr;
  int first_extent_ = 0;
  params::OffloadLink* link_ = nullptr;  // of a GPU, as the next ones
  tensor::Exec* gpu_ = nullptr;
  std::optional<tensor::Arena> device_;
  std::byte* host_ = nullptr;
  tensor::Pinning pinned_;
  std::vector<tensor::Event> written_to_host_;  // for each extent
  std::vector<Buffer> writes_, reads_;
  std::vector<int> order_;                 // extents that a step takes
  std::vector<int> not_read_;              // for each extent: inputs written in this step whose read has not begun
  std::int64_t written_ = 0;               // inputs, so far
  std::int64_t begun_ = 0, released_ = 0;  // reads of this step
  double blocked_ = 0;
};

}  // namespace trainyard::model
