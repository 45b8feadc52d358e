// The loader thread and its two buffers.
#include "libtrain/engine/batches.h"

#include <csignal>
#include <pthread.h>
#include <utility>

namespace trainyard::engine {

Batches::Batches(data::WindowDataset& training, data::WindowDataset* validation, const plan::BatchPlan& batch, int data_rank)
    : training_(training), validation_(validation), plan_(batch), rank_(data_rank) {
  for (auto* b : {&buffers_[0], &buffers_[1], &evaluation_}) prepare(*b);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  thread_ = std::thread([this] { work(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), "loader");
}

Batches::~Batches() {
  {
    std::lock_guard lock(mutex_);
    leave_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Batches::prepare(Buffer& x) const {
  const auto b = plan_.micro_batch, T = training_.sequence();
  const auto n = static_cast<std::size_t>(b * T);
  for (auto* v : {&x.tokens, &x.targets, &x.positions, &x.starts}) v->resize(n);
  x.weights.resize(n);
  x.batch.tokens = base::View::of(x.tokens.data(), {b, T});
  x.batch.targets = base::View::of(x.targets.data(), {b, T});
  x.batch.positions = base::View::of(x.positions.data(), {b, T});
  x.batch.document_start = base::View::of(x.starts.data(), {b, T});
  x.batch.weights = base::View::of(x.weights.data(), {b, T});
  x.batch.samples.resize(static_cast<std::size_t>(b));
}

void Batches::fill(Buffer& x, data::WindowDataset& from, std::int64_t first_sample) {
  const auto T = training_.sequence();
  for (std::int64_t i = 0; i < plan_.micro_batch; ++i) {
    const auto at = i * T;
    x.batch.samples[static_cast<std::size_t>(i)] = static_cast<std::uint64_t>(first_sample + i);
    from.fill(static_cast<std::uint64_t>(first_sample + i), {x.tokens.data() + at, x.targets.data() + at, x.positions.data() + at, x.starts.data() + at, x.weights.data() + at});
  }
}

void Batches::after(std::int64_t& step, std::int64_t& micro) const {
  const auto group = micro / plan_.fold;
  if (micro + 1 < plan_.end_micro(group)) {
    ++micro;
    return;
  }
  const auto next = group + plan_.data_ranks;
  if (next < plan_.groups()) {
    micro = plan_.first_micro(next);
  } else {
    ++step;
    micro = plan_.first_micro(rank_);
  }
}

const model::MicroBatch& Batches::training(std::int64_t step, std::int64_t micro) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !wanted_; });
  if (failure_) std::rethrow_exception(failure_);
  auto& ahead = buffers_[1 - current_];
  if (ahead.step != step || ahead.micro != micro) {  // the first one, or a step that is repeated
    fill(ahead, training_, plan_.sample(step, micro, 0));
    ahead.step = step, ahead.micro = micro;
  }
  current_ = 1 - current_;
  want_step_ = step, want_micro_ = micro;
  after(want_step_, want_micro_);
  wanted_ = true;
  changed_.notify_all();
  return buffers_[current_].batch;
}

const model::MicroBatch& Batches::validation(std::int64_t micro) {
  fill(evaluation_, *validation_, micro * plan_.micro_batch);
  return evaluation_.batch;
}

void Batches::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return leave_ || wanted_; });
    if (leave_) return;
    auto& x = buffers_[1 - current_];
    const auto step = want_step_, micro = want_micro_;
    lock.unlock();
    std::exception_ptr failure;
    try {
      fill(x, training_, plan_.sample(step, micro, 0));
      x.step = step, x.micro = micro;
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    failure_ = failure;
    wanted_ = false;
    changed_.notify_all();
  }
}

}  // namespace trainyard::engine
