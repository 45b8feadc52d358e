// Batches: the micro-batches of a rank, made ahead by the loader thread.
#pragma once

#include "libtrain/data/window_dataset.h"
#include "libtrain/model/block.h"
#include "libtrain/plan/batch.h"

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace trainyard::engine {

// Two buffers: while the trainer works on one micro-batch the loader fills the next of this rank. A reference stays valid until the next call. Errors of the
// loader (a damaged shard) are thrown by the call that wanted the data.
class Batches {
 public:
  Batches(data::WindowDataset& training, data::WindowDataset* validation, const plan::BatchPlan& batch, int data_rank);
  ~Batches();
  Batches(const Batches&) = delete;

  const model::MicroBatch& training(std::int64_t completed_steps, std::int64_t micro);
  const model::MicroBatch& validation(std::int64_t micro);   // sequences micro * b .. of the validation split

 private:
  struct Buffer {
    std::vector<std::int32_t> tokens, targets, positions, starts;
    std::vector<std::uint8_t> weights;
    model::MicroBatch batch;
    std::int64_t step = -1, micro = -1;
  };
  void prepare(Buffer& buffer) const;
  void fill(Buffer& buffer, data::WindowDataset& from, std::int64_t first_sample);
  void after(std::int64_t& step, std::int64_t& micro) const;   // the rank's next micro-batch
  void work();

  data::WindowDataset& training_;
  data::WindowDataset* validation_;
  plan::BatchPlan plan_;
  int rank_;
  Buffer buffers_[2], evaluation_;
  int current_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool wanted_ = false, leave_ = false;       // wanted_: buffers_[1 - current_] is to be filled
  std::int64_t want_step_ = 0, want_micro_ = 0;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace trainyard::engine
