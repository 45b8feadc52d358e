// Saver: copies this rank's shards into a snapshot in memory and writes it on a thread of its own, which never
// communicates. It leaves out what another rank saves (plan/blocks/ownership.h).
#pragma once

#include "libtrain/checkpoint/rank_writer.h"
#include "libtrain/params/zero_store.h"
#include "libtrain/plan/blocks/ownership.h"
#include "libtrain/plan/schedule/stages.h"
#include "libtrain/tensor/arena.h"
#include "libtrain/tensor/device_buffer.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace trainyard::engine {

// Life of a checkpoint: take() copies the shards and starts writing. written_step() reports when this rank's file is
// complete. Once all ranks have agreed on that, rank 0 calls publish(), which also works in the background.
// published_step() then reports the step. There is one checkpoint at a time: take() first waits for the one before.
// What the store has on disk is read in pieces while the file is written, and take() returns only then.
// `require_alone` is called before publishing, and throws if another run writes there, too. `stages` divides the model
// among pipeline stages: flat groups that the rank's stage borrows are not saved.
class Saver {
 public:
  Saver(
      std::string folder, tensor::Arena& arena, params::StoreContext& context, params::ZeroStore& store, int keep,
      checkpoint::WriteOptions options, std::function<void()> require_alone = [] {}, plan::Stages stages = {});
  ~Saver();
  Saver(const Saver&) = delete;

  // Touches the snapshot's memory in the background (and pins it for a GPU). The first take() is then as fast as later
  // ones.
  void touch();
  void take(const checkpoint::RunState& state);
  void publish();  // rank 0, once per take()
  void wait();     // until the background work queued so far is done

  std::int64_t taken_step() const { return taken_step_; }  // -1 before the first
  const checkpoint::RunState& taken() const { return state_; }
  std::int64_t written_step() const;
  std::int64_t published_step() const;
  bool failed() const;
  void rethrow_failure() const;

 private:
  std::vector<plan::ShardRange> without_gaps(int flat_group, const std::vector<plan::ShardRange>& ranges) const;
  void place_factored_states(tensor::Arena& arena);
  std::pair<plan::Held, std::size_t> place_of(const checkpoint::Kind& kind) const;
  void enqueue_write();
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
  std::map<checkpoint::Kind, std::vector<Saved>> ranges_;  // of the views of each kind
  // A state of rows or columns that the rank saves, and its place in the snapshot.
  struct SavedState {
    std::size_t state;  // in OptimizerKind::states
    int flat_group;
    std::size_t parameter;
    base::View copy;
  };
  std::vector<SavedState> factored_;
  checkpoint::RankShards shards_;  // views of these ranges in the snapshot
  std::span<char> snapshot_;       // the memory of shards_
  tensor::Pinning pinned_;         // for a GPU; made by the writer thread
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
