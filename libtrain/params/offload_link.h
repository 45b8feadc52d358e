// OffloadLink: copies between a GPU and the memory of its host, beside the computation.
#pragma once

#include "libtrain/plan/spec/offload.h"
#include "libtrain/tensor/exec.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

namespace trainyard::params {

// The compute thread copies weights up, gradients down and inputs of layers both ways; the thread of updates copies
// tiles. Each has a stream. Copies of one stream run in order. Host memory should be pinned (tensor::Pinning), else a
// copy holds up its caller.
class OffloadLink {
 public:
  // Who copies, and where to: down to the host, or up to the device.
  enum class Stream { gradients_down, weights_up, tiles_down, tiles_up, inputs_down, inputs_up };

  explicit OffloadLink(base::Device device);

  // Copies a dense view to another of the same bytes once `after` is done. Returns the event of its end.
  tensor::Event copy(Stream stream, base::ConstView from, base::View to, const tensor::Event& after);
  // Down, of elements that are rounded to the dtype of `to` on their way, through `through`, memory of the device.
  tensor::Event copy_rounded(Stream stream, base::ConstView from, base::View through, base::View to);
  // What is copied on the stream from now on waits for the event.
  void wait(Stream stream, const tensor::Event& event) { exec(stream).wait(event); }
  // The end of what was copied so far. The thread that copies on the stream calls it.
  tensor::Event record(Stream stream) { return exec(stream).record(); }

  plan::LinkBytes totals() const { return {down_, up_}; }  // that were copied so far; any thread may ask

 private:
  tensor::Exec& exec(Stream stream) { return *execs_[static_cast<std::size_t>(stream)]; }
  std::array<std::unique_ptr<tensor::Exec>, 6> execs_;
  std::atomic<std::int64_t> down_ = 0, up_ = 0;
};

}  // namespace trainyard::params
