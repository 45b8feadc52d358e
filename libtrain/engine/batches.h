// Batches: the micro-batches of a rank, made ahead by the loader thread.
#pragma once

#include "libtrain/data/window_dataset.h"
#include "libtrain/model/block.h"
#include "libtrain/plan/batch.h"
#include "libtrain/plan/objective.h"
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

// One buffer more than there are micro-batches in flight: while the trainer works on those the loader fills the next of
// this rank. A reference stays valid until as many others have been asked for. Errors of the loader (a damaged shard)
// are thrown by the call that wanted the data.
class Batches {
 public:
  // Where `training` hides tokens the model sees both ways, and so does `validation`.
  Batches(data::WindowDataset& training, data::WindowDataset* validation, const plan::BatchPlan& batch, int data_rank,
          int in_flight = 1);
  ~Batches();
  int in_flight() const { return static_cast<int>(buffers_.size()) - 1; }
  Batches(const Batches&) = delete;

  // The Exec that will work on the micro-batches. With a GPU's they are copied there on a stream of their own, from
  // memory that it can read while the host goes on: the next one while the GPU works on the one before.
  void work_on(tensor::Exec& exec);

  // Where the data goes on: the samples that `completed_steps` steps have consumed. Without it each of them took a
  // global batch of today. Before the first training().
  void begin_at(std::int64_t completed_steps, std::int64_t samples_seen) {
    shift_ = samples_seen - plan_.sample(completed_steps, 0, 0);
  }

  // Micro-batches are asked for in the order in which this rank works on them; one that is in flight may be asked for
  // again.
  const model::MicroBatch& training(std::int64_t completed_steps, std::int64_t micro);
  // Sequences micro * b .. of the validation split. Those from `end` on only fill the micro-batch up: none of their
  // targets counts.
  const model::MicroBatch& validation(std::int64_t micro, std::int64_t end = std::numeric_limits<std::int64_t>::max());

 private:
  struct Buffer {
    std::vector<char>
        memory;  // of the arrays below; with a GPU they lie in the pinned one, and their copies in the other
    tensor::PinnedBuffer pinned;
    tensor::DeviceBuffer device;
    std::int32_t *tokens = nullptr, *targets = nullptr, *positions = nullptr, *starts = nullptr,
                 *ends = nullptr;  // null: no query sees behind itself
    std::uint64_t* keys = nullptr;
    std::uint8_t* weights = nullptr;
    double* counted = nullptr;
    model::MicroBatch batch;
    tensor::Event copied;  // the host side may be filled again
    tensor::Event used;    // the device side may be filled again
    std::int64_t step = -1, micro = -1;
  };
  plan::Objective objective() const { return training_.hides() ? plan::Objective::masked : plan::Objective::causal; }
  std::int64_t buffer_bytes() const;
  void lay_out(Buffer& buffer, char* host, char* seen, base::Device device) const;
  void upload(Buffer& buffer);
  void release(Buffer& buffer);
  void fill(Buffer& buffer, data::WindowDataset& from, std::int64_t first_sample,
            std::int64_t end = std::numeric_limits<std::int64_t>::max());
  Buffer& ahead() { return buffers_[(current_ + 1) % buffers_.size()]; }
  std::vector<Buffer*> all();
  void after(std::int64_t& step, std::int64_t& micro) const;  // the rank's next micro-batch
  void work();

  data::WindowDataset& training_;
  data::WindowDataset* validation_;
  plan::BatchPlan plan_;
  int rank_;
  std::int64_t shift_ = 0;                // of sample ordinals, against steps of plan_ from the beginning
  tensor::Exec* exec_ = nullptr;          // a GPU's
  std::unique_ptr<tensor::Exec> copies_;  // on the same GPU
  std::vector<Buffer> buffers_;           // in turn
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
