// The two CPU Execs: the calling thread, and a worker thread with a queue.
#include "libtrain/tensor/exec.h"

#include "libtrain/base/error.h"
#include "libtrain/base/thread.h"
#include "libtrain/tensor/event_state.h"

#include <atomic>
#include <condition_variable>
#include <ctime>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

namespace trainyard::tensor {

namespace {

// A point in the queue of a worker thread.
struct HostState : Event::State {
  explicit HostState(std::shared_ptr<std::atomic<int>> w) : waiting(std::move(w)) {}
  bool done() override {
    std::lock_guard lock(mutex);
    return reached;
  }
  void wait() override {
    std::unique_lock lock(mutex);
    if (!reached) {
      ++*waiting;
      changed.wait(lock, [this] { return reached; });
      --*waiting;
    }
    if (failure) std::rethrow_exception(failure);
  }
  // Threads that wait for any event of the Exec. It is shared, because an event may outlive the Exec.
  std::shared_ptr<std::atomic<int>> waiting;
  std::mutex mutex;
  std::condition_variable changed;
  bool reached = false;
  std::exception_ptr failure;
};

}  // namespace

bool Event::done() const { return !state_ || state_->done(); }

void Event::wait() const {
  if (state_) state_->wait();
}

Arena& Exec::scratch() const {
  TRAINYARD_ASSERT(scratch_ != nullptr, "this Exec has no scratch arena");
  return *scratch_;
}

namespace {

double seconds() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

class CallerExec : public Exec {
 public:
  CallerExec(Arena* scratch, int threads) : Exec({}, scratch, threads) {}
  Event record() override { return {}; }
  void wait(const Event& event) override { event.wait(); }
  void synchronize() override {}
  double busy_seconds() override { return 0; }
};

class WorkerExec : public Exec {
 public:
  WorkerExec(const std::string& name, Arena* scratch, int threads) : Exec({}, scratch, threads, Runs::later) {
    thread_ = base::start_thread(name, [this] { work(); });
  }
  ~WorkerExec() override {
    {
      std::lock_guard lock(mutex_);
      leave_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void submit(std::function<void()> work) override { push({std::move(work), nullptr, {}}); }
  Event record() override {
    auto state = std::make_shared<HostState>(waiting_);
    push({nullptr, state, {}});
    return Event(state);
  }
  void wait(const Event& event) override { push({nullptr, nullptr, event}); }
  void synchronize() override { record().wait(); }
  bool waited_for() const override { return waiting_->load() > 0; }
  double busy_seconds() override { return busy_.load(); }

 private:
  struct Item {
    std::function<void()> work;
    std::shared_ptr<HostState> signal;  // an event to set,
    Event awaited;                      // or an event to wait for
  };
  void push(Item item) {
    {
      std::lock_guard lock(mutex_);
      items_.push_back(std::move(item));
    }
    changed_.notify_one();
  }
  // After a failure, later work is skipped, and every later event carries the failure.
  void work() {
    std::exception_ptr failure;
    while (true) {
      Item item;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return leave_ || !items_.empty(); });
        if (items_.empty()) return;
        item = std::move(items_.front());
        items_.pop_front();
      }
      if (item.signal) {
        {
          std::lock_guard lock(item.signal->mutex);
          item.signal->reached = true;
          item.signal->failure = failure;
        }
        item.signal->changed.notify_all();
      } else if (!failure) {
        const double start = seconds();
        try {
          if (item.work) item.work();
          else item.awaited.wait();
        } catch (...) {
          failure = std::current_exception();
        }
        if (item.work) busy_ = busy_.load() + (seconds() - start);
      }
    }
  }

  std::shared_ptr<std::atomic<int>> waiting_ = std::make_shared<std::atomic<int>>(0);
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool leave_ = false;
  std::atomic<double> busy_{0};
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Exec> Exec::caller(Arena* scratch, int threads) {
  static std::atomic<int> known{1};  // largest number of threads known to start
  if (threads > known) base::require_threads(threads - 1), known = threads;
  return std::make_unique<CallerExec>(scratch, threads);
}
std::unique_ptr<Exec> Exec::worker(const std::string& thread_name, Arena* scratch, int threads) {
  return std::make_unique<WorkerExec>(thread_name, scratch, threads);
}

}  // namespace trainyard::tensor
