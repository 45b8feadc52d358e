// Batches: the micro-batches of a rank, which the loader thread prepares ahead.
#pragma once

#include "libtrain/data/window_source.h"
#include "libtrain/model/block.h"
#include "libtrain/plan/grid/batch.h"
#include "libtrain/plan/spec/objective.h"
#include "libtrain/tensor/device_buffer.h"

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace trainyard::engine {

// Has one buffer more than there are micro-batches in flight: while the trainer works on these, the loader thread fills
// the next one of this rank. A reference stays valid until the trainer has asked for `in_flight` further micro-batches.
// Errors of the loader (a damaged shard) are thrown by the call that wanted the data. The datasets must outlive it.
class Batches {
 public:
  // If `training` hides tokens, the model attends in both directions, and `validation` hides tokens, too. Without
  // `validation` nothing can be validated. Both have windows of one length.
  Batches(data::WindowSource& training, data::WindowSource* validation, const plan::BatchPlan& batch, int data_rank,
          int in_flight = 1);
  ~Batches();
  std::int64_t sequence() const { return training_.sequence(); }
  std::int64_t source_sequence() const { return training_.source_sequence(); }  // 0: there are no sources
  const plan::BatchPlan& batch() const { return plan_; }                        // of the largest step
  bool has_validation() const { return validation_ != nullptr; }
  int in_flight() const { return static_cast<int>(buffers_.size()) - 1; }
  Batches(const Batches&) = delete;

  // Names the Exec that will compute on the micro-batches. For a GPU they are copied to the device on a stream of their
  // own, from pinned memory that the device reads while the host continues. So the next micro-batch is copied while the
  // GPU works on the one before.
  void work_on(tensor::Exec& exec);

  // Sets where the data continues: `completed_steps` steps have consumed `samples_seen` samples. Without this call the
  // data begins at step 0. Call it before the first training().
  void begin_at(std::int64_t completed_steps, std::int64_t samples_seen) {
    sizes_ = plan::BatchSizes({plan_.global_batch, plan_.ramp}, completed_steps, samples_seen);
  }
  const plan::BatchSizes& sizes() const { return sizes_; }
  // How the step that follows `completed_steps` is divided.
  plan::BatchPlan batch_of(std::int64_t completed_steps) const {
    return plan_.of_size(sizes_.size_after(completed_steps));
  }

  // Calls follow the order in which this rank works on its micro-batches. A micro-batch in flight may be asked for
  // again.
  const model::MicroBatch& training(std::int64_t completed_steps, std::int64_t micro);
  // Sequences from micro * b on of the validation split, with b sequences a micro-batch. Sequences from `end` on only
  // fill up the micro-batch: none of their targets counts.
  const model::MicroBatch& validation(std::int64_t micro, std::int64_t end = std::numeric_limits<std::int64_t>::max());

 private:
  struct Buffer {
    // Holds the arrays below. With a GPU they lie in `pinned`, and their copies in `device`.
    std::vector<char> memory;
    tensor::PinnedBuffer pinned;
    tensor::DeviceBuffer device;
    std::int32_t *tokens = nullptr, *targets = nullptr, *positions = nullptr, *starts = nullptr,
                 *ends = nullptr;  // null: no query sees later tokens
    std::uint64_t* keys = nullptr;
    std::uint8_t* weights = nullptr;
    double* counted = nullptr;
    data::SourcePtrs source = {};
    model::MicroBatch batch, of_source;
    tensor::Event copied;  // the host side may be filled again
    tensor::Event used;    // the device side may be filled again
    std::int64_t step = -1, micro = -1;
  };
  plan::Objective objective() const { return training_.hides() ? plan::Objective::masked : plan::Objective::causal; }
  std::int64_t buffer_bytes() const;
  void lay_out(Buffer& buffer, char* host, char* seen, base::Device device) const;
  void lay_out_source(Buffer& buffer, char* host, char* seen, base::Device device) const;
  void upload(Buffer& buffer);
  void release(Buffer& buffer);
  void fill(Buffer& buffer, data::WindowSource& from, std::int64_t first_sample,
            std::int64_t end = std::numeric_limits<std::int64_t>::max());
  Buffer& ahead() { return buffers_[(current_ + 1) % buffers_.size()]; }
  std::vector<Buffer*> all();
  std::int64_t first_sample_of(std::int64_t step, std::int64_t micro) const;
  void after(std::int64_t& step, std::int64_t& micro) const;  // advances both to the rank's next micro-batch
  void work();

  data::WindowSource& training_;
  data::WindowSource* validation_;
  plan::BatchPlan plan_;
  int rank_;
  plan::BatchSizes sizes_;                // of steps
  tensor::Exec* exec_ = nullptr;          // a GPU's; null on a CPU
  std::unique_ptr<tensor::Exec> copies_;  // makes the copies, on the same GPU
  std::vector<Buffer> buffers_;           // used in rotation
  Buffer evaluation_;
  std::size_t current_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool wanted_ = false, leave_ = false;  // wanted_: ahead() is to be filled
  std::int64_t want_step_ = 0, want_micro_ = 0;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace trainyard::engine
