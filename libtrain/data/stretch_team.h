// StretchTeam: threads that work on the stretches of a source, with results in the order of the input.
#pragma once

#include "libtrain/base/index.h"
#include "libtrain/base/thread.h"
#include "libtrain/data/document_source.h"

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace trainyard::data {

struct StretchTeamOptions {
  int threads = 1;  // including the caller's; fewer where the system has no more
  std::size_t stretch_bytes = DocumentSource::stretch_bytes;
  const char* name = "stretches";  // of the threads
};

// A ring of stretches. The caller's thread reads into the ring's head and passes results on from its tail. Other
// threads work on the stretches between, and so does the caller's thread where it would wait. Memory: at most threads +
// 2 stretches (one for a single thread) with their results.
template <class Made> class StretchTeam {
 public:
  // Splits a stretch and replaces `made`, which may have another stretch's result. Any thread may call it.
  using Make =
      std::function<void(DocumentSplitter&, const DocumentSource::SourceStretch&, Findings& findings, Made& made)>;

  StretchTeam(DocumentSource& source, const StretchTeamOptions& options, Make make)
      : source_(source), options_(options), make_(std::move(make)),
        slots_(options.threads > 1 ? base::size(options.threads) + 2 : 1) {
    team_.reserve(base::size(options.threads));
  }
  ~StretchTeam() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    work_.notify_all();
    for (auto& thread : team_) thread.join();
  }
  StretchTeam(const StretchTeam&) = delete;

  // Reads the source to its end. Calls take() and refuse() in order, and progress() with the bytes read so far, all on
  // the caller's thread. An exception from these or from the source ends it, once the other threads have finished their
  // stretches.
  void run(const std::function<void(Made&)>& take, const std::function<void(const Refusal&)>& refuse,
           const std::function<void(std::int64_t)>& progress) {
    DocumentSplitter splitter;
    for (bool more = true; more || tail_ < head_;) {
      if (tail_ < head_ && (!more || head_ - tail_ == slots_.size() || is_done(tail_))) {
        auto& slot = finished_tail(splitter);
        if (slot.failure) std::rethrow_exception(slot.failure);
        source_.settle(slot.read, slot.findings, refuse);
        take(slot.made);
        ++tail_;
        continue;
      }
      auto& slot = slots_[head_ % slots_.size()];
      more = source_.next(slot.read, options_.stretch_bytes);
      if (!more) continue;
      progress(source_.bytes_read());
      offer(slot);
    }
  }

 private:
  struct Slot {
    DocumentSource::SourceStretch read;
    Findings findings;
    Made made;
    std::exception_ptr failure;
    bool done = false;
  };

  void offer(Slot& slot) {
    slot.done = false;
    slot.failure = nullptr;
    bool all_busy = false;
    {
      const std::lock_guard lock(mutex_);
      ++head_;
      all_busy = head_ - next_ > idle_;
    }
    if (all_busy && can_grow_ && static_cast<int>(team_.size()) + 1 < options_.threads) {
      try {
        // Created here, because nothing may be thrown on the new thread.
        auto splitter = std::make_shared<DocumentSplitter>();
        team_.push_back(base::start_thread(options_.name, [this, splitter] { work_along(*splitter); }));
      } catch (const std::system_error&) {
        // No threads or no memory are left: the running threads share the work.
        can_grow_ = false;
      }
    }
    work_.notify_one();
  }

  bool is_done(std::size_t place) {
    const std::lock_guard lock(mutex_);
    return slots_[place % slots_.size()].done;
  }

  // Works on stretches that no thread has begun until the tail is done.
  Slot& finished_tail(DocumentSplitter& splitter) {
    auto& slot = slots_[tail_ % slots_.size()];
    std::unique_lock lock(mutex_);
    while (!slot.done) {
      if (next_ < head_) make_next(lock, splitter);
      else done_.wait(lock, [&] { return slot.done; });
    }
    return slot;
  }

  void work_along(DocumentSplitter& splitter) {
    std::unique_lock lock(mutex_);
    while (true) {
      ++idle_;
      work_.wait(lock, [&] { return over_ || next_ < head_; });
      --idle_;
      if (over_) return;
      make_next(lock, splitter);
    }
  }

  void make_next(std::unique_lock<std::mutex>& lock, DocumentSplitter& splitter) {
    auto& slot = slots_[next_++ % slots_.size()];
    lock.unlock();
    try {
      make_(splitter, slot.read, slot.findings, slot.made);
    } catch (...) {
      slot.failure = std::current_exception();
    }
    lock.lock();
    slot.done = true;
    done_.notify_one();
  }

  DocumentSource& source_;
  const StretchTeamOptions options_;
  const Make make_;
  std::vector<Slot> slots_;
  // Numbers of stretches read and passed on. Only the caller's thread changes them.
  std::size_t head_ = 0, tail_ = 0;
  bool can_grow_ = true;
  std::vector<std::thread> team_;

  std::mutex mutex_;  // guards the members below, `done` of each slot, and changes of head_
  std::condition_variable work_, done_;
  std::size_t next_ = 0, idle_ = 0;  // stretches begun; threads that wait
  bool over_ = false;
};

}  // namespace trainyard::data
