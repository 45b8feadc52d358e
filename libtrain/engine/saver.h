// Saver: takes a snapshot of this rank's shards, without what another rank saves (plan/ownership.h), in memory and
// writes it on a thread of its own, which never communicates.
#pragma once

#include "libtrain/checkpoint/rank_writer.h"
#include "libtrain/params/zero_store.h"
#include "libtrain/plan/ownership.h"
#include "libtrain/plan/stages.h"
#include "libtrain/tensor/arena.h"
#include "libtrain/tensor/device_buffer.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace trainyard::engine {

// Life of a checkpoint: take() copies the shards and starts writing; written() tells when this rank's file is complete;
// once all ranks have agreed on that, rank 0 calls publish(), also done in the background; published() then tells the
// step. One checkpoint at a time: take() first waits for the one before. `require_alone` is called before publishing,
// and throws where another run writes too. `stages` is how the model is cut along pipe: of the flat groups that the
// rank's stage borrows nothing is saved.
class Saver {
 public:
  Saver(
      std::string folder, tensor::Arena& arena, params::StoreContext& context, params::ZeroStore& store, int keep,
      checkpoint::WriteOptions options, std::function<void()> require_alone = [] {}, plan::Stages stages = {});
  ~Saver();
  Saver(const Saver&) = delete;

  void touch();  // brings the snapshot's memory in (and pins it for a GPU), in the background: the first take() is then
                 // as fast as the others
  void take(const checkpoint::RunState& state);
  void publish();  // rank 0, once per take()
  void wait();     // until the background work handed over so far is done

  std::int64_t taken_step() const { return taken_step_; }  // -1 before the first
  const checkpoint::RunState& taken() const { return state_; }
  std::int64_t written_step() const;
  std::int64_t published_step() const;
  bool failed() const;
  void rethrow_failure() const;

 private:
  void work();
  void enqueue(std::function<void()> job);

  std::string folder_;
  params::StoreContext& context_;
  params::ZeroStore& store_;
  int keep_;
  checkpoint::WriteOptions options_;
  std::function<void()> require_alone_;
  plan::Stages stages_;
  struct Saved {
    int flat_group;
    plan::ShardRange range;  // of the rank's shard
  };
  std::vector<Saved> ranges_;
  checkpoint::RankShards shards_;  // their views
  std::span<char> snapshot_;       // the memory that shards_ lie in
  tensor::Pinning pinned_;         // for a GPU; made by the writer
  checkpoint::RunState state_;
  std::int64_t taken_step_ = -1;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool busy_ = false, leave_ = false;
  std::int64_t written_step_ = -1, published_step_ = -1;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace trainyard::engine
